"""Means with confidence intervals: Student's t, without a dependency."""
from __future__ import annotations

import math
from collections.abc import Sequence


def student_t(confidence: float, freedom: int) -> float:
    """The t with which `confidence` of Student's distribution lies between -t and t."""
    low, high = 0.0, 1.0
    while _between(high, freedom) < confidence:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _between(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _between(t: float, freedom: int) -> float:
    """The share of Student's distribution between -t and t."""
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun, 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny, fraction, c, d = 1e-300, 1.0, 1.0, 0.0
    for i in range(400):
        m = i // 2
        if i == 0:
            numerator = 1.0
        elif i % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + numerator * d or tiny)
        c = 1 + numerator / c or tiny
        fraction *= c * d
        if abs(1 - c * d) < 1e-15:
            break
    return front * (fraction - 1)


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float | None]:
    """The mean, and half the width of its confidence interval; None for a single value, of which nothing is known."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    if min(values) == max(values):
        # The mean may differ from them in its last digit.
        return float(values[0]), 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, student_t(confidence, len(values) - 1) * math.sqrt(variance / len(values))
