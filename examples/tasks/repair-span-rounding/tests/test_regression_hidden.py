"""What worked before the change and is easily broken by it: a fix that breaks it is no fix."""

import unittest

import spans


class Regression(unittest.TestCase):
    def test_a_full_unit_is_carried(self):
        self.assertEqual(spans.format_span(3599, most_units=1), "1h")
        self.assertEqual(spans.format_span(86_399, most_units=2), "1d")
        self.assertEqual(spans.format_span(604_799, most_units=3), "1w")

    def test_units_that_are_zero_still_do_not_count(self):
        self.assertEqual(spans.format_span(3601, most_units=2), "1h1s")
        self.assertEqual(spans.format_span(604_801, most_units=2), "1w1s")

    def test_what_fits_is_written_exactly(self):
        self.assertEqual(spans.format_span(694_861), "1w1d1h1m1s")
        self.assertEqual(spans.format_span(0, most_units=1), "0s")
        for seconds in range(1, 700_000, 997):
            self.assertEqual(spans.parse(spans.format_span(seconds)), seconds)
