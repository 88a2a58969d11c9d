"""The time of one try by a clock that nobody sets: the wall clock at the start, and what has passed since.

A node's clock may be corrected by hours while a try runs. Every duration of a try and the order of its events
come from here; deadlines are asyncio's, which counts in the same way.
"""

import time
from datetime import UTC, datetime, timedelta

_STARTED_AT, _STARTED = datetime.now(UTC), time.monotonic()


def now() -> datetime:
    """The present, aware and in UTC; never less than an earlier answer."""
    return _STARTED_AT + timedelta(seconds=time.monotonic() - _STARTED)


def earliest_stamp(when: datetime) -> float:
    """The least Unix time that the wall clock can have given to what happened at or after `when`.

    Files carry the wall clock's time. Where that was set back since, an honest file looks older than it is.
    """
    set_by = time.time() - now().timestamp()
    return when.timestamp() + min(0.0, set_by)
