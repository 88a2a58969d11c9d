import unittest

import spans


class Formatting(unittest.TestCase):
    def test_leaves_out_units_that_are_zero(self):
        self.assertEqual(spans.format_span(3601), "1h1s")
        self.assertEqual(spans.format_span(0), "0s")

    def test_reads_back_what_it_wrote(self):
        for seconds in (1, 59, 60, 5400, 90_061, 1_209_600):
            self.assertEqual(spans.parse(spans.format_span(seconds)), seconds)
