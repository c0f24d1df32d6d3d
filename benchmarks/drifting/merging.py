"""100,000 reports through their bytes and merged, against the moments of all raw frames pooled.

The raw side never sees a report: sums of the frames in reference units, in float64, block after block. Two fleets:
devices that differ, as devices do, and devices that are all alike, which is the worst case for a variance coded in
steps of 6 %: rounded to the nearest, all reports would be wrong by 3 % together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.drifting.device_days import World, histogram_counts, reports, sealed
from benchmarks.drifting.population import Population
from benchmarks.judging.rows import printed
from contracts.statistics import Moments, ObserverParameters, decode_report
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from edgeloop.figures import Figure, at_most, exactly
from services.drift.domain.accumulator import CohortDayStatistics, statistics_of
from services.drift.domain.reading import Reading

SEED = 603
REPORTS, BLOCK, FRAMES = 100_000, 4_000, 12
MEAN_ERROR, VARIANCE_ERROR = 1e-4, 0.002
DAY = 20_000
ALIKE_FRAMES, ALIKE, ALIKE_ERROR = 30_000, 5_000, 0.002

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
    """Errors and seconds of devices that differ, and the error of devices all alike."""
    merged, pool, seconds = merged_and_pooled(Population(frames=FRAMES), count, lambda done: say(0.9 * done, "merge"))
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
    say(0.9, "merge, devices all alike")
    return [
        *found,
        at_most("merge.variance_error_devices_alike", alike(), f"worst of 256, {ALIKE} reports", ALIKE_ERROR),
    ]


def alike() -> float:
    """Error of the merged variance when every device has the very same one: all rounding goes one way, or dithers."""
    wanted = np.geomspace(1e-2, 50.0, DIMENSIONS)
    moments = Moments(count=ALIKE_FRAMES, squares=wanted * ALIKE_FRAMES)
    moments.histogram[:, 0] = ALIKE_FRAMES
    payloads = [sealed(moments, "bench", DAY, index) for index in range(ALIKE)]
    merged = statistics_of(
        [decode_report(payload) for payload in payloads], Reading.of(World.of(SEED).observer.projection)
    )
    return _largest(merged.moments.variance / wanted - 1)


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
