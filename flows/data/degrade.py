"""The family of degradations between a scene and what a receiver decodes; deterministic by seed.

Order is physical: optics (blur), sensor (gain, signal-dependent noise), then the network's part (dropped frames,
codec, lost packets). The target of super-resolution in low light is the clean low-light scene: nothing asks the
network to brighten a picture.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames, shrink
from flows.data.codec import Received, transmit


@dataclass(frozen=True)
class Degradation:
    """One condition. All fields at their defaults give a healthy call.

    gain     light that reaches the sensor, 0..1
    noise    standard deviation at full scale in LSB; variance = noise^2 * (0.25 + 0.75 * signal)
    blur     Gaussian sigma in low-resolution pixels
    crf      x264 constant quality; ignored when `bitrate_kbps` is given
    drop     share of frames that the sender never coded (the last one is shown again)
    loss     share of packets lost on the way
    """

    gain: float = 1.0
    noise: float = 0.0
    blur: float = 0.0
    crf: float = 20.0
    bitrate_kbps: float | None = None
    drop: float = 0.0
    loss: float = 0.0
    seed: int = 0

    def with_seed(self, seed: int) -> Degradation:
        """The same condition with another draw of noise and losses."""
        return replace(self, seed=seed)

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Degradation:
        """Inverse of `to_json`."""
        return Degradation(**json.loads(text))


NORMAL = Degradation()
NORMAL_VARIETY = tuple(Degradation(crf=crf) for crf in (18.0, 20.0, 22.0, 24.0, 26.0))
HARD = Degradation(gain=0.42, noise=20.0, crf=31.0, drop=0.05, loss=0.03)
"""Low light, a noisy sensor, about a quarter of the healthy bit rate, lost frames."""
HARD_VARIETY = (
    Degradation(gain=0.5, noise=16.0, crf=30.0, drop=0.05, loss=0.02),
    HARD,
    Degradation(gain=0.35, noise=25.0, crf=32.0, drop=0.05, loss=0.03),
)


def draw_normal(random: np.random.Generator, seed: int) -> Degradation:
    """A healthy call: good light, crf 18 to 24."""
    return Degradation(crf=float(random.uniform(18.0, 24.0)), seed=seed)


def draw_hard(random: np.random.Generator, seed: int) -> Degradation:
    """Low light over a bad network, between the first and the last of HARD_VARIETY."""
    mild, strong = HARD_VARIETY[0], HARD_VARIETY[-1]
    along = float(random.uniform())
    return replace(
        mild,
        gain=mild.gain + along * (strong.gain - mild.gain),
        noise=mild.noise + along * (strong.noise - mild.noise),
        crf=mild.crf + along * (strong.crf - mild.crf),
        loss=mild.loss + along * (strong.loss - mild.loss),
        seed=seed,
    )


def degrade(high: Frames, degradation: Degradation, fps: float = 25.0) -> tuple[Frames, Frames]:
    """(received low-resolution frames [n, h/2, w/2, 3], clean high-resolution target [n, h, w, 3])."""
    received = receive(shrink(high, 2), degradation, fps)
    return received, expose(high, degradation.gain)


def receive(low: Frames, degradation: Degradation, fps: float = 25.0) -> Frames:
    """What the receiver decodes of clean low-resolution frames."""
    return call(low, degradation, fps).frames


def call(low: Frames, degradation: Degradation, fps: float = 25.0) -> Received:
    """Like `receive`, with what the receiver's decoder says of each picture."""
    seen = sense(low, degradation)
    seen = drop_frames(seen, degradation.drop, degradation.seed)
    return transmit(
        seen,
        crf=degradation.crf,
        bitrate_kbps=degradation.bitrate_kbps,
        fps=fps,
        loss=degradation.loss,
        seed=degradation.seed,
    )


def sense(frames: Frames, degradation: Degradation) -> Frames:
    """Optics and sensor: blur, gain, signal-dependent noise, 8-bit rounding."""
    if degradation.gain == 1.0 and degradation.noise == 0.0 and degradation.blur == 0.0:
        return frames
    random = np.random.default_rng(degradation.seed)
    output = np.empty_like(frames)
    for index, frame in enumerate(frames):
        light = blur(frame.astype(np.float32), degradation.blur) * np.float32(degradation.gain)
        if degradation.noise:
            sigma = degradation.noise * np.sqrt(0.25 + 0.75 * light / 255.0)
            light = light + sigma * random.standard_normal(light.shape, np.float32)
        output[index] = np.clip(np.rint(light), 0, 255)
    return output


def expose(frames: Frames, gain: float) -> Frames:
    """The clean scene under this light."""
    if gain == 1.0:
        return frames
    table = np.clip(np.rint(np.arange(256) * gain), 0, 255).astype(np.uint8)
    return np.asarray(table[frames], dtype=np.uint8)


def drop_frames(frames: Frames, share: float, seed: int) -> Frames:
    """Replace a share of the frames by their predecessor."""
    if share <= 0.0:
        return frames
    dropped = np.random.default_rng(seed + 1).random(len(frames)) < share
    dropped[0] = False
    index = np.maximum.accumulate(np.where(dropped, 0, np.arange(len(frames))))
    return np.asarray(frames[index], dtype=np.uint8)


def blur(image: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Separable Gaussian blur of [h, w, c] with mirrored borders."""
    if sigma <= 0.0:
        return image
    radius = max(1, int(np.ceil(2.5 * sigma)))
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2).astype(np.float32)
    taps /= taps.sum()
    for axis in (0, 1):
        widths = [(radius, radius) if axis == side else (0, 0) for side in range(3)]
        padded = np.pad(image, widths, mode="reflect")
        length = image.shape[axis]
        image = np.asarray(
            sum(tap * np.take(padded, range(i, i + length), axis=axis) for i, tap in enumerate(taps)), np.float32
        )
    return image
