"""Frames through the device's own chain: threshold, three in a row, hysteresis, re-arm, duplicates, token bucket.

Every call begins with a device that has sent nothing. A spell is a run of frames over tau without a dip below tau less
the hysteresis. A frame is found when it lies over tau in a spell that gave an upload, or that was left out only because
it nearly equals an upload which this device sent before. What the bucket refuses is not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.mining.calls import Watched
from contracts.device import DeviceTags
from edge_agent.observers.hard import HardFrame, HardMiner, HardSettings, Origin

ORIGIN = Origin("bench", "0", DeviceTags(device_class="npu-4t"), "0" * 32)
FPS = 25.0


@dataclass(frozen=True)
class Mined:
    """Found frames [n] of one call, and its uploads."""

    found: NDArray[np.bool_]
    uploads: int


def mine(watched: Watched, tau: float, settings: HardSettings, start: float = 0.0) -> Mined:
    """Play one call to a fresh device."""
    miner = HardMiner(settings)
    over = watched.scores > tau
    spells = _spells(watched.scores, tau, settings.hysteresis)
    known, uploads = set(), 0
    for index, score in enumerate(watched.scores):
        suppressed = miner.suppressed
        frame = HardFrame(watched.features[index], float(score), float(watched.motion[index]))
        segment = miner.observe(frame, tau, start + index / FPS, ORIGIN)
        uploads += segment is not None
        if segment is not None or miner.suppressed > suppressed:
            known.add(int(spells[index if over[index] else index - 1]))
    return Mined(over & np.isin(spells, list(known)), uploads)


def uploads_in_an_hour(
    good: Sequence[Watched],
    tau: float,
    settings: HardSettings,
    random: np.random.Generator,
    stay_s: float = 10.0,
    call_s: float = 3_600.0,
) -> tuple[int, int]:
    """(uploads, spells without brakes) of one hour (`call_s`): a random healthy view and quality every ten seconds.

    Frames far below tau change nothing once the miner has seen one of them, so only one of each run is played.
    """
    miner, open_miner = HardMiner(settings), HardMiner(unbraked(settings))
    uploads = spells = 0
    for turn in range(int(call_s / stay_s)):
        one = good[random.integers(len(good))]
        count = int(stay_s * FPS)
        places = _bounce(len(one.scores), int(random.integers(len(one.scores))), count)
        scores = one.scores[places]
        near = scores > tau - settings.hysteresis
        keep = near | np.r_[True, near[:-1]]
        for index in np.flatnonzero(keep):
            place = places[index]
            frame = HardFrame(one.features[place], float(scores[index]), float(one.motion[place]))
            now = turn * stay_s + index / FPS
            uploads += miner.observe(frame, tau, now, ORIGIN) is not None
            spells += open_miner.observe(frame, tau, now, ORIGIN) is not None
    return uploads, spells


def unbraked(settings: HardSettings) -> HardSettings:
    """Three in a row and nothing else."""
    return HardSettings(
        settings.in_a_row, settings.segment_frames, 0.0, 0.0, per_day=1e9, burst=1e9, duplicate_distance=0.0
    )


def _spells(scores: NDArray[np.float64], tau: float, hysteresis: float) -> NDArray[np.int64]:
    """Number of the spell that each frame belongs to."""
    return np.cumsum(scores <= tau - hysteresis)


def _bounce(length: int, start: int, count: int) -> NDArray[np.int64]:
    """Frames forwards and backwards, so that no jump is made where the clip ends."""
    round_trip = np.r_[np.arange(length), np.arange(length - 2, 0, -1)] if length > 2 else np.arange(length)
    return np.asarray(round_trip[(start + np.arange(count)) % len(round_trip)])
