"""The shift of a candidate against the baseline on the same tasks (method §4.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import hypot

from assay.core.figures.attempts import VariantAttempts
from assay.core.figures.clustered import Interval, SamplingError, sampling_error
from assay.core.figures.observations import FiguresError
from assay.core.figures.power import minimum_detectable_effect
from assay.core.figures.repeat_noise import RepeatNoise, repeat_noise
from assay.core.figures.scores import clusters_of, strict_scores
from assay.core.figures.signflip import SignFlipTest, Stratum, sign_flip_test


@dataclass(frozen=True, slots=True)
class PairedShift:
    """Candidate minus baseline, task by task, in the unit of the scores (-1 to 1)."""

    shift: Fraction
    tasks: int
    clusters: int
    error: SamplingError
    """Of the differences: pairing removes what is hard or easy for both."""
    repeat_noise: RepeatNoise
    """Of the shift on this ledger: both variants' noise."""
    sign_flip: SignFlipTest
    minimum_detectable_effect: float | None
    """Smallest true shift found with 80 % power at 5 %; None where the error is, for the same reason."""
    stratum: Stratum
    """What the suite's stratified test is computed from."""

    @property
    def reason(self) -> str | None:
        """Why there is no error, interval or minimum detectable effect."""
        return self.error.reason


def paired_shift(candidate: VariantAttempts, baseline: VariantAttempts) -> PairedShift:
    """Compare strict scores. FiguresError unless both are on one ledger and have a valid attempt."""
    if candidate.ledger != baseline.ledger:
        raise FiguresError(
            f"candidate {candidate.variant} is on ledger {candidate.ledger.ledger}, "
            f"baseline {baseline.variant} on {baseline.ledger.ledger}, or with other tasks or repetitions; "
            "compare on one ledger"
        )
    for attempts in (candidate, baseline):
        if not attempts.retained:
            raise FiguresError(
                f"variant {attempts.variant} has no valid attempt; there is nothing to compare"
            )
    theirs = strict_scores(baseline)
    differences = {task: own - theirs[task] for task, own in strict_scores(candidate).items()}
    noises = repeat_noise(candidate), repeat_noise(baseline)
    return shift_of(differences, clusters_of(candidate.ledger.tasks), noises)


def shift_of(
    differences: Mapping[str, Fraction],
    clusters: Mapping[str, str],
    noises: tuple[RepeatNoise, RepeatNoise],
) -> PairedShift:
    """The shift from each task's difference of scores."""
    error = sampling_error(differences, clusters)
    stratum = Stratum(differences, clusters)
    return PairedShift(
        shift=error.mean,
        tasks=error.tasks,
        clusters=error.clusters,
        error=error,
        repeat_noise=_of_difference(*noises),
        sign_flip=sign_flip_test([stratum]),
        minimum_detectable_effect=None if error.interval is None else effect_detectable_at(error.interval),
        stratum=stratum,
    )


def effect_detectable_at(interval: Interval) -> float:
    """Minimum detectable effect at the error and degrees of freedom of an interval."""
    return minimum_detectable_effect(interval.standard_error, interval.degrees_of_freedom)


def _of_difference(first: RepeatNoise, second: RepeatNoise) -> RepeatNoise:
    if first.standard_error is None or second.standard_error is None:
        return first if first.standard_error is None else second
    together = hypot(first.standard_error, second.standard_error)
    return RepeatNoise(together, first.tasks, first.repetitions)
