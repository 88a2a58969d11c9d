"""Exact sign-flip test of a paired shift (method §4.4, §7.4, §7.5).

If candidate and baseline were equally good, the sign of each cluster's difference would be an even coin,
tossed for all its tasks at once. p is the share of all 2^G tosses whose shift is at least as large.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from assay.core.figures.convolution import (
    Distribution,
    TooManySumsError,
    distribution_of_sum,
    tail_probability,
)
from assay.core.figures.power import SIGNIFICANCE
from assay.core.figures.scores import TaskScores, exact_sum


@dataclass(frozen=True, slots=True)
class Stratum:
    """Differences of the tasks of one ledger, candidate minus baseline, with their clusters."""

    differences: TaskScores
    clusters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SignFlipTest:
    """Two-sided exact p-value over `clusters` of which `clusters_differing` differ; None with a reason."""

    p_value: float | None
    clusters: int
    clusters_differing: int
    smallest_possible_p: float
    """2^(1 - differing clusters): no data with this many differing clusters gives less."""
    reason: str | None = None

    @property
    def can_reach_significance(self) -> bool:
        """Whether p could fall below .05 at all: five differing clusters or fewer cannot."""
        return self.smallest_possible_p < SIGNIFICANCE


def sign_flip_test(strata: Sequence[Stratum]) -> SignFlipTest:
    """Test that the mean over strata of their mean differences is 0; one stratum is the test of one ledger.

    Each stratum counts the same, whatever its number of tasks, as in the index. ValueError without tasks.
    """
    if not strata or not all(stratum.differences for stratum in strata):
        raise ValueError("a sign-flip test needs at least one stratum, and a task in each")
    totals = [_weighted_cluster_totals(stratum) for stratum in strata]
    unit = lcm(*(total.denominator for stratum in totals for total in stratum))
    whole = [[int(total * unit) for total in stratum] for stratum in totals]
    clusters = sum(map(len, whole))
    differing = sum(1 for stratum in whole for total in stratum if total)
    smallest = 2.0 ** (1 - max(differing, 1))
    observed = abs(sum(map(sum, whole)))
    if observed == 0:
        return SignFlipTest(1.0, clusters, differing, smallest)
    try:
        p_value = 2 * tail_probability([_flipped(stratum) for stratum in whole], observed)
    except TooManySumsError as error:
        return SignFlipTest(None, clusters, differing, smallest, str(error))
    return SignFlipTest(min(1.0, p_value), clusters, differing, smallest)


def _weighted_cluster_totals(stratum: Stratum) -> list[Fraction]:
    """Sum of differences of each cluster, over the number of tasks of the stratum."""
    groups: dict[str, list[Fraction]] = defaultdict(list)
    for task, difference in stratum.differences.items():
        groups[stratum.clusters[task]].append(difference)
    return [exact_sum(values) / len(stratum.differences) for values in groups.values()]


def _flipped(totals: list[int]) -> Distribution:
    sizes = Counter(abs(total) for total in totals if total)
    return distribution_of_sum({((-size, 1), (size, 1)): count for size, count in sizes.items()})
