"""The report's answer in words: which variant is better, by how much, and whether that is more than noise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay.api.report import IndexRow, Report, Row, ShiftFigures
from assay.core.report_cells import percent, with_error

ALPHA = 0.05


class Noise(StrEnum):
    """What the exact test says of a difference."""

    MORE = "More than noise"
    WITHIN = "Could be noise"
    UNKNOWN = "Cannot tell from noise"


@dataclass(frozen=True, slots=True)
class Answer:
    """One candidate against the baseline on a ledger or on the index. `pointer` is the shift's place."""

    scope: str
    candidate: str
    baseline: str
    headline: str
    scores: str
    noise: Noise
    why: str
    pointer: str
    shift: float


def answers(report: Report) -> list[Answer]:
    """Every comparison with the baseline, the largest difference first; by the index where there is one."""
    found = list(_of_index(report)) or list(_of_ledgers(report))
    return sorted(found, key=lambda one: (one.scope, -one.shift, one.candidate))


def no_answer(report: Report) -> str:
    """Why nothing is compared; for reports without any answer."""
    if report.baseline is None:
        return "Nothing is compared: the run names no baseline."
    candidates = [row for row in report.vector if row.role == "candidate"]
    if not candidates:
        return f"Nothing is compared: there is no variant beside the baseline {report.baseline}."
    reason = next((row.shift_reason for row in candidates if row.shift_reason), "no shift is known")
    return f"Nothing is compared: {reason}."


def best_score(report: Report) -> str:
    """The headline of a report that compares nothing: its highest score; empty where there is none."""
    known = [row for row in report.vector if row.role != "sentinel" and row.score.strict is not None]
    if not known:
        return ""
    best = max(known, key=lambda row: row.score.strict or 0.0)
    half = best.sampling.interval.half_width if best.sampling and best.sampling.interval else None
    return f"{best.variant} scores {with_error(best.score.strict, half)} on {best.ledger}"


def noise_of(shift: ShiftFigures | None) -> tuple[Noise, str]:
    """Whether a difference is more than noise by the exact test, and why it is said."""
    test = shift.sign_flip if shift else None
    p = None if test is None else (test.p_value if test.adjusted_p is None else test.adjusted_p)
    if shift is None or test is None or p is None:
        reason = (test.reason if test else None) or (shift.error_reason if shift else None)
        return Noise.UNKNOWN, reason or "there is no exact test of it"
    family = f", adjusted for {test.family} comparisons" if test.family > 1 else ""
    said = f"the exact test over {_count(test.clusters, 'task cluster')} gives p {_p(p)}{family}"
    if p < ALPHA:
        return Noise.MORE, said
    if test.smallest_possible_p >= ALPHA:
        differing = _count(test.clusters_differing, "cluster")
        return Noise.UNKNOWN, (
            f"the variants differ in only {differing} of {test.clusters}: too few for any result to reach "
            f"p < {ALPHA:.2f} (at best {test.smallest_possible_p:.2g})"
        )
    return Noise.WITHIN, said


def _of_index(report: Report) -> Iterator[Answer]:
    base = next((row for row in report.index if row.variant == report.baseline), None)
    for place, row in enumerate(report.index):
        if row.role == "candidate" and row.shift is not None and row.shift.shift is not None:
            scores = _scores(row.value, base.value if base else None)
            yield _answer(f"Index {report.suite}", row, row.shift, scores, f"/index/{place}")


def _of_ledgers(report: Report) -> Iterator[Answer]:
    bases = {row.ledger: row for row in report.vector if row.variant == report.baseline}
    for place, row in enumerate(report.vector):
        if row.role == "candidate" and row.shift is not None and row.shift.shift is not None:
            base = bases.get(row.ledger)
            scores = _scores(row.score.strict, base.score.strict if base else None)
            yield _answer(row.ledger, row, row.shift, scores, f"/vector/{place}")


def _scores(own: float | None, base: float | None) -> str:
    return f"{percent(own)} against {percent(base)}"


def _answer(scope: str, row: Row | IndexRow, shift: ShiftFigures, scores: str, place: str) -> Answer:
    size = shift.shift or 0.0
    noise, why = noise_of(shift)
    return Answer(
        scope=scope,
        candidate=row.variant,
        baseline=shift.baseline,
        headline=_headline(row.variant, shift.baseline, size, noise),
        scores=scores,
        noise=noise,
        why=". ".join(_reasons(shift, noise, why)) + ".",
        pointer=f"{place}/shift/shift",
        shift=size,
    )


def _headline(candidate: str, baseline: str, size: float, noise: Noise) -> str:
    # Neither what rounds to nothing nor what may be noise is called better: then it says what was seen.
    points = round(100 * size, 1)
    if points == 0:
        return f"{candidate} scored the same as {baseline}"
    if noise is Noise.MORE:
        word = "better" if points > 0 else "worse"
        return f"{candidate} is {word} than {baseline} by {abs(points):.1f} points"
    word = "more" if points > 0 else "fewer"
    return f"{candidate} scored {abs(points):.1f} points {word} than {baseline}"


def _reasons(shift: ShiftFigures, noise: Noise, why: str) -> Sequence[str]:
    found = []
    if shift.sampling is not None:
        low, high = 100 * shift.sampling.low, 100 * shift.sampling.high
        found.append(
            f"On tasks like these the difference is {low:+.1f} to {high:+.1f} points (95 % interval)"
        )
    found.append(why[0].upper() + why[1:])
    if noise is not Noise.MORE and shift.minimum_detectable_effect is not None:
        size = 100 * shift.minimum_detectable_effect
        found.append(f"A true difference below {size:.1f} points would mostly not have been found here")
    return found


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"= {value:.2g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
