"""Faults of the sensor: little light, signal-dependent noise, amplification, clipped highlights.

Noise model: photons arrive at random (variance grows with the signal, `shot`), electronics add the same everywhere
(`read`); amplification multiplies both. Source: Foi et al., "Practical Poissonian-Gaussian noise modeling and fitting
for single-image raw-data", 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flows.data.clips import Frames
from flows.data.faults.fault import Fault, Setting, Stage


@dataclass(frozen=True)
class SensorNoise(Fault):
    """Standard deviations in LSB: `read` in the dark, `shot` at full scale on top (variances add)."""

    kind: ClassVar[str] = "sensor-noise"
    stage: ClassVar[Stage] = Stage.SENSOR
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"read": (0.0, 64.0), "shot": (0.0, 64.0)}

    read: float = 2.0
    shot: float = 10.0

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """Fresh noise for every pixel of every frame."""
        return expose(frames, 1.0, 1.0, self.read, self.shot, random)


@dataclass(frozen=True)
class LowLight(Fault):
    """A share `light` of the light, amplified by `gain` together with the noise. The target has the light only."""

    kind: ClassVar[str] = "low-light"
    stage: ClassVar[Stage] = Stage.SENSOR
    in_target: ClassVar[bool] = True
    bounds: ClassVar[dict[str, tuple[float, float]]] = {
        "light": (0.01, 1.0), "gain": (1.0, 32.0), "read": (0.0, 64.0), "shot": (0.0, 64.0),
    }  # fmt: skip

    light: float = 0.3
    gain: float = 2.0
    read: float = 2.0
    shot: float = 10.0

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """Dark, noisy, amplified."""
        return expose(frames, self.light, self.gain, self.read, self.shot, random)

    def clean(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """The same light and gain from a sensor without noise."""
        return expose(frames, self.light, self.gain, 0.0, 0.0, random)


@dataclass(frozen=True)
class HighlightClip(Fault):
    """No headroom: above `knee` (0..1 of full scale) values rise `slope` times as fast and end at white.

    What is at or below the knee is unchanged, so only highlights saturate. They are gone from the target too.
    """

    kind: ClassVar[str] = "highlight-clip"
    stage: ClassVar[Stage] = Stage.SENSOR
    in_target: ClassVar[bool] = True
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"knee": (0.1, 1.0), "slope": (1.0, 256.0)}

    knee: float = 0.6
    slope: float = 6.0

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """One curve for all three channels."""
        level, knee = np.arange(256.0), 255.0 * self.knee
        curve = np.where(level > knee, knee + (level - knee) * self.slope, level)
        return np.asarray(np.clip(np.rint(curve), 0, 255).astype(np.uint8)[frames])


def expose(frames: Frames, light: float, gain: float, read: float, shot: float, random: np.random.Generator) -> Frames:
    """gain * (light * scene + noise), rounded to 8 bits."""
    output = np.empty_like(frames)
    for index, frame in enumerate(frames):
        signal = frame.astype(np.float32) * np.float32(light)
        if read or shot:
            sigma = np.sqrt(np.float32(read**2) + np.float32(shot**2) * signal / np.float32(255.0))
            signal = signal + sigma * random.standard_normal(signal.shape, np.float32)
        output[index] = np.clip(np.rint(signal * np.float32(gain)), 0, 255)
    return output
