"""When a try first called a model, read from its call records: did the ledger come first?"""

from datetime import UTC, datetime, timedelta
from typing import Any

from assay.api.evidence import CallRecord
from assay.core.attempt_records import Calls, read_calls

BEGAN = datetime(2026, 11, 30, 12, tzinfo=UTC)


def segment(*seconds: float, **changes: Any) -> bytes:
    """Call records that began so many seconds after BEGAN, as the runner writes them."""
    lines = [
        CallRecord(
            sequence=number,
            api="OpenAIChat",
            path="/v1/chat/completions",
            started_at=BEGAN + timedelta(seconds=after),
            latency_seconds=1,
            streamed=False,
            **{"status": 200, **changes},
        ).model_dump_json(by_alias=True)
        for number, after in enumerate(seconds, start=1)
    ]
    return "\n".join(lines).encode() + b"\n"


def test_the_earliest_call_counts_in_whatever_order_they_ended() -> None:
    calls = read_calls(segment(7, 3.5), "one") + read_calls(segment(20), "two")
    assert calls.first_at == BEGAN + timedelta(seconds=3.5)
    assert (read_calls(segment(20), "two") + Calls()).first_at == BEGAN + timedelta(seconds=20)


def test_a_call_that_was_refused_is_a_call_too() -> None:
    calls = read_calls(segment(2, status=429), "one")
    assert (calls.priced, calls.first_at) == ((), BEGAN + timedelta(seconds=2))


def test_without_a_call_there_is_no_time() -> None:
    assert read_calls(b"", "empty").first_at is None
