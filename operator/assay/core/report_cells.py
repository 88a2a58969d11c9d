"""How figures stand in a table's cell. Shares become percent here alone."""

from dataclasses import dataclass
from decimal import Decimal

from assay.api.report import KnownCost, KnownMean, Rate, ShiftFigures

UNKNOWN = "—"


@dataclass(frozen=True, slots=True)
class Table:
    """One table with what has to be said about it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def short_digest(digest: str) -> str:
    """A digest as far as eyes compare it."""
    return digest[:19]


def percent(share: float | None, digits: int = 1) -> str:
    """A share as percent."""
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def points(share: float | None) -> str:
    """A difference of shares in percentage points, with its sign."""
    return UNKNOWN if share is None else f"{100 * share:+.1f}"


def with_error(score: float | None, half_width: float | None) -> str:
    """A score and the half width of its interval."""
    if score is None:
        return UNKNOWN
    if half_width is None:
        return f"{percent(score)}, ± {UNKNOWN}"
    return f"{100 * score:.1f} ± {100 * half_width:.1f} %"


def noise(standard_error: float | None) -> str:
    """A standard error in points."""
    return UNKNOWN if standard_error is None else f"± {100 * standard_error:.1f}"


def shift(found: ShiftFigures | None) -> str:
    """A shift with the half width of its interval, in points."""
    if found is None or found.shift is None:
        return UNKNOWN
    half = f" ± {100 * found.sampling.half_width:.1f}" if found.sampling else f", ± {UNKNOWN}"
    return points(found.shift) + half


def p_value(found: ShiftFigures | None) -> str:
    """The adjusted p-value and the size of its family."""
    test = found.sign_flip if found else None
    if test is None or test.p_value is None:
        return UNKNOWN
    if test.adjusted_p is None:
        return f"{test.p_value:.3g}"
    return f"{test.adjusted_p:.3g} of {test.family}"


def mean(found: KnownMean, digits: int) -> str:
    """A mean, with n of planned where values are missing."""
    if found.mean is None:
        return UNKNOWN
    text = f"{found.mean:,.{digits}f}"
    return text if found.n == found.planned else f"{text} ({found.n}/{found.planned})"


def cost(found: KnownCost) -> str:
    """A mean cost with its n; always with n, for costs are missing more often than anything else."""
    return UNKNOWN if found.mean is None else f"{money(found.mean)} ({found.n}/{found.planned})"


def total(found: KnownCost) -> str:
    """A total, marked where it is a lower bound."""
    if found.total is None:
        return "0" if found.planned == 0 else UNKNOWN
    return f"≥ {money(found.total)}" if found.total_is_lower_bound else money(found.total)


def money(value: Decimal) -> str:
    """USD; small amounts with more places."""
    return f"{value:.2f}" if value == 0 or value >= 1 else f"{value:.4f}"


def rate(found: Rate) -> str:
    """Count and n; with a dash where the share is not known."""
    return f"{found.count}/{found.n}" if found.value is not None else f"{UNKNOWN} ({found.count}/{found.n})"


def named(variant: str, role: str) -> str:
    """The variant, and its role where it is no candidate."""
    return variant if role == "candidate" else f"{variant} ({role})"
