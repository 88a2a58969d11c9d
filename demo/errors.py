"""The one error that a user of the demonstration sees."""


class DemoError(Exception):
    """A step failed: what happened, and what to do next."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what}\n  Next: {advice}" if advice else what)
