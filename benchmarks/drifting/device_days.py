"""Device-days from whole frames of 256 dimensions, as reports: what a fleet sends, with the frames still at hand.

Embeddings have a power-law spectrum in a rotated basis and unit variance a coordinate on average; devices differ, and
frames of one device follow AR(1). The observer is fitted as `flows.quality` does it: mean and spread a coordinate,
the 28 strongest whitened directions, histogram edges at quantiles. Statistics of a device are computed for all frames
at once; a test holds them equal to the agent's, which takes frame by frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from benchmarks.drifting.population import Population, scales
from contracts.device import DeviceTags
from contracts.statistics import Moments, ObserverParameters, encode_report
from contracts.statistics.drf1 import report_from
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE

Array = NDArray[np.float64]
Frames = NDArray[np.float32]

POWER = 1.0
"""Variance of the k-th principal direction falls as k^-POWER."""

TAGS = DeviceTags(device_class="npu-4t", scenario="meeting")
KEY = b"bench"


@dataclass(frozen=True)
class World:
    """What all embeddings have in common: `basis` (256 x 256) with scaled rows, and the observer made for them."""

    basis: NDArray[np.float32]
    observer: ObserverParameters

    @classmethod
    def of(cls, seed: int) -> World:
        """Make a world. Its observer knows the true moments, as one fitted on very many frames does."""
        rng = np.random.default_rng(seed)
        rotation = np.linalg.qr(rng.standard_normal((DIMENSIONS, DIMENSIONS)))[0]
        strengths = np.arange(1, DIMENSIONS + 1) ** -POWER
        strengths *= DIMENSIONS / strengths.sum()
        basis = np.sqrt(strengths)[:, None] * rotation
        spread = np.sqrt((basis**2).sum(axis=0))
        unit = basis / spread  # in reference units
        values, vectors = np.linalg.eigh(unit.T @ unit)
        order = np.argsort(values)[::-1][:SUBSPACE]
        projection = (vectors[:, order] / np.sqrt(values[order])).T
        return cls(basis.astype(np.float32), _observer(spread, projection))

    def shift(self, size: float) -> NDArray[np.float64]:
        """A shift of all embeddings (256) of D = `size`, even over the 28 directions, none outside."""
        rows = self.observer.projection.astype(np.float64)
        wanted = np.full(SUBSPACE, size / np.sqrt(SUBSPACE))
        return np.asarray(np.linalg.pinv(rows) @ wanted * self.observer.sd0)

    def frames(
        self, rng: np.random.Generator, population: Population, devices: int, shift: Array | float = 0.0
    ) -> Frames:
        """Embeddings (devices, frames, 256) of fresh devices, moved by `shift`."""
        effects = rng.standard_normal((devices, 1, DIMENSIONS), dtype=np.float32)
        noise = rng.standard_normal((devices, population.frames, DIMENSIONS), dtype=np.float32)
        if population.rho:
            noise[:, 1:] *= np.float32(np.sqrt(1 - population.rho**2))
            noise = lfilter([1.0], [1.0, -population.rho], noise, axis=1).astype(np.float32)
        mixed = np.sqrt(population.between) * effects + np.sqrt(1 - population.between) * noise
        mixed *= scales(rng, population, (devices, 1, 1))
        return np.asarray(mixed.astype(np.float32) @ self.basis + np.asarray(shift, np.float32))


def device_moments(frames: Frames, observer: ObserverParameters) -> list[Moments]:
    """The moments each device would have accumulated, frames (devices, frames, 256) at once."""
    count = frames.shape[1]
    z = np.clip((frames - observer.mu0) / observer.sd0, -8.0, 8.0).astype(np.float64)
    clipped = (np.abs(frames - observer.mu0) > 8.0 * observer.sd0).any(axis=2).sum(axis=1)
    mean, projected = z.mean(axis=1), z @ observer.projection.T.astype(np.float64)
    squares = np.square(z - mean[:, None]).sum(axis=1)
    centre = projected.mean(axis=1)
    apart = projected - centre[:, None]
    comoments = apart.transpose(0, 2, 1) @ apart
    bins = histogram_counts(z @ observer.directions.T.astype(np.float64), observer.edges)
    return [
        Moments(count, int(clipped[i]), mean[i], squares[i], centre[i], comoments[i], bins[i])
        for i in range(len(frames))
    ]


def histogram_counts(along: Array, edges: NDArray[np.float32]) -> NDArray[np.int64]:
    """Counts (devices, 8, 16) of values (devices, frames, 8) along the histogram directions."""
    devices = len(along)
    counts = np.zeros((devices, HISTOGRAMS, BINS), dtype=np.int64)
    base = (np.arange(devices) * BINS)[:, None]
    for j in range(HISTOGRAMS):
        bins = np.searchsorted(edges[j].astype(np.float64), along[:, :, j], side="left")
        counts[:, j] = np.bincount((bins + base).ravel(), minlength=devices * BINS).reshape(devices, BINS)
    return counts


def reports(frames: Frames, observer: ObserverParameters, day: int, first: int, score: float = 0.5) -> list[bytes]:
    """DRF1 bytes of every device; pseudonyms count up from `first`."""
    made = device_moments(frames, observer)
    return [sealed(moments, observer.embedding_id, day, first + index, score) for index, moments in enumerate(made)]


def sealed(moments: Moments, embedding_id: str, day: int, number: int, score: float = 0.5) -> bytes:
    """DRF1 bytes of one device-day; its pseudonym is `number`."""
    report = report_from(
        moments,
        pseudonym=f"{number:032x}",
        embedding_id=embedding_id,
        day=day,
        sessions=2,
        score_mean=score,
        hard_segments=0,
        tags=TAGS,
    )
    return encode_report(report, KEY)


def bytes_of(payloads: Sequence[bytes]) -> int:
    """Bytes on the wire."""
    return sum(len(payload) for payload in payloads)


def _observer(spread: Array, projection: Array) -> ObserverParameters:
    quantiles = np.array([-1.534, -1.150, -0.887, -0.674, -0.489, -0.319, -0.157, 0.0])
    edges = np.concatenate([quantiles, -quantiles[-2::-1]])
    return ObserverParameters(
        embedding_id="bench",
        mu0=np.zeros(DIMENSIONS, np.float32),
        sd0=spread.astype(np.float32),
        projection=projection.astype(np.float32),
        directions=projection[:HISTOGRAMS].astype(np.float32),
        edges=np.tile(edges, (HISTOGRAMS, 1)).astype(np.float32),
        score_w=np.zeros(DIMENSIONS, np.float32),
        score_b=0.0,
        tau=1.0,
    )
