"""Faults of lens and shutter: a soft lens, and motion within the exposure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flows.data.clips import Frames
from flows.data.degrade import blur
from flows.data.faults.fault import Fault, Setting, Stage


@dataclass(frozen=True)
class Defocus(Fault):
    """A soft lens: Gaussian of `sigma` low-resolution pixels."""

    kind: ClassVar[str] = "defocus"
    stage: ClassVar[Stage] = Stage.OPTICS
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"sigma": (0.0, 8.0)}

    sigma: float = 1.2

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """Every frame alike."""
        if self.sigma == 0.0:
            return frames
        return np.stack([np.clip(np.rint(blur(one.astype(np.float32), self.sigma)), 0, 255) for one in frames]).astype(
            np.uint8
        )


@dataclass(frozen=True)
class MotionBlur(Fault):
    """A long exposure: each frame is the mean of itself and those before it, `frames` in all. Still parts stay."""

    kind: ClassVar[str] = "motion-blur"
    stage: ClassVar[Stage] = Stage.OPTICS
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"frames": (1, 9)}

    frames: int = 3

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """Before the first frame the scene is taken to stand still."""
        index = np.arange(len(frames))
        total = np.zeros(frames.shape, np.float32)
        for back in range(int(self.frames)):
            total += frames[np.maximum(index - back, 0)]
        return np.asarray(np.rint(total / int(self.frames)), dtype=np.uint8)
