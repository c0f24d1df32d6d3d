"""Pairs (received low-resolution clip, clean high-resolution target) and random patches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames
from flows.data.corpus import Clip, read
from flows.data.degrade import Degradation, degrade
from flows.data.errors import CorpusError
from flows.limits import LIMITS

_LEVEL_FLOOR = 1.0 / 255.0


@dataclass(frozen=True)
class Pair:
    """One clip under one condition. low [n, h, w, 3], high [n, sh, sw, 3] with a whole number s, both uint8."""

    clip: str
    degradation: Degradation
    low: Frames
    high: Frames

    @property
    def scale(self) -> int:
        """How many times as large `high` is: 2 in super-resolution by 2."""
        return int(self.high.shape[1] // self.low.shape[1])

    @property
    def level(self) -> float:
        """Root mean square error of repeated pixels, 0..1: how hard this pair is, measured on up to four frames."""
        picked = slice(None, None, max(1, len(self.low) // 4))
        repeated = self.low[picked].repeat(self.scale, axis=1).repeat(self.scale, axis=2)
        error = repeated.astype(np.float32) - self.high[picked]
        return max(float(np.sqrt(np.square(error).mean())) / 255.0, _LEVEL_FLOOR)


@dataclass(frozen=True)
class View:
    """How a clip is looked at: shrunk by `scale`, every `stride`-th frame, at most `limit` frames, a centred crop."""

    scale: int = 1
    stride: int = 1
    limit: int = 50
    crop: tuple[int, int] | None = None


@dataclass(frozen=True)
class PairSet:
    """A list of pairs that patches are drawn from, each pair in proportion to its pixels' square root."""

    pairs: tuple[Pair, ...]
    _weights: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _levels: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.pairs:
            raise CorpusError("a training set needs at least one pair; the clip list is empty")
        if self.bytes > LIMITS.max_pair_bytes:
            raise CorpusError(f"pairs take {self.bytes >> 20} MiB, limit {LIMITS.max_pair_bytes >> 20}; use fewer")
        if any(pair.high.shape[1:3] != _times(pair.low.shape[1:3], self.scale) for pair in self.pairs):
            shapes = sorted({(pair.low.shape[1:3], pair.high.shape[1:3]) for pair in self.pairs})
            raise CorpusError(f"pairs of sizes {shapes[:4]}: every target must be the same whole number as large")
        sizes = np.array([np.sqrt(pair.low.size) for pair in self.pairs])
        object.__setattr__(self, "_weights", sizes / sizes.sum())
        object.__setattr__(self, "_levels", np.array([pair.level for pair in self.pairs], np.float32))

    @property
    def bytes(self) -> int:
        """Memory held by the pairs."""
        return sum(pair.low.nbytes + pair.high.nbytes for pair in self.pairs)

    @property
    def scale(self) -> int:
        """How many times as large all targets are."""
        return self.pairs[0].scale

    def patches(self, count: int, size: int, random: np.random.Generator) -> tuple[Frames, Frames]:
        """`count` random patches: low [count, size, size, 3] and high `scale` times as large, flipped at random."""
        low, high, _ = self.draw(count, size, random)
        return low, high

    def draw(self, count: int, size: int, random: np.random.Generator) -> tuple[Frames, Frames, NDArray[np.float32]]:
        """Like `patches`, with the level (see `Pair.level`) of the pair that each patch was cut from, [count]."""
        low = np.empty((count, size, size, 3), np.uint8)
        high = np.empty((count, *_times((size, size), self.scale), 3), np.uint8)
        picked = random.choice(len(self.pairs), count, p=self._weights)
        for slot, index in enumerate(picked):
            low[slot], high[slot] = _patch(self.pairs[index], size, random)
        return low, high, self._levels[picked]

    def clips(
        self, count: int, frames: int, size: int, random: np.random.Generator
    ) -> tuple[Frames, Frames, NDArray[np.float32]]:
        """Like `draw`, but patches of consecutive frames: low [count, frames, size, size, 3], high `scale` times that.

        Raises CorpusError when no pair has that many frames.
        """
        long = np.array([len(pair.low) >= frames for pair in self.pairs])
        if not long.any():
            raise CorpusError(f"no pair has {frames} frames; give longer clips")
        weights = np.where(long, self._weights, 0.0)
        low = np.empty((count, frames, size, size, 3), np.uint8)
        high = np.empty((count, frames, *_times((size, size), self.scale), 3), np.uint8)
        picked = random.choice(len(self.pairs), count, p=weights / weights.sum())
        for slot, index in enumerate(picked):
            low[slot], high[slot] = _clip(self.pairs[index], frames, size, random)
        return low, high, self._levels[picked]


Pairing = Callable[[Frames, Degradation, float], tuple[Frames, Frames]]
"""What a receiver gets of a clean clip under a condition at a frame rate, and what a network should make of it."""


def make_pairs(
    clips: Sequence[Clip],
    degradations: Iterable[Degradation],
    views: Sequence[View] = (View(),),
    pairing: Pairing = degrade,
) -> PairSet:
    """Every clip in every view under every degradation. Views that make a clip too small are skipped."""
    listed = tuple(degradations)
    pairs: list[Pair] = []
    for clip in clips:
        for view in views:
            high = load_view(clip, view)
            if high is None:
                continue
            for degradation in listed:
                low, target = pairing(high, degradation, clip.fps)
                pairs.append(Pair(clip.id, degradation, low, target))
    return PairSet(tuple(pairs))


def load_view(clip: Clip, view: View) -> Frames | None:
    """High-resolution frames of a view, or None when the clip is too small for it."""
    if min(clip.width, clip.height) // view.scale < LIMITS.min_frame_side * 2:
        return None
    frames = read(clip, stride=view.stride, scale=view.scale, limit=view.limit)
    if view.crop is None:
        return frames
    height, width = (min(want, have) // 4 * 4 for want, have in zip(view.crop, frames.shape[1:3], strict=True))
    top, left = (frames.shape[1] - height) // 2, (frames.shape[2] - width) // 2
    return np.ascontiguousarray(frames[:, top : top + height, left : left + width])


def _patch(pair: Pair, size: int, random: np.random.Generator) -> tuple[Frames, Frames]:
    low, high = _clip(pair, 1, size, random)
    return low[0], high[0]


def _clip(pair: Pair, frames: int, size: int, random: np.random.Generator) -> tuple[Frames, Frames]:
    count, height, width, _ = pair.low.shape
    first = random.integers(count - frames + 1)
    top, left = random.integers(height - size + 1), random.integers(width - size + 1)
    low = pair.low[first : first + frames, top : top + size, left : left + size]
    by = pair.scale
    high = pair.high[first : first + frames, by * top : by * (top + size), by * left : by * (left + size)]
    if random.random() < 0.5:
        low, high = low[:, :, ::-1], high[:, :, ::-1]
    if random.random() < 0.5:
        low, high = low[:, ::-1], high[:, ::-1]
    if random.random() < 0.5:
        low, high = low.transpose(0, 2, 1, 3), high.transpose(0, 2, 1, 3)
    return low, high


def _times(size: tuple[int, ...], scale: int) -> tuple[int, ...]:
    return tuple(scale * side for side in size)
