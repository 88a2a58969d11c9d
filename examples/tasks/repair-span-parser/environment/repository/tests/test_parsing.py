import unittest

import spans


class Parsing(unittest.TestCase):
    def test_adds_the_parts(self):
        self.assertEqual(spans.parse("1h30m"), 5400)
        self.assertEqual(spans.parse("2w"), 1_209_600)

    def test_refuses_text_without_a_duration(self):
        for text in ("", "soon", "h", "12"):
            with self.assertRaises(ValueError):
                spans.parse(text)
