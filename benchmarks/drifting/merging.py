"""100,000 reports through their bytes and merged, against the moments of all raw frames pooled.

The raw side never sees a report: sums of the frames in reference units, in float64, block after block. Two fleets:
devices that differ, as devices do, and devices that are all alike, which is the worst case for a variance coded in
steps of 6 % (every report is rounded the same way).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.drifting.device_days import World, histogram_counts, reports
from benchmarks.drifting.population import Population
from benchmarks.judging.rows import printed
from contracts.statistics import ObserverParameters, decode_report
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from edgeloop.figures import Figure, at_most, exactly
from services.drift.domain.accumulator import CohortDayStatistics, statistics_of
from services.drift.domain.reading import Reading

SEED = 603
REPORTS, BLOCK, FRAMES = 100_000, 4_000, 12
MEAN_ERROR, VARIANCE_ERROR = 1e-4, 0.002
DAY = 20_000
ALIKE_FRAMES, ALIKE_PART = 3_000, 250

Array = NDArray[np.float64]
Say = Callable[[float, str], None]


@dataclass
class Pool:
    """Sums over raw frames in reference units."""

    count: int = 0
    sums: Array = field(default_factory=lambda: np.zeros(DIMENSIONS))
    squares: Array = field(default_factory=lambda: np.zeros(DIMENSIONS))
    products: Array = field(default_factory=lambda: np.zeros((SUBSPACE, SUBSPACE)))
    projected: Array = field(default_factory=lambda: np.zeros(SUBSPACE))
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros((HISTOGRAMS, BINS), np.int64))

    def add(self, frames: NDArray[np.float32], observer: ObserverParameters) -> None:
        """Take frames (devices, frames, 256)."""
        z = np.clip((frames - observer.mu0) / observer.sd0, -8.0, 8.0).astype(np.float64)
        along = z @ observer.directions.T.astype(np.float64)
        self.histogram += histogram_counts(along, observer.edges).sum(axis=0)
        flat = z.reshape(-1, DIMENSIONS)
        inside = flat @ observer.projection.T.astype(np.float64)
        self.count += len(flat)
        self.sums += flat.sum(axis=0)
        self.squares += np.square(flat).sum(axis=0)
        self.projected += inside.sum(axis=0)
        self.products += inside.T @ inside

    @property
    def mean(self) -> Array:
        """Mean of the frames."""
        return self.sums / self.count

    @property
    def variance(self) -> Array:
        """Population variance of the frames."""
        return self.squares / self.count - np.square(self.mean)

    @property
    def covariance(self) -> Array:
        """Population covariance in the subspace."""
        centre = self.projected / self.count
        return self.products / self.count - np.outer(centre, centre)


@dataclass
class Seconds:
    """Where the time of the merge goes."""

    decode: float = 0.0
    merge: float = 0.0


def figures(say: Say, count: int = REPORTS) -> list[Figure]:
    """Errors and seconds of both fleets; the second, of devices all alike, is printed only."""
    merged, pool, seconds = merged_and_pooled(Population(frames=FRAMES), count, lambda done: say(0.8 * done, "merge"))
    per_report = 1e6 * (seconds.decode + seconds.merge) / count
    found = [
        at_most(
            "merge.mean_error", _largest(merged.moments.mean - pool.mean), "reference sd, worst of 256", MEAN_ERROR
        ),
        at_most(
            "merge.variance_error",
            _largest(merged.moments.variance / pool.variance - 1),
            "worst of 256",
            VARIANCE_ERROR,
        ),
        printed("merge.covariance_error", _apart(merged, pool), "of its Frobenius norm, 28 x 28"),
        exactly("merge.histogram_equal", bool((merged.moments.histogram == pool.histogram).all()), "", True),
        exactly("merge.frames_equal", merged.moments.count == pool.count, f"{pool.count} frames", True),
        printed("merge.seconds", round(seconds.decode + seconds.merge, 2), f"s for {count} reports, one core"),
        printed("merge.seconds_decode", round(seconds.decode, 2), "s of these to check and parse bytes"),
        printed("merge.microseconds_a_report", round(per_report, 1), "us"),
        printed("merge.cohort_day_bytes", len(merged.to_bytes()), "B stored, whatever the number of reports"),
    ]
    say(0.8, "merge, devices all alike")
    alike = Population(between=0.0, rho=0.0, frames=ALIKE_FRAMES)
    merged, pool, _ = merged_and_pooled(
        alike, count // ALIKE_PART, lambda done: say(0.8 + 0.2 * done, "merge, all alike")
    )
    worst = _largest(merged.moments.variance / pool.variance - 1)
    return [
        *found,
        printed("merge.variance_error_devices_alike", worst, f"worst of 256, {count // ALIKE_PART} reports"),
    ]


def merged_and_pooled(
    population: Population, count: int, done: Callable[[float], None]
) -> tuple[CohortDayStatistics, Pool, Seconds]:
    """Make, send, merge and pool `count` device-days."""
    world, rng = World.of(SEED), np.random.default_rng(SEED)
    merged, pool, seconds = CohortDayStatistics(), Pool(), Seconds()
    reading = Reading.of(world.observer.projection)
    block = max(1, min(BLOCK, BLOCK * FRAMES // population.frames))
    for start in range(0, count, block):
        frames = world.frames(rng, population, min(block, count - start), 0.3)
        pool.add(frames, world.observer)
        payloads = reports(frames, world.observer, DAY, start)
        begun = time.perf_counter()
        decoded = [decode_report(payload) for payload in payloads]
        parsed = time.perf_counter()
        merged = merged.merge(statistics_of(decoded, reading))
        seconds.decode += parsed - begun
        seconds.merge += time.perf_counter() - parsed
        done((start + block) / count)
    return merged, pool, seconds


def _largest(errors: Array) -> float:
    return float(f"{np.abs(errors).max():.3g}")


def _apart(merged: CohortDayStatistics, pool: Pool) -> float:
    gap = merged.moments.projected_covariance - pool.covariance
    return float(f"{np.linalg.norm(gap) / np.linalg.norm(pool.covariance):.3g}")
