"""One rate of creations for all runs: never exceeded, shared fairly, and nobody starves (cases.md E2)."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.handlers.creation_rate import CreationRate


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_lonely_run_gets_a_seconds_worth_at_once_and_then_the_rate() -> None:
    clock = Clock()
    rate = CreationRate(10, clock)
    assert rate.take("a", 500) == 10
    assert rate.take("a", 490) == 0
    assert rate.due_in("a") == pytest.approx(0.1)
    clock.now = 0.5
    assert rate.take("a", 490) == 5


def test_a_small_run_is_not_starved_by_a_large_one() -> None:
    clock = Clock()
    rate = CreationRate(2, clock)
    made: Counter[str] = Counter()
    for _ in range(100):
        clock.now += 0.25
        for run, wanted in (("large", 500), ("small", 20 - made["small"])):
            made[run] += rate.take(run, wanted)
    assert made["small"] == 20
    assert made["large"] > 20, "what the small one leaves is the large one's"


def test_what_the_api_server_asks_of_one_run_holds_for_all() -> None:
    clock = Clock()
    rate = CreationRate(10, clock)
    rate.pause(5)
    assert rate.take("a", 1) == rate.take("b", 1) == 0
    assert rate.due_in("b") == 5
    clock.now = 5
    assert rate.take("b", 1) == 1


def test_a_run_that_wants_nothing_any_more_has_no_share_and_no_wait() -> None:
    clock = Clock()
    rate = CreationRate(10, clock)
    rate.take("a", 100)
    rate.take("b", 100)
    rate.take("a", 0)
    assert rate.due_in("a") is None
    clock.now = 1
    assert rate.take("b", 100) == 10


@given(
    per_second=st.floats(0.1, 100),
    steps=st.lists(
        st.tuples(st.floats(0, 3), st.sampled_from("abc"), st.integers(0, 600)), min_size=1, max_size=60
    ),
)
def test_no_sequence_of_questions_exceeds_the_rate(
    per_second: float, steps: list[tuple[float, str, int]]
) -> None:
    clock = Clock()
    rate = CreationRate(per_second, clock)
    granted = 0
    for seconds, run, wanted in steps:
        clock.now += seconds
        found = rate.take(run, wanted)
        assert 0 <= found <= wanted
        granted += found
    assert granted <= max(1.0, per_second) + clock.now * per_second + 1e-6
