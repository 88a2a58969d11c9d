"""Text from outside cannot act on a terminal."""

import pytest

from assay.core.terminal_text import one_line, printable, shortened


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\u001b[31mred\\u001b[0m"),
        ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
        ("a\rb", "a\\u000db"),
        ("pass\u202ethgir", "pass\\u202ethgir"),
        ("\u2066isolate\u2069", "\\u2066isolate\\u2069"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x9b31m", "\\u009b31m"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("line\u2028separator", "line\\u2028separator"),
        ("tabs\tand\nlines stay, ünïcode 表 too", "tabs\tand\nlines stay, ünïcode 表 too"),
    ],
)
def test_what_could_act_is_shown(hostile: str, shown: str) -> None:
    assert printable(hostile) == shown


def test_a_line_of_ten_megabytes_becomes_one_of_the_asked_length() -> None:
    line = one_line("x" * 10_000_000, 80)
    assert len(line) == 80
    assert line.endswith("…")


def test_what_is_left_out_is_counted() -> None:
    assert shortened("a" * 150, 100) == "a" * 100 + "\n… 50 more characters; --json prints all"
    assert shortened("short", 100) == "short"
    assert shortened("prompt$\n\n \n\n\nnext\n\nlast", 100) == "prompt$\n\nnext\n\nlast"
