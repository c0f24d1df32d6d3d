"""Pictures that attackers drew against the truth, and how much better they are than what needs no code at all.

Frames of one recording are no independent evidence, so the interval of a gain comes from a paired bootstrap over
recordings: each draw takes whole recordings, of attacker and floor alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.inverting.material import FACE_SIDE, Shot
from benchmarks.inverting.scores import psnr, ssim
from flows.data.clips import Frames

DRAWS, SEED = 4_000, 31
COVERED = 0.95

Floats = NDArray[np.float64]
Cut = Callable[[Frames, Shot], Frames]


@dataclass(frozen=True)
class Scores:
    """PSNR in dB and SSIM of each judged picture, with its person and recording."""

    psnr: Floats
    ssim: Floats
    people: tuple[str, ...]
    recordings: tuple[str, ...]

    @property
    def mean_psnr(self) -> float:
        """Over all pictures, dB."""
        return float(self.psnr.mean())

    @property
    def mean_ssim(self) -> float:
        """Over all pictures."""
        return float(self.ssim.mean())

    @property
    def worst(self) -> str:
        """The person best rebuilt, in words."""
        owners = np.array(self.people)
        name = max(sorted(set(self.people)), key=lambda each: float(self.psnr[owners == each].mean()))
        mine = owners == name
        return f"{name} {self.psnr[mine].mean():.1f} dB, {self.ssim[mine].mean():.2f}"


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def whole(picture: Frames, shot: Shot) -> Frames:
    """The picture as it is."""
    return picture


def face(picture: Frames, shot: Shot) -> Frames:
    """The square around the face, at the picture's own resolution. Shots without one raise ValueError."""
    if shot.face is None:
        raise ValueError(f"no face was marked in {shot.recording}; judge its whole picture")
    row, column = shot.face
    return picture[row : row + FACE_SIDE, column : column + FACE_SIDE]


def judged(shots: Sequence[Shot], drawn: Sequence[Frames] | Frames, cut: Cut = whole) -> Scores:
    """Compare pictures [256, 256, 3] with the last frames of `shots`, both cut alike."""
    pairs = [(cut(one, shot), cut(shot.frames[-1], shot)) for one, shot in zip(drawn, shots, strict=True)]
    return Scores(
        psnr=np.array([psnr(one, truth) for one, truth in pairs]),
        ssim=np.array([ssim(one, truth) for one, truth in pairs]),
        people=tuple(shot.person for shot in shots),
        recordings=tuple(shot.recording for shot in shots),
    )


def flat(shots: Sequence[Shot], cut: Cut = whole) -> list[Frames]:
    """For each shot one flat picture of the true mean colour of what is judged."""
    found = []
    for shot in shots:
        colour = np.rint(cut(shot.frames[-1], shot).reshape(-1, 3).mean(0)).astype(np.uint8)
        found.append(np.broadcast_to(colour, shot.frames[-1].shape))
    return found


def gain(attacker: Floats, floor: Floats, recordings: Sequence[str], draws: int = DRAWS) -> Interval:
    """Mean of attacker minus floor over pictures, with its interval over recordings; a lone recording has none
    (nan).
    """
    names = sorted(set(recordings))
    owner = np.array([names.index(each) for each in recordings])
    sums, counts = np.bincount(owner, attacker - floor), np.bincount(owner)
    mean = float(sums.sum() / counts.sum())
    if len(names) < 2:
        return Interval(mean, float("nan"), float("nan"))
    picked = np.random.default_rng(SEED).integers(0, len(names), (draws, len(names)))
    means = sums[picked].sum(1) / counts[picked].sum(1)
    low, high = np.quantile(means, [(1 - COVERED) / 2, (1 + COVERED) / 2])
    return Interval(mean, float(low), float(high))
