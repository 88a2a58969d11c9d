"""The exact tests against brute force, and their two methods against each other."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.figures import convolution
from assay.core.figures.convolution import (
    Term,
    TooManySumsError,
    critical_value,
    distribution_of_sum,
    tail_probability,
)
from assay.core.figures.drift import drift
from assay.core.figures.drift_gate import drift_gate
from assay.core.figures.holm import holm
from assay.core.figures.observations import FiguresError
from assay.core.figures.signflip import Stratum, sign_flip_test

from .samples import attempts_of, ledger_of, passes, untimed

pytestmark = pytest.mark.unit


def stratum_of(totals: Sequence[Fraction]) -> Stratum:
    """Each total is a task, and a cluster, of its own."""
    differences = {f"t{i}": total for i, total in enumerate(totals)}
    return Stratum(differences, {task: task for task in differences})


def flipped_by_hand(strata: Sequence[Sequence[Fraction]]) -> Fraction:
    weighted = [total / len(stratum) for stratum in strata for total in stratum]
    observed = abs(sum(weighted, Fraction()))
    flips = [
        abs(sum((s * total for s, total in zip(signs, weighted, strict=True)), Fraction())) >= observed
        for signs in itertools.product((1, -1), repeat=len(weighted))
    ]
    return Fraction(sum(flips), len(flips))


thirds = st.lists(st.integers(-6, 6).map(lambda n: Fraction(n, 3)), min_size=1, max_size=5)


@untimed
@given(st.lists(thirds, min_size=1, max_size=3).filter(lambda strata: sum(map(len, strata)) <= 9))
def test_sign_flips_equal_all_tosses_by_hand(strata: list[list[Fraction]]) -> None:
    found = sign_flip_test([stratum_of(stratum) for stratum in strata])
    assert found.p_value == float(flipped_by_hand(strata))
    assert found.p_value is not None
    assert found.p_value >= found.smallest_possible_p


def test_sign_flips_of_finely_graded_rewards_are_exact_while_they_can_be() -> None:
    seeded = random.Random(1)
    totals = [Fraction(seeded.randrange(-(10**6), 10**6), 10**6) for _ in range(11)]
    assert sign_flip_test([stratum_of(totals)]).p_value == float(flipped_by_hand([totals]))
    many = [Fraction(seeded.randrange(-(10**6), 10**6), 10**6) for _ in range(60)]
    found = sign_flip_test([stratum_of(many)])
    assert found.p_value is None
    assert found.reason is not None
    assert found.reason.startswith("no exact test: the shift can take ")


@pytest.mark.parametrize(("clusters", "reachable"), [(5, False), (6, True)])
def test_five_clusters_cannot_reach_significance(clusters: int, reachable: bool) -> None:
    found = sign_flip_test([stratum_of([Fraction(1)] * clusters)])
    assert found.p_value == found.smallest_possible_p == 2.0 ** (1 - clusters)
    assert found.can_reach_significance is reachable


def test_clusters_that_do_not_differ_are_no_evidence() -> None:
    found = sign_flip_test([stratum_of([Fraction(1), Fraction(1), *[Fraction()] * 50])])
    assert (found.clusters, found.clusters_differing, found.p_value) == (52, 2, 0.5)


terms = st.dictionaries(
    st.dictionaries(st.integers(-4, 4), st.integers(1, 20), min_size=1, max_size=4).map(
        lambda weights: tuple(sorted(weights.items()))
    ),
    st.integers(1, 40),
    min_size=1,
    max_size=4,
)


def both_methods(given_terms: dict[Term, int]) -> tuple[convolution.Distribution, convolution.Distribution]:
    exact = distribution_of_sum(given_terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "EXACT_BITS", -1)
        return exact, distribution_of_sum(given_terms)


@untimed
@given(terms, st.floats(0, 1))
def test_floating_point_gives_the_digits_of_whole_numbers(given_terms: dict[Term, int], where: float) -> None:
    exact, floating = both_methods(given_terms)
    assert exact.exact
    assert not floating.exact
    threshold = exact.values[int(where * (len(exact.values) - 1))]
    wanted = tail_probability([exact], threshold)
    # Tails that far down are cut and bounded from above instead.
    if wanted > 1e-80:
        assert tail_probability([floating], threshold) == pytest.approx(wanted, rel=1e-12)
    else:
        assert wanted <= tail_probability([floating], threshold) < 1e-80


def test_a_large_ledger_uses_the_fast_method_and_keeps_far_tails() -> None:
    count = 5000
    found = distribution_of_sum({((-1, 1), (1, 1)): count})
    assert not found.exact
    for wins in (2500, 2600, 2800, 3000):
        wanted = Fraction(sum(comb(count, i) for i in range(wins, count + 1)), 2**count)
        assert tail_probability([found], 2 * wins - count) == pytest.approx(float(wanted), rel=1e-12)


def test_the_product_of_strata_is_bounded() -> None:
    wide = [distribution_of_sum({((0, 1), (1, 1)): 699}) for _ in range(4)]
    assert tail_probability(wide, 2 * 699) == pytest.approx(0.5, abs=0.01)
    wider = [distribution_of_sum({((0, 1), (1, 1)): 1999}) for _ in range(3)]
    with pytest.raises(TooManySumsError, match="values or more, beyond the limit of 500,000"):
        tail_probability(wider, 0)


def test_the_critical_value_is_the_first_below_the_level() -> None:
    coins = distribution_of_sum({((-1, 1), (1, 1)): 6})
    assert critical_value(coins, 0.05) == 6
    assert critical_value(coins, 2 / 64) is None
    assert critical_value(coins, 0.22) == 4


def drift_by_hand(days: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[Fraction, Fraction]:
    """p of the sum and of the sum of squares over every way to deal each task's rewards."""
    deals = []
    for first, second in days:
        pooled = [Fraction(str(reward)) for reward in (*first, *second)]
        chosen = itertools.combinations(range(len(pooled)), len(first))
        dealt = [sum((pooled[i] for i in one), Fraction()) for one in chosen]
        deals.append([(sum(pooled, Fraction()) - one) / len(second) - one / len(first) for one in dealt])
    exact = [[Fraction(str(reward)) for reward in rewards] for day in days for rewards in day]
    means = [sum(rewards, Fraction()) / len(rewards) for rewards in exact]
    seen = [second - first for first, second in itertools.batched(means, 2, strict=True)]
    shift = squares = count = 0
    for one in itertools.product(*deals):
        count += 1
        shift += abs(sum(one, Fraction())) >= abs(sum(seen, Fraction()))
        squares += sum((d * d for d in one), Fraction()) >= sum((d * d for d in seen), Fraction())
    return Fraction(shift, count), Fraction(squares, count)


rewards_of_a_day = st.lists(st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.3]), min_size=1, max_size=3)


@untimed
@given(st.lists(st.tuples(rewards_of_a_day, rewards_of_a_day), min_size=1, max_size=2))
def test_drift_equals_all_deals_by_hand(days: list[tuple[list[float], list[float]]]) -> None:
    ledger = ledger_of("ab"[: len(days)])
    found = drift(
        attempts_of(ledger, [first for first, _ in days]),
        attempts_of(ledger, [second for _, second in days]),
        0.01,
    )
    assert (found.p_shift, found.p_any) == pytest.approx(tuple(map(float, drift_by_hand(days))), rel=1e-14)


def test_drift_compares_tasks_with_results_on_both_days() -> None:
    ledger = ledger_of("abc")
    found = drift(
        attempts_of(ledger, [[1.0, 1.0, None], [1.0, None, None], [None, None, None]]),
        attempts_of(ledger, [[0.0, 0.0, 1.0], [None, None, None], [1.0, 1.0, 1.0]]),
        0.01,
    )
    assert (found.tasks, found.tasks_left_out, found.attempts) == (1, 2, (2, 3))
    assert found.shift == Fraction(-2, 3)


def test_drift_without_common_tasks_is_not_tested() -> None:
    ledger = ledger_of("ab")
    found = drift(attempts_of(ledger, [[1.0], []]), attempts_of(ledger, [[], [1.0]]), 0.01)
    assert (found.shift, found.p_shift, found.p_any, found.detectable.size) == (None, None, None, None)
    assert found.reason == "no task has a valid attempt on both days"
    with pytest.raises(FiguresError, match="one frozen ledger"):
        drift(passes([1]), passes([1, 1]), 0.01)


def test_what_drift_could_have_found_is_stated() -> None:
    silent = drift(passes([3, 0]), passes([3, 0]), 0.01).detectable
    assert (silent.size, silent.reason) == (None, "no task's attempts differed: the run noise is not known")
    few = drift(passes([2, 1]), passes([2, 2]), 0.01).detectable
    assert (few.size, few.reason) == (None, "no difference of these attempts would have p below 0.005")
    day1, day2 = passes([1, 2] * 33), passes([2, 1] * 33)
    alone, family = drift(day1, day2, 0.01, family=1).detectable, drift(day1, day2, 0.01, family=6).detectable
    assert alone.size is not None
    assert family.size is not None
    assert 0.1 < alone.size < family.size < 0.3


def test_a_drop_of_the_detectable_size_is_found_about_four_times_in_five() -> None:
    seeded = random.Random(5)
    rates = [0.3 + 0.6 * seeded.random() for _ in range(66)]

    def day(drop: float) -> list[int]:
        return [sum(seeded.random() < rate - drop for _ in range(3)) for rate in rates]

    sizes = [drift(passes(day(0)), passes(day(0)), 0.01, family=1).detectable.size or 0 for _ in range(20)]
    size = sum(sizes) / len(sizes)
    found = [
        (drift(passes(day(0)), passes(day(size)), 0.01, family=1).p_shift or 1) < 0.01 for _ in range(150)
    ]
    assert 0.68 < sum(found) / len(found) < 0.92
    small = [
        (drift(passes(day(0)), passes(day(0.066)), 0.01, family=1).p_shift or 1) < 0.01 for _ in range(150)
    ]
    assert sum(small) / len(small) < 0.3


def test_the_gate_stops_ranking_on_either_test() -> None:
    steady = drift(passes([1, 2] * 20), passes([2, 1] * 20), 0.01)
    cancelling = drift(passes([3] * 15 + [0] * 15), passes([0] * 15 + [3] * 15), 0.01)
    gate = drift_gate({"one": steady, "two": cancelling}, 0.01)
    assert gate.ranking_stops
    assert gate.reasons == ("two: the baseline drifted, its tasks changed (adjusted p 4e-30)",)
    assert gate.shift["one"].family == 4
    assert not drift_gate({"one": steady}, 0.01).ranking_stops


def test_no_evidence_of_stability_stops_ranking_too() -> None:
    assert drift_gate({}, 0.01).reasons == ("the baseline was not compared with an earlier run",)
    ledger = ledger_of("ab")
    untested = drift(attempts_of(ledger, [[1.0], []]), attempts_of(ledger, [[], [1.0]]), 0.01)
    gate = drift_gate({"one": untested}, 0.01)
    assert gate.ranking_stops
    assert "could not be tested" in gate.reasons[0]


def test_holm_steps_down() -> None:
    found = holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": None})
    assert [one.adjusted for one in found.values()] == [pytest.approx(0.09), 0.04, pytest.approx(0.09), None]
    assert Counter(one.family for one in found.values()) == {4: 4}
    assert found["d"].reason == "the test gave no p-value"
