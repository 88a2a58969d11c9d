"""The index: complete or nothing, with an error of its own."""

from fractions import Fraction
from math import sqrt

import pytest

from assay.core.figures.attempts import VariantAttempts
from assay.core.figures.clustered import sampling_error
from assay.core.figures.index import ComponentPlan, ComponentResult, Index, index, index_shift
from assay.core.figures.paired import paired_shift
from assay.core.figures.repeat_noise import repeat_noise
from assay.core.figures.scores import clusters_of, score, strict_scores

from .samples import attempts_of, ledger_of, passes

pytestmark = pytest.mark.unit

SUITE = {"small": ComponentPlan(4, 3), "large": ComponentPlan(6, 3)}


def result_of(attempts: VariantAttempts) -> ComponentResult:
    error = sampling_error(strict_scores(attempts), clusters_of(attempts.ledger.tasks))
    return ComponentResult(score(attempts), error, repeat_noise(attempts))


SMALL, LARGE = passes([3, 2, 0, 1]), passes([3, 3, 1, 0, 2, 2])


def complete() -> Index:
    return index(SUITE, {"small": result_of(SMALL), "large": result_of(LARGE)})


def test_components_weigh_the_same_whatever_their_size() -> None:
    found = complete()
    assert found.value == (Fraction(6, 12) + Fraction(11, 18)) / 2
    assert found.value != Fraction(17, 30)
    assert (found.components, found.tasks, found.attempts) == (2, 10, 30)


def test_the_error_is_that_of_independent_components() -> None:
    found = complete().interval
    parts = [result_of(one).error.interval for one in (SMALL, LARGE)]
    assert found is not None
    variances = [part.standard_error**2 for part in parts if part is not None]
    assert found.standard_error == pytest.approx(sqrt(sum(variances)) / 2, rel=1e-14)
    # Equal clusters of one task: G - 1 each.
    df = sum(variances) ** 2 / (variances[0] ** 2 / 3 + variances[1] ** 2 / 5)
    assert found.degrees_of_freedom == pytest.approx(df, rel=1e-12)


@pytest.mark.parametrize(
    ("large", "reason"),
    [
        (None, "large: no result"),
        (passes([3, 3, 1, 0, 2]), "large: 5 tasks and 15 attempts, the suite has 6 and 18"),
        (passes([1] * 6, repetitions=2), "large: 6 tasks and 12 attempts, the suite has 6 and 18"),
        (
            attempts_of(ledger_of("abcdef"), [[1.0, 1.0, 1.0]] * 5 + [[1.0, None, None]]),
            "large: 2 of 18 attempts have no valid result",
        ),
    ],
)
def test_the_index_is_nothing_unless_every_component_is_complete(
    large: VariantAttempts | None, reason: str
) -> None:
    results = {"small": result_of(SMALL)} | ({"large": result_of(large)} if large else {})
    found = index(SUITE, results)
    assert (found.value, found.interval, found.repeat_noise) == (None, None, None)
    assert found.reason == reason
    shift = index_shift(found, complete(), {})
    assert (shift.shift, shift.interval, shift.sign_flip) == (None, None, None)
    assert shift.reason == f"candidate: {reason}"


def test_a_component_without_an_error_leaves_the_index_without_one() -> None:
    found = index(SUITE, {"small": result_of(SMALL), "large": result_of(passes([0] * 6))})
    assert found.value == Fraction(1, 4)
    assert found.interval is None
    assert found.error_reason is not None
    assert found.error_reason.startswith("large: all 6 tasks have the same score")


def test_the_shift_is_tested_over_all_components() -> None:
    base_small, base_large = passes([2, 1, 0, 0]), passes([2, 3, 0, 0, 1, 1])
    baseline = index(SUITE, {"small": result_of(base_small), "large": result_of(base_large)})
    shifts = {"small": paired_shift(SMALL, base_small), "large": paired_shift(LARGE, base_large)}
    found = index_shift(complete(), baseline, shifts)
    assert found.shift == (Fraction(3, 12) + Fraction(4, 18)) / 2
    assert found.sign_flip is not None
    # Seven of ten clusters differ, all upwards; neither component alone could go below .05.
    assert found.sign_flip.p_value == 2.0**-6
    assert [one.sign_flip.can_reach_significance for one in shifts.values()] == [False, False]
    assert found.minimum_detectable_effect is not None
    assert found.interval is not None
    assert found.minimum_detectable_effect > 2.8 * found.interval.standard_error
    with pytest.raises(ValueError, match="1 of 2 components"):
        index_shift(complete(), baseline, {"small": shifts["small"]})
