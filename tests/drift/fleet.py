"""Synthetic fleets with a known answer: device random effects, AR(1) frames, optional shift.

Frames live in the 28-d whitened space; half of the variance of a healthy frame lies between devices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.statistics.moments import BINS, HISTOGRAMS, SUBSPACE
from services.drift.domain.votes import Votes

Array = NDArray[np.float64]
EDGES = np.array(
    [
        -1.534,
        -1.150,
        -0.887,
        -0.674,
        -0.489,
        -0.319,
        -0.157,
        0,
        0.157,
        0.319,
        0.489,
        0.674,
        0.887,
        1.150,
        1.534,
    ]
)


@dataclass(frozen=True)
class Fleet:
    """`between` is the share of a frame's variance that lies between devices, `rho` the AR(1) coefficient."""

    seed: int
    between: float = 0.5
    rho: float = 0.95
    frames: int = 60

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def device_frames(rng: np.random.Generator, fleet: Fleet, devices: int, width: float, shift: Array) -> Array:
    """Return frames (devices, frames, 28)."""
    effects = rng.normal(size=(devices, 1, SUBSPACE)) * np.sqrt(fleet.between)
    noise = rng.normal(size=(devices, fleet.frames, SUBSPACE))
    for t in range(1, fleet.frames):
        noise[:, t] = fleet.rho * noise[:, t - 1] + np.sqrt(1 - fleet.rho**2) * noise[:, t]
    return width * (effects + np.sqrt(1 - fleet.between) * noise) + shift


def votes_of(frames: Array, edges: Array | None = None) -> Votes:
    """Return the votes of devices whose frames (devices, frames, 28) are given."""
    limits = EDGES if edges is None else edges
    votes = Votes.empty()
    for device in frames:
        bins = (device[:, :HISTOGRAMS, None] > limits).sum(axis=-1)
        histogram = np.stack([np.bincount(bins[:, j], minlength=BINS) for j in range(HISTOGRAMS)])
        votes = votes.merge(Votes.of(device.mean(axis=0), histogram, 0.0))
    return votes


def mean_votes(means: Array) -> Votes:
    """Return votes that carry means (devices, 28) only: fast, for tests of the mean."""
    centre = means.mean(axis=0)
    centred = means - centre
    empty = Votes.empty()
    return Votes(len(means), centre, centred.T @ centred, empty.shares, empty.share_squares)
