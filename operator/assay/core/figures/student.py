"""Student's t distribution at fractional degrees of freedom, from the standard library alone.

docs/decisions/0010 says why. Checked against scipy in the tests to 1e-12.
"""

from functools import lru_cache
from math import exp, inf, isfinite, lgamma, log, log1p, pi

_TINY = 1e-300


def t_cdf(t: float, df: float) -> float:
    """P(T ≤ t) for `df` > 0 degrees of freedom."""
    tail = 0.5 * _beta_tail(t * t / df, df / 2)
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t with P(T ≤ t) = p. Raises ValueError unless 0 < p < 1 and df is finite and above 0."""
    if not 0 < p < 1 or not df > 0 or not isfinite(df):
        raise ValueError(f"no t quantile at p={p}, df={df}: p must lie between 0 and 1, df above 0")
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, df)
    t = 0.0
    while t_cdf(max(1.0, 2 * t), df) < p:
        t = max(1.0, 2 * t)
    # The distribution is concave here: Newton's steps from below come ever closer and never pass the root.
    while (step := (p - t_cdf(t, df)) / _density(t, df)) > t * 4e-16:
        t += step
    return t


def _density(t: float, df: float) -> float:
    return exp(_log_gamma_step(df / 2) - log(df * pi) / 2 - (df + 1) / 2 * log1p(t * t / df))


def _beta_tail(odds: float, a: float) -> float:
    """The regularised incomplete beta function I_x(a, 1/2) at x = 1 / (1 + odds)."""
    if odds == 0:
        return 1.0
    x, rest = 1 / (1 + odds), odds / (1 + odds)
    front = exp(_log_gamma_step(a) - log(pi) / 2 - a * log1p(odds) + log(rest) / 2)
    # The continued fraction converges fast on this side of the mean; the other side is its mirror image.
    if x < (a + 1) / (a + 2.5):
        return front * _continued_fraction(a, 0.5, x) / a
    return 1 - 2 * front * _continued_fraction(0.5, a, rest)


def _log_gamma_step(a: float) -> float:
    """log Γ(a + 1/2) - log Γ(a), where the difference of two large logarithms would lose digits."""
    if a < 50:
        return lgamma(a + 0.5) - lgamma(a)
    return log(a) / 2 - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Lentz's method for the continued fraction of the incomplete beta function."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value, step, m = d, inf, 0
    while abs(step - 1) > 3e-16 and m < 10_000:
        m += 1
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _nonzero(1 + even * d), _nonzero(1 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _nonzero(1 + odd * d), _nonzero(1 + odd / c)
        step = d * c
        value *= step
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
