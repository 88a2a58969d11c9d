"""What nominal 95 % intervals cover at SWE-Atlas QnA's real cluster sizes, over a grid of made-up worlds.

    python benchmarks/coverage_simulation.py [--draws 1500]

A world has a base rate and two effects on the log-odds scale, of the cluster and of the task, both normal.
Each draw makes new clusters and tasks, runs every task three times and asks whether the interval around the
score holds the true mean over all tasks of that world. At 1,500 draws a coverage of .95 is known to ± .006.
Below: how often the drift tests find a drop of the size that they call detectable, and one of 6.6 points.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import exp
from statistics import NormalDist, fmean

from assay.core.figures.attempts import VariantAttempts, collect
from assay.core.figures.clustered import SamplingError, interval, sampling_error
from assay.core.figures.drift import drift
from assay.core.figures.observations import LedgerTasks, Observation, TaskFacts

CLUSTER_SIZES = (26, 15, 15, 14, 10, 8, 8, 8, 7, 7, 6)
CLUSTERS = {f"t{g}-{i}": f"c{g}" for g, size in enumerate(CLUSTER_SIZES) for i in range(size)}
REPETITIONS = 3
CLUSTER_SDS, TASK_SDS, RATES = (0.0, 0.7, 1.4, 2.0), (0.5, 1.0, 1.5), (0.6, 0.25)
# "alone" is without the floor of independent tasks, as textbooks give it; "CR2" is what is published.
ARMS = ("iid", "CR1 alone", "CR1", "CR2 alone", "CR2")


def logistic(value: float) -> float:
    """Log-odds to probability."""
    return 1 / (1 + exp(-value))


def population_mean(intercept: float, sd: float) -> float:
    """Mean pass rate over all tasks of a world, by a fine sum over quantiles of the effects."""
    steps = 2000
    return fmean(logistic(intercept + sd * NormalDist().inv_cdf((i + 0.5) / steps)) for i in range(steps))


def intercept_for(rate: float, sd: float) -> float:
    """The log-odds at which a world's mean pass rate is `rate`."""
    low, high = -10.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if population_mean(middle, sd) < rate else (low, middle)
    return low


def draw(seeded: random.Random, intercept: float, cluster_sd: float, task_sd: float) -> dict[str, Fraction]:
    """Task scores of one run in a world."""
    effects = {cluster: seeded.gauss(0, cluster_sd) for cluster in dict.fromkeys(CLUSTERS.values())}
    scores = {}
    for task, cluster in CLUSTERS.items():
        rate = logistic(intercept + effects[cluster] + seeded.gauss(0, task_sd))
        scores[task] = Fraction(sum(seeded.random() < rate for _ in range(REPETITIONS)), REPETITIONS)
    return scores


def half_widths(error: SamplingError) -> Iterator[float]:
    """Half widths of the intervals, in the order of ARMS."""
    if error.iid is None or error.cr1 is None or error.cr2 is None:
        raise AssertionError("eleven clusters have an error")
    if error.interval is None or error.cr1_interval is None:
        yield from [0.0] * len(ARMS)
        return
    yield interval(0, error.iid, error.tasks - 1).half_width
    yield interval(0, error.cr1, error.clusters - 1).half_width
    yield error.cr1_interval.half_width
    yield interval(0, error.cr2, error.interval.degrees_of_freedom).half_width
    yield error.interval.half_width


def coverage(draws: int, rate: float, cluster_sd: float, task_sd: float) -> list[float]:
    """Share of draws whose interval holds the truth, for each arm on the same draws."""
    seeded = random.Random(f"{rate}/{cluster_sd}/{task_sd}")
    intercept = intercept_for(rate, (cluster_sd**2 + task_sd**2) ** 0.5)
    held = [0] * len(ARMS)
    for _ in range(draws):
        error = sampling_error(draw(seeded, intercept, cluster_sd, task_sd), CLUSTERS)
        distance = abs(float(error.mean) - rate)
        held = [count + (distance <= half) for count, half in zip(held, half_widths(error), strict=True)]
    return [count / draws for count in held]


def day_of(seeded: random.Random, rates: Sequence[float]) -> VariantAttempts:
    """One day's results of a baseline."""
    ledger = LedgerTasks("drift", tuple(TaskFacts(f"t{i}", f"c{i}") for i in range(len(rates))), REPETITIONS)
    rewards = (
        Observation(f"t{i}", "baseline", repetition, float(seeded.random() < rate))
        for i, rate in enumerate(rates)
        for repetition in range(REPETITIONS)
    )
    return collect(ledger, rewards)["baseline"]


def drift_power(draws: int, tasks: int, spread: float, threshold: float) -> tuple[float, float, float]:
    """The detectable drop as stated, the share of such drops that is found, and of drops of 6.6 points."""
    seeded = random.Random(f"{tasks}/{spread}/{threshold}")
    rates = [0.2 + 0.6 * logistic(seeded.gauss(0, spread)) for _ in range(tasks)]

    def pair(drop: float) -> tuple[VariantAttempts, VariantAttempts]:
        return day_of(seeded, rates), day_of(seeded, [rate - drop for rate in rates])

    stated = [drift(*pair(0), threshold, family=1).detectable.size for _ in range(20)]
    size = fmean(one for one in stated if one is not None)

    def found(drop: float) -> float:
        p_values = [drift(*pair(drop), threshold, family=1).p_shift for _ in range(draws)]
        return fmean(p is not None and p < threshold for p in p_values)

    return size, found(size), found(0.066)


def main() -> int:
    """Print both tables; 1 if the published interval covers less than .90 anywhere."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1500, help="draws in each world")
    arguments = parser.parse_args()
    print(f"base rate  cluster sd  task sd  {'  '.join(f'{arm:>9}' for arm in ARMS)}")
    lowest = [1.0] * len(ARMS)
    for rate in RATES:
        for cluster_sd in CLUSTER_SDS:
            for task_sd in TASK_SDS:
                found = coverage(arguments.draws, rate, cluster_sd, task_sd)
                lowest = [min(pair) for pair in zip(lowest, found, strict=True)]
                cells = "  ".join(f"{value:>9.3f}" for value in found)
                print(f"{rate:>9}  {cluster_sd:>10}  {task_sd:>7}  {cells}", flush=True)
    print(f"{'lowest':>9}  {'':>10}  {'':>7}  {'  '.join(f'{value:>9.3f}' for value in lowest)}")
    print("\ntasks  threshold  detectable  found at that size  6.6 points found")
    for tasks, threshold in ((66, 0.01), (113, 0.01), (303, 0.01), (66, 0.05)):
        size, power, small = drift_power(max(100, arguments.draws // 3), tasks, 1.0, threshold)
        print(f"{tasks:>5}  {threshold:>9}  {size:>10.3f}  {power:>18.2f}  {small:>16.2f}", flush=True)
    return int(lowest[-1] < 0.9)


if __name__ == "__main__":
    sys.exit(main())
