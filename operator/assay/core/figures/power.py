"""Minimum detectable effect: the true difference that a comparison finds with 80 % power (method §7.2)."""

from assay.core.figures.student import t_quantile

SIGNIFICANCE = 0.05
POWER = 0.8


def minimum_detectable_effect(standard_error: float, degrees_of_freedom: float) -> float:
    """(t.975 + t.8) · SE at the error's own df: with few clusters far above the usual 2.80 · SE."""
    quantiles = t_quantile(1 - SIGNIFICANCE / 2, degrees_of_freedom) + t_quantile(POWER, degrees_of_freedom)
    return quantiles * standard_error
