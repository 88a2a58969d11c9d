"""How long all figures take, with every error and test, and how that grows from 10,000 to 100,000 attempts.

    python benchmarks/scoring_speed.py

Two shapes: a suite of three ledgers (113, 66 and 124 tasks, three repetitions) with ever more variants, and
one ledger with ever more tasks and four variants. Each measurement is a process of its own; observations come
as a stream. Bars: 100,000 attempts in 10 s and 500 MB, and at most 12 times the time of 10,000.
"""

import argparse
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from assay.core.figures.attempts import VariantAttempts, collect
from assay.core.figures.clustered import sampling_error
from assay.core.figures.drift import drift
from assay.core.figures.drift_gate import drift_gate
from assay.core.figures.holm import holm
from assay.core.figures.index import ComponentPlan, ComponentResult, index, index_shift
from assay.core.figures.observations import LedgerTasks, Observation, TaskFacts
from assay.core.figures.paired import paired_shift
from assay.core.figures.passk import pass_k
from assay.core.figures.rates import attempt_rates, suite_rate
from assay.core.figures.repeat_noise import repeat_noise
from assay.core.figures.scores import clusters_of, score, scores_by, strict_scores

REPETITIONS = 3
SUITE_TASKS = {"deepswe": 113, "terminal-bench": 66, "qna": 124}
QNA_CLUSTERS = (26, 15, 15, 14, 10, 8, 8, 8, 7, 7, 6)
MAX_SECONDS, MAX_MEGABYTES, MAX_GROWTH = 10, 500, 12


def ledger_with(name: str, tasks: int) -> LedgerTasks:
    """QnA has its real clusters; elsewhere every tenth task shares the cluster of the one before."""
    clusters = [f"c{i - (i % 10 == 9)}" for i in range(tasks)]
    if name == "qna":
        clusters = [f"c{i}" for i, size in enumerate(QNA_CLUSTERS) for _ in range(size)]
    facts = (
        TaskFacts(f"{name}-{i}", cluster, f"category{i % 7}", f"language{i % 5}", f"difficulty{i % 3}")
        for i, cluster in enumerate(clusters)
    )
    return LedgerTasks(name, tuple(facts), REPETITIONS)


def observations(ledger: LedgerTasks, variants: list[str]) -> Iterator[Observation]:
    """A stream of results whose pass rates differ by task and by variant."""
    seeded = random.Random(ledger.ledger)
    for facts in ledger.tasks:
        rate = seeded.betavariate(0.8, 0.7)
        for number, variant in enumerate(variants):
            own = min(1.0, max(0.0, rate + 0.1 * (number % 5 - 2)))
            for repetition in range(REPETITIONS):
                reward = float(seeded.random() < own)
                yield Observation(facts.task, variant, repetition, reward, first_try_reward=reward)


def figures_of(attempts: VariantAttempts) -> ComponentResult:
    """All figures of one variant on one ledger."""
    for label in ("category", "language", "difficulty"):
        scores_by(attempts, label)
    for k in range(1, REPETITIONS + 1):
        pass_k(attempts, k)
    error = sampling_error(strict_scores(attempts), clusters_of(attempts.ledger.tasks))
    return ComponentResult(score(attempts), error, repeat_noise(attempts))


def score_all(ledgers: list[LedgerTasks], variants: list[str]) -> int:
    """Everything that a report shows; returns how many attempts it was."""
    results = {ledger.ledger: collect(ledger, observations(ledger, variants)) for ledger in ledgers}
    suite = {ledger.ledger: ComponentPlan(len(ledger.tasks), REPETITIONS) for ledger in ledgers}
    figures = {
        variant: {name: figures_of(found[variant]) for name, found in results.items()} for variant in variants
    }
    indices = {variant: index(suite, own) for variant, own in figures.items()}
    p_values: dict[str, float | None] = {}
    baseline, *candidates = variants
    for variant in candidates:
        shifts = {name: paired_shift(found[variant], found[baseline]) for name, found in results.items()}
        shift = index_shift(indices[variant], indices[baseline], shifts)
        p_values[variant] = shift.sign_flip.p_value if shift.sign_flip else None
        suite_rate({name: attempt_rates(found[variant]).refusal for name, found in results.items()})
    holm(p_values)
    family = 2 * len(results)
    drift_gate(
        {name: drift(one[baseline], one[candidates[1]], 0.01, family) for name, one in results.items()}, 0.01
    )
    return sum(one.planned for found in results.values() for one in found.values())


def measure(shape: str, size: int) -> None:
    """Score one input and print its attempts, seconds, seconds of CPU and peak megabytes."""
    if shape == "variants":
        ledgers = [ledger_with(name, tasks) for name, tasks in SUITE_TASKS.items()]
        variants = [f"v{i}" for i in range(size // (sum(SUITE_TASKS.values()) * REPETITIONS))]
    else:
        variants = [f"v{i}" for i in range(4)]
        ledgers = [ledger_with("large", size // (len(variants) * REPETITIONS))]
    started = time.perf_counter()
    attempts = score_all(ledgers, variants)
    seconds = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(attempts, seconds, usage.ru_utime, usage.ru_maxrss / 1024)


class Measurement(NamedTuple):
    """One run of the scorer."""

    attempts: int
    seconds: float
    cpu_seconds: float
    megabytes: float


def in_own_process(shape: str, size: int) -> Measurement:
    """The run of three that took least CPU: growth is of CPU time, so that a busy machine does not count."""
    command = [sys.executable, __file__, "--measure", shape, "--size", str(size)]
    runs = []
    for _ in range(3):
        words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        runs.append(Measurement(int(words[0]), *map(float, words[1:])))
    return min(runs, key=lambda run: run.cpu_seconds)


def generation_alone(size: int) -> float:
    """Seconds that making up the observations takes, which is part of every measurement."""
    started = time.perf_counter()
    ledger = ledger_with("large", size // 12)
    for _ in islice(observations(ledger, ["a", "b", "c", "d"]), size):
        pass
    return time.perf_counter() - started


def main() -> int:
    """Print the table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", choices=["variants", "tasks"], help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=100_000, help="attempts of the large input")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.size)
        return 0
    missed = False
    print(f"of each large run, {generation_alone(arguments.size):.2f} s make up the observations")
    print(f"{'growing':<10}{'attempts':>10}{'seconds':>9}{'CPU s':>7}{'peak MB':>9}{'growth':>8}")
    for shape in ("variants", "tasks"):
        small, large = (in_own_process(shape, size) for size in (arguments.size // 10, arguments.size))
        growth = large.cpu_seconds / small.cpu_seconds
        missed |= large.seconds > MAX_SECONDS or large.megabytes > MAX_MEGABYTES or growth > MAX_GROWTH
        for one, last in ((small, ""), (large, f"{growth:.1f}")):
            print(
                f"{shape:<10}{one.attempts:>10,}{one.seconds:>9.2f}{one.cpu_seconds:>7.2f}"
                f"{one.megabytes:>9.0f}{last:>8}"
            )
    print("a bar was missed" if missed else "all bars hold")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
