"""Text of any length, cut to what a page can hold, with a note of what is missing."""

from dataclasses import dataclass

from assay.core.terminal_text import printable

MAX_LINE = 2_000
MAX_TEXT = 30_000


@dataclass(frozen=True, slots=True)
class CutText:
    """Text that is safe to show, and what was left out of it; empty where nothing was."""

    text: str
    note: str = ""


def cut(text: str, most: int = MAX_TEXT) -> CutText:
    """The beginning and the end of a text; the end tells how it went. Lines that go on for ever are cut."""
    notes = []
    # A terminal's empty lines below its last one.
    text = text.rstrip()
    if len(text) > most:
        notes.append(f"{len(text) - most:,} of {len(text):,} characters in the middle are left out")
        half = most // 2
        text = f"{text[:half]}\n[… {len(text) - most:,} characters …]\n{text[-half:]}"
    lines = text.split("\n")
    long = sum(len(line) > MAX_LINE for line in lines)
    if long:
        notes.append(f"{long:,} lines are cut after {MAX_LINE:,} characters")
        lines = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} [… cut]" for line in lines]
    return CutText(printable("\n".join(lines)), "; ".join(notes))


def cut_bytes(content: bytes, most: int = MAX_TEXT) -> CutText:
    """`cut` for a file; bytes that are no UTF-8 are shown as replacement characters."""
    # Decoding ten megabytes to show thirty thousand characters would be wasted.
    if len(content) > 8 * most:
        shown = cut(
            content[: 4 * most].decode(errors="replace") + content[-4 * most :].decode(errors="replace"), most
        )
        return CutText(shown.text, f"only the beginning and the end of {len(content):,} bytes are shown")
    return cut(content.decode(errors="replace"), most)
