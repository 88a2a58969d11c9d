"""The behaviour that the issue asks for; the agent never sees this file."""

import unittest

import spans


class Rounding(unittest.TestCase):
    def test_rounds_to_the_smallest_unit_written(self):
        self.assertEqual(spans.format_span(119, most_units=1), "2m")
        self.assertEqual(spans.format_span(90, most_units=1), "2m")
        self.assertEqual(spans.format_span(89, most_units=1), "1m")
        self.assertEqual(spans.format_span(90_061, most_units=2), "1d1h")
