"""Training material of the quality net: the same degradation over different contents.

A group shares one degradation; its snippets show different scenes, scales, colours and frame sizes. What stays equal
inside a group is the condition, what differs is content: the net learns to keep the first and drop the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.data.clips import Frames
from flows.data.corpus import Clip
from flows.data.degrade import NORMAL, Degradation, blur, degrade
from flows.data.pairs import View, load_view
from flows.tasks.vsr.metrics import Upscaler, psnr_y

SIZES = ((72, 88), (72, 88), (96, 128), (136, 160))
FRAMES = 3
_CODED = 9
_STEP = 3
LABELS = ("gain", "noise", "crf", "blur")


@dataclass(frozen=True)
class Snippet:
    """Three received frames [3, h, w, 3], the condition's group, the clip, and the measured loss in dB."""

    frames: Frames
    group: int
    clip: str
    loss: float


@dataclass(frozen=True)
class Group:
    """One degradation and its snippets."""

    degradation: Degradation
    snippets: tuple[Snippet, ...]

    @property
    def expected_loss(self) -> float:
        """Mean loss over contents, dB: what the condition costs, whatever is in the picture."""
        return float(np.mean([snippet.loss for snippet in self.snippets]))


def make_groups(
    clips: Sequence[Clip], upscale: Upscaler, groups: int, contents: int, random: np.random.Generator
) -> tuple[Group, ...]:
    """`groups` random degradations, each over `contents` random contents of `clips`."""
    library = [view for clip in clips for view in _views(clip)]
    made: list[Group] = []
    for index in range(groups):
        degradation = sample_degradation(random)
        picked = tuple(_snippet(library, degradation, index, upscale, random) for _ in range(contents))
        made.append(Group(degradation, picked))
    return tuple(made)


def natural_frames(
    clips: Sequence[Clip], conditions: Sequence[Degradation], random: np.random.Generator
) -> list[Frames]:
    """Received frames of unaltered scenes, every size of every clip under every condition; three frames each."""
    found: list[Frames] = []
    for clip in clips:
        for _, frames in _views(clip):
            for condition in conditions:
                height, width = SIZES[random.integers(len(SIZES))]
                rows, columns = min(2 * height, frames.shape[1] // 4 * 4), min(2 * width, frames.shape[2] // 4 * 4)
                window = np.ascontiguousarray(_window(frames, rows, columns, random))
                low, _ = degrade(window, condition.with_seed(int(random.integers(1 << 31))))
                found.append(low[-1 - _STEP * (FRAMES - 1) :: _STEP])
    return found


def sample_degradation(random: np.random.Generator) -> Degradation:
    """A healthy call in one of three draws, else one to four things wrong at once."""
    seed = int(random.integers(1 << 31))
    if random.random() < 1 / 3:
        return Degradation(
            gain=random.uniform(0.8, 1.0), noise=random.uniform(0.0, 1.5), crf=random.uniform(16.0, 26.0), seed=seed
        )
    dark, noisy, coarse, soft = random.random(4) < (0.6, 0.6, 0.6, 0.2)
    return Degradation(
        gain=random.uniform(0.3, 0.75) if dark else random.uniform(0.8, 1.0),
        noise=random.uniform(3.0, 28.0) if noisy else random.uniform(0.0, 1.5),
        crf=random.uniform(29.0, 42.0) if coarse else random.uniform(16.0, 27.0),
        blur=random.uniform(0.6, 1.6) if soft else 0.0,
        loss=0.03 if random.random() < 0.5 else 0.0,
        seed=seed,
    )


def is_healthy(degradation: Degradation) -> bool:
    """Whether this is what a good call looks like."""
    light, sharp = degradation.gain >= 0.8, degradation.blur == 0.0
    return light and sharp and degradation.crf <= 27.0 and degradation.noise <= 1.5


def labels_of(degradation: Degradation) -> np.ndarray:
    """The condition as four numbers of about unit spread (see LABELS)."""
    return np.array(
        [
            3.0 * (1.0 - degradation.gain),
            math.log2(1.0 + degradation.noise) / 1.5,
            (degradation.crf - 20.0) / 8.0,
            1.5 * degradation.blur,
        ],
        np.float32,
    )


def vary_content(frames: Frames, random: np.random.Generator) -> Frames:
    """Random mirror, hue order, white balance, gamma, contrast and sharpness: content changes, condition does not."""
    if random.random() < 0.5:
        frames = frames[..., random.permutation(3)]
    if random.random() < 0.5:
        frames = frames[:, :, ::-1]
    if random.random() < 0.3:
        frames = frames[:, ::-1]
    gamma, balance = random.uniform(0.7, 1.4), random.uniform(0.8, 1.2, 3)
    contrast, middle = random.uniform(0.5, 1.1), random.uniform(0.3, 0.7)
    levels = ((np.arange(256)[:, None] / 255.0) ** gamma - middle) * contrast + middle
    table = np.clip(np.rint(levels * balance * 255.0), 0, 255).astype(np.uint8)
    coloured = np.ascontiguousarray(np.stack([table[frames[..., c], c] for c in range(3)], axis=-1))
    if random.random() < 0.4:
        sigma = random.uniform(0.4, 1.3)
        soft = [np.rint(blur(frame.astype(np.float32), sigma)).astype(np.uint8) for frame in coloured]
        return np.stack(soft)
    return coloured


def quality_loss(upscale: Upscaler, high: Frames, low: Frames, target: Frames, gain: float) -> float:
    """dB that the condition costs the model: PSNR in a healthy call minus PSNR here, both against the scene's peak.

    A dark target makes PSNR look better by 20 log10(1 / gain), which is taken back.
    """
    healthy_low, healthy_target = degrade(high, NORMAL)
    healthy = float(psnr_y(upscale(healthy_low[-1:]), healthy_target[-1:]).mean())
    here = float(psnr_y(upscale(low[-1:]), target[-1:]).mean()) + 20.0 * math.log10(gain)
    return float(np.clip(healthy - here, -3.0, 20.0))


def _views(clip: Clip) -> list[tuple[str, Frames]]:
    views = [View(scale, 1, 40) for scale in (1, 2, 3, 4, 5)]
    loaded = [(clip.id, load_view(clip, view)) for view in views if clip.frames >= _CODED]
    smallest = 2 * SIZES[0][0]
    return [
        (name, frames)
        for name, frames in loaded
        if frames is not None and min(frames.shape[1:3]) >= smallest and len(frames) >= _CODED
    ]


def _snippet(
    library: list[tuple[str, Frames]],
    degradation: Degradation,
    group: int,
    upscale: Upscaler,
    random: np.random.Generator,
) -> Snippet:
    first = library[random.integers(len(library))]
    fitting = [size for size in SIZES if 2 * size[0] <= first[1].shape[1] and 2 * size[1] <= first[1].shape[2]]
    height, width = (2 * side for side in fitting[random.integers(len(fitting))])
    high = vary_content(_window(first[1], height, width, random), random)
    if random.random() < 0.35:
        other = [frames for _, frames in library if frames.shape[1] >= height and frames.shape[2] >= width]
        second = vary_content(_window(other[random.integers(len(other))], height, width, random), random)
        border = int(random.integers(width // 4, 3 * width // 4))
        high = np.concatenate([high[:, :, :border], second[:, :, border:]], axis=2)
    seeded = degradation.with_seed(int(random.integers(1 << 31)))
    low, target = degrade(high, seeded)
    loss = quality_loss(upscale, high, low, target, degradation.gain)
    return Snippet(low[-1 - _STEP * (FRAMES - 1) :: _STEP], group, first[0], loss)


def _window(frames: Frames, height: int, width: int, random: np.random.Generator) -> Frames:
    start = random.integers(len(frames) - _CODED + 1)
    top, left = random.integers(frames.shape[1] - height + 1), random.integers(frames.shape[2] - width + 1)
    return frames[start : start + _CODED, top : top + height, left : left + width]
