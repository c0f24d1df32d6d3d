"""Poisson bootstrap by device: every device carries one fixed row of Poisson(1) weights, one a path.

The weights are a pure hash of device, path and seed, so shards agree on them without talking, a device that reports
again keeps its row, and sums of shards are the sums of the whole. Memory is O(paths) a metric and arm.

Invariants: unit = device (one row each); merging is addition; row order changes results only by rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import pdtr

Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.uint8]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_A_WORD = 4  # weights taken from one 64-bit word


def device_keys(device_ids: Sequence[str]) -> Keys:
    """64-bit keys of device ids: the same on every shard and every day."""
    digests = (hashlib.sha256(name.encode()).digest()[:8] for name in device_ids)
    return np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)


def device_weights(keys: Keys, paths: int, seed: int) -> Weights:
    """Poisson(1) weights, shape (devices, paths), to a resolution of 2^-16 (means are off by < 1e-4)."""
    words = -(-paths // _A_WORD)
    start = _mixed(keys + np.uint64(seed * int(_GOLDEN) % 2**64))
    counter = np.arange(1, words + 1, dtype=np.uint64) * _GOLDEN
    bits = _mixed(start[:, None] + counter[None, :]).view(np.uint16)
    return np.asarray(_table()[bits[:, :paths]])


@dataclass(frozen=True)
class RatioSums:
    """Sums of a numerator and a denominator over the devices of one arm, as seen and on every path.

    A mean is the ratio with denominator 1. Arrays are (2,) and (2, paths).
    """

    seen: Floats
    paths: Floats

    @staticmethod
    def of(numerator: Floats, denominator: Floats, weights: Weights) -> RatioSums:
        """Sums of one batch of devices; `weights` is (devices, paths)."""
        columns = np.stack([numerator, denominator]).astype(np.float64)
        return RatioSums(
            columns.sum(axis=1), (columns.astype(np.float32) @ weights.astype(np.float32)).astype(np.float64)
        )

    def __add__(self, other: RatioSums) -> RatioSums:
        return RatioSums(self.seen + other.seen, self.paths + other.paths)

    def statistic(self) -> tuple[float, Floats]:
        """The ratio, and the ratio on every path; not a number where nothing was seen."""
        return float(_ratio(self.seen[0], self.seen[1])), _ratio(self.paths[0], self.paths[1])


@dataclass(frozen=True)
class HistogramSums:
    """A histogram over fixed, rising `edges` of one arm, as seen and on every path: quantiles that merge.

    Arrays are (bins,) and (bins, paths). Values beyond the edges count in the outer bins, so a quantile never
    leaves the edges; its resolution is a bin, evenly filled.
    """

    edges: Floats
    seen: Floats
    paths: Floats

    @staticmethod
    def of(values: Floats, weights: Weights, edges: Floats) -> HistogramSums:
        """Counts of one batch of devices, one value each; `weights` is (devices, paths)."""
        bins = edges.size - 1
        places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
        order = np.argsort(places, kind="stable")
        present, first = np.unique(places[order], return_index=True)
        paths = np.zeros((bins, weights.shape[1]))
        if present.size:
            paths[present] = np.add.reduceat(weights[order], first, axis=0, dtype=np.float64)
        return HistogramSums(edges, np.bincount(places, minlength=bins).astype(np.float64), paths)

    def __add__(self, other: HistogramSums) -> HistogramSums:
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("histograms with different edges do not merge: fix the edges before the rollout")
        return HistogramSums(self.edges, self.seen + other.seen, self.paths + other.paths)

    def quantile(self, share: float) -> tuple[float, Floats]:
        """The `share` quantile, and on every path; not a number where nothing was seen."""
        return float(_quantile(self.seen[:, None], self.edges, share)[0]), _quantile(self.paths, self.edges, share)


def _quantile(counts: Floats, edges: Floats, share: float) -> Floats:
    cumulated = np.cumsum(counts, axis=0)
    total = cumulated[-1]
    wanted = share * total
    place = np.minimum((cumulated < wanted).sum(axis=0), counts.shape[0] - 1)
    column = np.arange(counts.shape[1])
    inside = counts[place, column]
    before = cumulated[place, column] - inside
    part = np.clip((wanted - before) / np.where(inside > 0, inside, 1.0), 0.0, 1.0)
    found = edges[place] + part * (edges[place + 1] - edges[place])
    return np.where(total > 0, found, np.nan)


def _ratio(above: npt.ArrayLike, below: npt.ArrayLike) -> Floats:
    top, bottom = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    return np.asarray(np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), np.nan))


def _mixed(words: Keys) -> Keys:
    """SplitMix64's finaliser: every input bit reaches every output bit."""
    words = (words ^ (words >> np.uint64(30))) * _MIX[0]
    words = (words ^ (words >> np.uint64(27))) * _MIX[1]
    return words ^ (words >> np.uint64(31))


@lru_cache(maxsize=1)
def _table() -> Weights:
    """Poisson(1) by inversion of 16 uniform bits."""
    middles = (np.arange(1 << 16) + 0.5) / (1 << 16)
    return np.searchsorted(pdtr(np.arange(12), 1.0), middles).astype(np.uint8)
