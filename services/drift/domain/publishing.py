"""A cohort's day as it may be shown to others: the number of devices and eight histograms, with central differential
privacy. Device-days are protected: a report more or less is hidden within epsilon and delta.

Every device has one vote, so it moves each histogram by at most 1 in L2 and the count by 1: 3 together. Votes are put
on a grid of 1/64 first, because exact noise needs integers; rounding may move each of the 129 numbers by one grid step
more, and that is part of the sensitivity. Means and covariances are not published: a device's share in them has no
useful bound. Cohorts of fewer than 50 devices (after noise) are suppressed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import BINS, HISTOGRAMS
from services.drift.domain.discrete_gaussian import add_noise
from services.drift.domain.privacy_loss import Budget, rho_of

GRID = 64
NUMBERS = 1 + HISTOGRAMS * BINS
SENSITIVITY = GRID * math.sqrt(1 + HISTOGRAMS) + math.sqrt(NUMBERS)
"""L2, in grid steps: what one device can change."""

LEAST_DEVICES = 50
Noise = Callable[[Sequence[int], Fraction], list[int]]


@dataclass(frozen=True)
class PublishedDay:
    """What leaves: noisy `devices`, noisy `votes` (8 x 16, devices per bin), and the promise that they were made under.

    `deviation` is that of the noise in devices.
    """

    devices: float
    votes: NDArray[np.float64]
    epsilon: float
    delta: float
    deviation: float


def sigma_squared_for(budget: Budget) -> Fraction:
    """Parameter of the noise in grid steps squared, rounded up."""
    return Fraction(math.ceil(SENSITIVITY**2 / (2.0 * rho_of(budget)) * 1_000) + 1, 1_000)


def deviation_of(budget: Budget) -> float:
    """Standard deviation of the noise, in devices."""
    return math.sqrt(float(sigma_squared_for(budget))) / GRID


def publish(devices: int, shares: NDArray[np.float64], budget: Budget, noise: Noise = add_noise) -> PublishedDay | None:
    """Publish `devices` and the mean histogram shares (8 x 16) of their votes; None when the cohort is too small."""
    spread = sigma_squared_for(budget)
    exact = np.concatenate([[float(devices)], (shares * devices).ravel()])
    noisy = np.array(noise([round(value * GRID) for value in exact], spread), np.float64) / GRID
    if noisy[0] < LEAST_DEVICES:
        return None
    votes = noisy[1:].reshape(HISTOGRAMS, BINS)
    return PublishedDay(float(noisy[0]), votes, budget.epsilon, budget.delta, deviation_of(budget))
