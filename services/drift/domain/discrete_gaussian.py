"""Exact discrete Gaussian noise on integers.

Noise in floating point can be told apart by its last bits (opacus#616, diffprivlib#94): the numbers that a float
sampler can reach depend on what was added to them. So nothing here is a float: probabilities are rational, random bits
come from the operating system, and every sample has exactly the probability that the proof is about (Canonne, Kamath,
Steinke 2020, algorithms 1 to 3).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor, isqrt

Below = Callable[[int], int]
"""Returns a uniform integer 0 <= x < n."""


def add_noise(values: Sequence[int], sigma_squared: Fraction, below: Below = secrets.randbelow) -> list[int]:
    """Add independent discrete Gaussian noise of parameter sigma^2 to integers."""
    if sigma_squared <= 0:
        raise ValueError(f"sigma^2 must be positive, got {sigma_squared}")
    return [int(value) + discrete_gaussian(sigma_squared, below) for value in values]


def discrete_gaussian(sigma_squared: Fraction, below: Below) -> int:
    """One sample: P(x) is proportional to exp(-x^2 / (2 sigma^2))."""
    scale = isqrt(floor(sigma_squared)) + 1
    while True:
        candidate = discrete_laplace(scale, below)
        bias = (abs(candidate) - sigma_squared / scale) ** 2 / (2 * sigma_squared)
        if _happens_exp(bias, below):
            return candidate


def discrete_laplace(scale: int, below: Below) -> int:
    """One sample: P(x) is proportional to exp(-|x| / scale)."""
    while True:
        rest = below(scale)
        if not _happens_exp(Fraction(rest, scale), below):
            continue
        whole = 0
        while _happens_exp(Fraction(1), below):
            whole += 1
        size = rest + scale * whole
        negative = below(2) == 1
        if not (negative and size == 0):
            return -size if negative else size


def _happens_exp(rate: Fraction, below: Below) -> bool:
    """True with probability exp(-rate), exactly."""
    while rate > 1:
        if not _happens_exp(Fraction(1), below):
            return False
        rate -= 1
    count = 1
    while below(rate.denominator * count) < rate.numerator:
        count += 1
    return count % 2 == 1
