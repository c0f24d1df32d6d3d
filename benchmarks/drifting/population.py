"""Synthetic fleets whose answer is known: device effects, AR(1) frames, heavy tails; drawn many at a time.

Units are those of the observer's whitened subspace: a healthy frame has variance 1 along each of 28 directions, of
which `between` lies between devices. Frames of one device follow AR(1) with coefficient `rho`. With heavy tails a
device's whole day is scaled by a factor that makes it multivariate t with 4 degrees of freedom, of unit variance.

Means of a day are drawn from their exact law (the mean of AR(1) frames is Gaussian, with a known variance), so that
tens of thousands of cohort-days fit into a minute. `benchmarks.drifting.device_days` makes whole frames instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import BINS, HISTOGRAMS, SUBSPACE
from services.drift.domain.reference import Reference
from services.drift.domain.votes import Votes

Array = NDArray[np.float64]

TAIL_FREEDOM = 4
LOG_ENERGY, LOG_ENERGY_SPREAD = 5.0, 0.1
SCORE_SPREAD = 0.3
SHARES: Array = np.full((HISTOGRAMS, BINS), 1.0 / BINS)


@dataclass(frozen=True)
class Population:
    """How devices and frames vary. `frames` a device and day."""

    between: float = 0.5
    rho: float = 0.95
    frames: int = 120
    heavy: bool = False

    @property
    def name(self) -> str:
        """A word for figure ids."""
        return "heavy" if self.heavy else "gaussian"

    @property
    def mean_variance(self) -> float:
        """Variance of the mean of a day's frames of one device around the device, for frames of variance 1."""
        n, rho = self.frames, self.rho
        if rho == 0:
            return 1.0 / n
        return ((1 + rho) / (1 - rho) - 2 * rho * (1 - rho**n) / (n * (1 - rho) ** 2)) / n


def scales(rng: np.random.Generator, population: Population, shape: tuple[int, ...]) -> Array:
    """Scale of each device's day: 1, or such that normal numbers times it are t with unit variance."""
    if not population.heavy:
        return np.ones(shape)
    chi = rng.chisquare(TAIL_FREEDOM, shape)
    return np.asarray(np.sqrt((TAIL_FREEDOM - 2) / chi))


def device_votes(rng: np.random.Generator, population: Population, devices: int, level: Array) -> Votes:
    """Return the votes of fresh devices on one day whose mean lies at `level` (28). Histograms are left even."""
    scale = scales(rng, population, (devices,))
    within = (1 - population.between) * population.mean_variance
    means = rng.standard_normal((devices, SUBSPACE)) * (np.sqrt(population.between + within) * scale)[:, None] + level
    energies = LOG_ENERGY + LOG_ENERGY_SPREAD * rng.standard_normal(devices) + 2.0 * np.log(scale)
    scores = SCORE_SPREAD * rng.standard_normal(devices)
    votes = Votes.of_devices(means, np.empty((devices, 0, 0)), scores, energies)
    return replace(votes, shares=SHARES, share_squares=np.zeros_like(SHARES))


def healthy_fleet(
    rng: np.random.Generator, population: Population, levels: Array, devices: int, days: int = 2
) -> list[Reference]:
    """Return the reference of each cohort (its level a row of `levels`): `days` days of fresh devices."""
    return [Reference.of_days([device_votes(rng, population, devices, level) for _ in range(days)]) for level in levels]
