"""How much a published number may tell about one device: zero-concentrated differential privacy, and its translation
into epsilon and delta.

An integer vector with L2 sensitivity s and discrete Gaussian noise of deviation sigma is (s/sigma)^2 / 2-zCDP (Canonne,
Kamath, Steinke 2020, theorem 4); losses of several releases add up. rho-zCDP implies (epsilon, delta) for every
epsilon: delta = min over a > 1 of exp((a-1)(a rho - epsilon)) / (a-1) (1-1/a)^a (corollary 13 there).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """What one release may cost: `epsilon` > 0, and `delta`, the share of cases for which epsilon need not hold."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon <= 20.0:
            raise ValueError(f"epsilon must lie in (0, 20], got {self.epsilon}; 1 is usual, above 8 little is promised")
        if not 0.0 < self.delta <= 1e-4:
            raise ValueError(f"delta must lie in (0, 1e-4], got {self.delta}; take less than one over the fleet's size")


def delta_of(rho: float, epsilon: float) -> float:
    """The smallest delta that rho-zCDP gives for this epsilon."""
    if rho <= 0.0:
        return 0.0

    def exponent(a: float) -> float:
        return (a - 1.0) * (a * rho - epsilon) - math.log(a - 1.0) + a * math.log1p(-1.0 / a)

    low, high = 1.0 + 1e-9, max(4.0, 4.0 * (epsilon + 1.0) / rho)
    for _ in range(200):
        third = (high - low) / 3.0
        low, high = (low, high - third) if exponent(low + third) < exponent(high - third) else (low + third, high)
    return min(1.0, math.exp(exponent((low + high) / 2.0)))


def epsilon_of(rho: float, delta: float) -> float:
    """The smallest epsilon that rho-zCDP gives for this delta."""
    low, high = 0.0, rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)) + 1.0
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if delta_of(rho, middle) > delta else (low, middle)
    return high


def rho_of(budget: Budget) -> float:
    """The largest zCDP loss that keeps the budget."""
    low, high = 0.0, budget.epsilon
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if delta_of(middle, budget.epsilon) <= budget.delta else (low, middle)
    return low


def composed(budget: Budget, releases: int) -> Budget:
    """What so many releases of the same device's data cost together, at the same delta."""
    return Budget(min(20.0, epsilon_of(releases * rho_of(budget), budget.delta)), budget.delta)
