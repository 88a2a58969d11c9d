"""The exact distribution of a sum of independent terms on whole numbers, and its tails.

A term is a tuple of (value, weight) with whole weights; equal terms are given once with their number. Small
sums are computed in whole numbers, a polynomial being one long integer; long ones in floating point, without
FFT, so that far tails keep their digits. Both give the same first 12 digits (tested).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd, log2, prod, sumprod

type Term = tuple[tuple[int, int], ...]

EXACT_BITS = 1_000_000
"""Longest polynomial, in bits, that is multiplied out in whole numbers: some 5 ms."""
DENSE_STEPS = 300_000
"""Widest sum, in steps of its lattice, that is computed in floating point."""
MAX_STATES = 500_000
"""Most different sums that are held where the lattice is too fine for a dense array."""
NEGLIGIBLE = 1e-100
"""Tails below this share of the peak are cut, and their share added to every tail probability."""


class TooManySumsError(ValueError):
    """The sum has too many different values to compute its distribution exactly."""

    def __init__(self, states: int) -> None:
        """`states`: how many different sums there may be."""
        super().__init__(
            f"no exact test: the shift can take {states:,} values or more, beyond the limit of {MAX_STATES:,}"
        )


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in ascending order with their weights, which need not add up to 1: whole numbers where exact."""

    values: Sequence[int]
    weights: Sequence[int] | Sequence[float]
    cut: float = 0.0
    """Upper bound of the share that was cut from the far tails."""

    @property
    def exact(self) -> bool:
        """Whether weights are whole numbers."""
        return isinstance(self.weights[0], int)

    def negated(self) -> "Distribution":
        """The distribution of minus the sum."""
        return Distribution(
            [-value for value in reversed(self.values)], list(reversed(self.weights)), self.cut
        )


def distribution_of_sum(terms: Mapping[Term, int]) -> Distribution:
    """Distribution of the sum of independent terms, each occurring as often as its count says.

    Raises TooManySumsError where even the sparse method would need too many states.
    """
    lattice = _Lattice.of(terms)
    bits = sum(count * log2(sum(weight for _, weight in term)) for term, count in terms.items())
    if lattice.steps * (bits + 16) <= EXACT_BITS:
        return _by_long_integers(terms, lattice, int(bits) + 2)
    if lattice.steps <= DENSE_STEPS:
        return _by_floats(terms, lattice)
    return _by_dictionary(terms)


def tail_probability(sums: Sequence[Distribution], threshold: int) -> float:
    """P(X₁ + X₂ + … ≥ threshold) of independent sums; TooManySumsError if there are too many totals."""
    parts = sorted(sums, key=lambda one: len(one.values), reverse=True)
    if not all(part.exact for part in parts):
        parts = [_normalised(part) for part in parts]
    # The total is never spelled out: it meets in the middle, each value of one half with a tail of the other.
    halves: tuple[list[Distribution], list[Distribution]] = ([], [])
    for part in parts:
        min(halves, key=_states).append(part)
    first, second = (_spelled_out(half) for half in halves)
    values = sorted(first)
    above = [*accumulate((first[value] for value in reversed(values)), initial=0)][::-1]
    hits = sum(weight * above[bisect_left(values, threshold - value)] for value, weight in second.items())
    share = hits / prod(sum(part.weights) for part in parts)
    return min(1.0, share + sum(part.cut for part in parts))


def _states(half: Sequence[Distribution]) -> int:
    return prod(len(part.values) for part in half)


def _spelled_out(half: Sequence[Distribution]) -> dict[int, int | float]:
    if len(half) > 1 and (states := _states(half)) > MAX_STATES:
        raise TooManySumsError(states)
    total: dict[int, int | float] = {0: 1}
    for part in half:
        total = _added(total, zip(part.values, part.weights, strict=True))
    return total


def critical_value(sums: Distribution, level: float) -> int | None:
    """The smallest t above 0, among the values' sizes, with P(|X| ≥ t) < level; None where there is none."""
    sizes: dict[int, int | float] = defaultdict(int)
    for value, weight in zip(sums.values, sums.weights, strict=True):
        sizes[abs(value)] += weight
    whole, tail, found = sum(sums.weights), 0.0, None
    for size in sorted(sizes, reverse=True):
        tail += sizes[size] / whole
        if size == 0 or tail + sums.cut >= level:
            break
        found = size
    return found


@dataclass(frozen=True, slots=True)
class _Lattice:
    """Every sum is `start` plus a multiple of `step`, from 0 to `steps` of them."""

    start: int
    step: int
    steps: int

    @classmethod
    def of(cls, terms: Mapping[Term, int]) -> "_Lattice":
        start = sum(count * term[0][0] for term, count in terms.items())
        width = sum(count * (term[-1][0] - term[0][0]) for term, count in terms.items())
        step = gcd(*(value - term[0][0] for term in terms for value, _ in term)) or 1
        return cls(start, step, width // step)

    def offsets(self, term: Term) -> list[tuple[int, int]]:
        """(steps above the term's least value, weight)."""
        return [((value - term[0][0]) // self.step, weight) for value, weight in term]


def _by_long_integers(terms: Mapping[Term, int], lattice: _Lattice, bits: int) -> Distribution:
    """Kronecker substitution: a polynomial is one integer, with each coefficient in bytes of its own."""
    width = bits // 8 + 1
    product = 1
    for term, count in terms.items():
        product *= sum(weight << (8 * width * place) for place, weight in lattice.offsets(term)) ** count
    content = product.to_bytes(width * (lattice.steps + 1), "little")
    weights = [int.from_bytes(content[i : i + width], "little") for i in range(0, len(content), width)]
    values = range(lattice.start, lattice.start + lattice.step * (lattice.steps + 1), lattice.step)
    kept = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight]
    return Distribution([value for value, _ in kept], [weight for _, weight in kept])


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a dense distribution that is not negligible: shares from `first` on."""

    first: int
    shares: list[float]
    cut: float

    @classmethod
    def trimmed(cls, first: int, shares: list[float], cut: float) -> "_Window":
        limit = max(shares) * NEGLIGIBLE
        low = next(i for i, share in enumerate(shares) if share > limit)
        high = next(i for i in range(len(shares), 0, -1) if shares[i - 1] > limit)
        cut += sum(shares[:low]) + sum(shares[high:])
        return cls(first + low, shares[low:high], cut)


def _by_floats(terms: Mapping[Term, int], lattice: _Lattice) -> Distribution:
    total = _Window(0, [1.0], 0.0)
    for term, count in sorted(terms.items()):
        total = _product(total, _power(lattice.offsets(term), count))
    values = [lattice.start + lattice.step * (total.first + i) for i in range(len(total.shares))]
    return Distribution(values, total.shares, total.cut)


def _power(offsets: list[tuple[int, int]], count: int) -> tuple[_Window, int]:
    """The sum of `count` equal terms, by squaring, on the term's own lattice; and that lattice's step."""
    step = gcd(*(place for place, _ in offsets)) or 1
    total = sum(weight for _, weight in offsets)
    shares = [0.0] * (offsets[-1][0] // step + 1)
    for place, weight in offsets:
        shares[place // step] += weight / total
    square, result = _Window(0, shares, 0.0), _Window(0, [1.0], 0.0)
    while count:
        if count & 1:
            result = _product(result, (square, 1))
        count >>= 1
        if count:
            square = _product(square, (square, 1))
    return result, step


def _product(dense: _Window, factor: tuple[_Window, int]) -> _Window:
    """Convolve a dense window with one whose shares lie `step` apart; sums of positive products alone."""
    window, step = factor
    a, b = dense.shares, window.shares
    if step == 1 and len(a) < len(b):
        a, b = b, a
    padding = [0.0] * (step * (len(b) - 1))
    padded = padding + a + padding
    backwards = b[::-1]
    span = step * (len(b) - 1) + 1
    shares = [sumprod(backwards, padded[i : i + span : step]) for i in range(len(a) + len(padding))]
    return _Window.trimmed(dense.first + step * window.first, shares, dense.cut + window.cut)


def _by_dictionary(terms: Mapping[Term, int]) -> Distribution:
    sums: dict[int, int | float] = {0: 1}
    for term, count in terms.items():
        for _ in range(count):
            sums = _added(sums, term)
            if len(sums) > MAX_STATES:
                raise TooManySumsError(len(sums))
    values = sorted(sums)
    return Distribution(values, [int(sums[value]) for value in values])


def _added(
    sums: Mapping[int, int | float], term: Iterable[tuple[int, int | float]]
) -> dict[int, int | float]:
    added: dict[int, int | float] = defaultdict(int)
    pairs = list(term)
    for value, weight in sums.items():
        for more, factor in pairs:
            added[value + more] += weight * factor
    return added


def _normalised(part: Distribution) -> Distribution:
    total = sum(part.weights)
    return Distribution(part.values, [weight / total for weight in part.weights], part.cut)
