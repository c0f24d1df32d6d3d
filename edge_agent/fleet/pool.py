"""Decoded pictures that the devices of one process look at together, within a bound of memory.

A clip is decoded once, every `stride`-th frame is kept; the clip used longest ago goes when the pool is
full. A device moves through a clip with its own seed, so no two devices see the same run of frames.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np

from edge_agent.errors import VideoError
from edge_agent.sources import Schedule, ScheduleEntry, SourceFrame, decode

log = logging.getLogger(__name__)


class FramePool:
    """Sampled frames by clip."""

    def __init__(self, most_bytes: int, frames_per_clip: int, stride: int) -> None:
        self._most, self._frames, self._stride = most_bytes, frames_per_clip, stride
        self._clips: OrderedDict[str, tuple[SourceFrame, ...]] = OrderedDict()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes of pixels held."""
        return self._bytes

    def clip(self, path: str) -> tuple[SourceFrame, ...]:
        """Return the sampled frames of a clip. Raises VideoError when not one frame can be read."""
        known = self._clips.get(path)
        if known is not None:
            self._clips.move_to_end(path)
            return known
        frames = self._decode(path)
        self._clips[path] = frames
        self._bytes += _bytes_of(frames)
        while self._bytes > self._most and len(self._clips) > 1:
            _, left = self._clips.popitem(last=False)
            self._bytes -= _bytes_of(left)
        return frames

    def _decode(self, path: str) -> tuple[SourceFrame, ...]:
        frames: list[SourceFrame] = []
        try:
            for index, found in enumerate(islice(decode(path), self._frames * self._stride)):
                if index % self._stride == 0:
                    frames.append(SourceFrame(found.pixels, f"{path}#{index}", quantiser=found.quantiser))
        except VideoError as error:
            if not frames:
                raise
            log.warning("%s; the %d frames before the damage are used", error, len(frames))
        return tuple(frames)


def _bytes_of(frames: tuple[SourceFrame, ...]) -> int:
    return sum(frame.pixels.nbytes for frame in frames)


class PoolSource:
    """One device's way through the pool: some frames in a row, then another place."""

    def __init__(self, pool: FramePool, schedule: Schedule, now: Callable[[], float], stay: int, seed: int) -> None:
        self._pool, self._schedule, self._now, self._stay = pool, schedule, now, stay
        self._random = np.random.default_rng(seed)
        self._entry: ScheduleEntry | None = None
        self._path, self._place, self._left = "", 0, 0

    def next(self) -> SourceFrame | None:
        """Return the next sampled frame. Raises VideoError when no clip of the schedule is readable."""
        entry = self._schedule.at(self._now())
        moved = entry is not self._entry or self._left <= 0
        if moved:
            self._entry = entry
            self._move(entry)
        frames = self._pool.clip(self._path)
        self._left -= 1
        place = self._place % len(frames)
        self._place += 1
        return replace(frames[place], first=True) if moved or place == 0 else frames[place]

    def close(self) -> None:
        return None

    def _move(self, entry: ScheduleEntry) -> None:
        """Choose a clip and a place in it; an unreadable clip is passed over."""
        order = self._random.permutation(len(entry.paths))
        for index in order:
            path = entry.paths[index]
            try:
                frames = self._pool.clip(path)
            except VideoError as error:
                log.warning("%s", error)
                continue
            self._path, self._left = path, self._stay
            self._place = int(self._random.integers(len(frames)))
            return
        raise VideoError(f"no readable video among {', '.join(entry.paths)}; give clips that exist")
