"""The behaviour that the issue asks for; the agent never sees this file."""

import unittest

import spans


class ParsingWholeText(unittest.TestCase):
    def test_refuses_anything_besides_parts(self):
        for text in (
            "1h, more or less",
            "1h 30x 5m",
            "1h 30m",
            " 1h",
            "1h\n",
            "x1h",
            "1h30",
            "-1h",
            "1.5h",
            "",
        ):
            with self.subTest(text=text), self.assertRaises(ValueError):
                spans.parse(text)

    def test_reads_durations_of_no_length(self):
        self.assertEqual(spans.parse("0s"), 0)
        self.assertEqual(spans.parse("0h0m"), 0)

    def test_reads_what_it_read_before(self):
        self.assertEqual(spans.parse("1w1d1h1m1s"), 694_861)
        self.assertEqual(spans.parse("90m"), 5400)
        self.assertEqual(spans.parse("1s1h"), 3601)
