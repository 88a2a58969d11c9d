"""What has no result, no spread or no meaning gets no figure, and says why (cases.md BAR 1, 5 and 7)."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from assay.core.figures.attempts import collect
from assay.core.figures.clustered import sampling_error
from assay.core.figures.known_means import known_mean
from assay.core.figures.observations import (
    FiguresError,
    HackingVerdict,
    LedgerTasks,
    Observation,
    TaskFacts,
)
from assay.core.figures.paired import paired_shift
from assay.core.figures.passk import pass_k
from assay.core.figures.rates import attempt_rates, suite_rate
from assay.core.figures.repeat_noise import repeat_noise
from assay.core.figures.scores import clusters_of, score, scores_by, strict_scores

from .samples import attempts_of, ledger_of, passes

pytestmark = pytest.mark.unit


def test_a_missing_reward_is_neither_0_nor_dropped() -> None:
    found = score(attempts_of(ledger_of("a", 4), [[1.0, 1.0, None, None]]))
    assert [found.strict, found.valid, found.coverage] == [Fraction(1, 2), 1, Fraction(2, 4)]
    assert (found.attempts_valid, found.attempts_planned) == (2, 4)


def test_an_attempt_without_any_record_counts_like_one_without_a_result() -> None:
    ledger = ledger_of("ab", 2)
    recorded = attempts_of(ledger, [[1.0, None], [None, None]])
    absent = attempts_of(ledger, [[1.0], []])
    assert score(absent) == score(recorded)
    assert score(absent).strict == Fraction(1, 4)
    assert (score(absent).tasks, score(absent).tasks_valid) == (2, 1)


def test_a_variant_without_any_result_has_no_score() -> None:
    attempts = collect(ledger_of("ab"), [], ["v"])["v"]
    found = score(attempts)
    assert [found.strict, found.valid, found.cluster_mean, found.coverage] == [None, None, None, 0]
    assert found.reason == "none of 6 planned attempts has a valid result"
    assert attempt_rates(attempts).refusal.value is None
    assert repeat_noise(attempts).reason == "no attempt has a valid result"
    with pytest.raises(FiguresError, match="no valid attempt"):
        paired_shift(attempts, attempts)


def test_pass_at_5_of_one_failure_is_unknown_not_1() -> None:
    found = pass_k(attempts_of(ledger_of("a", 5), [[0.0, None, None, None, None]]), 5)
    assert (found.pass_at, found.pass_hat, found.pass_at_strict) == (None, None, None)
    assert found.reason == "1 of 1 tasks have fewer than 5 valid attempts (fewest: 1)"


def test_pass_at_2_shows_both_readings_of_invalid_attempts() -> None:
    one_pass = attempts_of(ledger_of("a", 4), [[1.0, 0.0, None, None]])
    found = pass_k(one_pass, 2)
    assert [found.pass_at, found.pass_at_strict] == [1, Fraction(1, 2)]
    assert (found.k, found.attempts_valid, found.fewest_valid) == (2, 2, 2)


def test_partial_rewards_have_no_pass_at_k() -> None:
    found = pass_k(attempts_of(ledger_of("a", 2), [[0.5, 1.0]]), 1)
    assert found.pass_at is None
    assert found.reason is not None
    assert "neither 0 nor 1" in found.reason


def test_the_first_try_stands_beside_the_retained_one() -> None:
    ledger = ledger_of("a", 3)
    observations = [
        Observation("t000", "v", 0, 1.0, first_try_reward=None),
        Observation("t000", "v", 1, 1.0, first_try_reward=1.0),
        Observation("t000", "v", 2, 0.0, first_try_reward=0.0),
    ]
    found = score(collect(ledger, observations)["v"])
    assert (found.strict, found.first_try_strict) == (Fraction(2, 3), Fraction(1, 3))
    assert (found.first_try_valid, found.first_tries_valid) == (Fraction(1, 2), 2)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -1.0, 1.7, True, False, "1"])
def test_a_reward_that_is_no_number_from_0_to_1_is_refused(reward: Any) -> None:
    with pytest.raises(FiguresError, match="task t, variant v, repetition 0: reward is"):
        Observation("t", "v", 0, reward)
    with pytest.raises(FiguresError, match="first_try_reward is"):
        Observation("t", "v", 0, 1.0, first_try_reward=reward)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (Observation("t009", "v", 0, 1.0), "task t009 of variant v is not in ledger"),
        (Observation("t000", "v", 3, 1.0), "plans 3, numbered from 0"),
        (Observation("t000", "v", -1, 1.0), "repetition is -1"),
        (Observation("t000", "v", 0, 0.0), "two results that differ"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(observation: Observation, message: str) -> None:
    with pytest.raises(FiguresError, match=message):
        collect(ledger_of("ab"), [Observation("t000", "v", 0, 1.0), observation])


@pytest.mark.parametrize(
    ("tasks", "repetitions", "message"),
    [((), 3, "tasks is empty"), (("a", "a"), 3, "listed twice"), (("a",), 0, "repetitions is 0")],
)
def test_a_ledger_without_a_denominator_is_refused(
    tasks: tuple[str, ...], repetitions: int, message: str
) -> None:
    with pytest.raises(FiguresError, match=message):
        LedgerTasks("ledger", tuple(TaskFacts(name, name) for name in tasks), repetitions)


def test_one_cluster_has_no_interval() -> None:
    attempts = passes([3, 1, 0], "aaa")
    found = sampling_error(strict_scores(attempts), clusters_of(attempts.ledger.tasks))
    assert (found.interval, found.cr1_interval, found.standard_error) == (None, None, None)
    assert found.reason == "all 3 tasks are one cluster: a single piece of evidence shows no spread"


def test_tasks_that_all_scored_the_same_have_no_interval_of_width_0() -> None:
    nothing = passes([0, 0, 0, 0])
    found = sampling_error(strict_scores(nothing), clusters_of(nothing.ledger.tasks))
    assert [found.mean, found.interval] == [0, None]
    assert found.reason == "all 4 tasks have the same score: they show no spread to estimate an error from"
    same = paired_shift(nothing, nothing)
    assert [same.shift, same.minimum_detectable_effect, same.reason] == [0, None, found.reason]
    assert same.sign_flip.p_value == 1


def test_one_repetition_shows_no_repeat_noise() -> None:
    found = repeat_noise(passes([1, 0], repetitions=1))
    assert (found.standard_error, found.reason) == (
        None,
        "one repetition of each task shows no repeat noise",
    )
    shift = paired_shift(passes([1, 0], repetitions=1), passes([0, 0], repetitions=1))
    assert shift.repeat_noise.standard_error is None


def test_shifts_need_one_ledger() -> None:
    with pytest.raises(FiguresError, match="compare on one ledger"):
        paired_shift(passes([1, 0]), passes([1, 0, 0]))


def test_groups_name_their_n() -> None:
    tasks = tuple(
        TaskFacts(f"t{i}", f"c{i}", language=language)
        for i, language in enumerate(["go", "rust", "go", None])
    )
    found = scores_by(attempts_of(LedgerTasks("ledger", tasks, 1), [[1.0], [0.0], [None], [1.0]]), "language")
    rows = [
        (group.value, group.score.strict, group.score.tasks, group.score.attempts_valid) for group in found
    ]
    assert rows == [("go", Fraction(1, 2), 2, 1), ("rust", 0, 1, 1), (None, 1, 1, 1)]


def test_passes_that_no_judge_read_leave_the_hacking_rate_unknown() -> None:
    ledger = ledger_of("ab", 2)

    def rate(third: HackingVerdict) -> object:
        verdicts = [
            Observation("t000", "v", 0, 0.0, hacking=HackingVerdict.FLAGGED),
            Observation("t000", "v", 1, 1.0, hacking=HackingVerdict.CLEAN),
            Observation("t001", "v", 0, 1.0, hacking=third),
            Observation("t001", "v", 1, 0.0),
        ]
        found = attempt_rates(collect(ledger, verdicts)["v"]).reward_hacking
        return found.value, found.count, found.n, found.reason

    assert rate(HackingVerdict.CLEAN) == (Fraction(1, 4), 1, 4, None)
    assert rate(HackingVerdict.NOT_READ) == (None, 1, 4, "1 passing attempts were not read by a judge")


def test_a_suite_rate_needs_every_component() -> None:
    known = attempt_rates(passes([1, 0])).refusal
    unknown = attempt_rates(collect(ledger_of("a"), [], ["v"])["v"]).refusal
    found = suite_rate({"one": known, "two": unknown})
    assert (found.value, found.components) == (None, 2)
    assert found.reason == "two: no attempt has a valid result"


def test_unknown_usage_is_unknown() -> None:
    found = known_mean([Decimal("0.79"), None, None])
    assert (found.mean, found.total, found.n, found.planned) == (Fraction("0.79"), Fraction("0.79"), 1, 3)
    assert found.total_is_lower_bound
    nothing = known_mean([None, None])
    assert (nothing.mean, nothing.total, nothing.reason) == (None, None, "none of 2 values is known")
    assert not known_mean([0.1, 2]).total_is_lower_bound
    assert known_mean([0.1, 2]).total == Fraction("2.1")
