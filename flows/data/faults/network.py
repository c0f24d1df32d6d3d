"""Faults of the way: frames that were never sent, coarse coding with x264 or x265, lost and concealed packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flows.data.clips import Frames
from flows.data.codec import decode_with_losses
from flows.data.coders import DECODERS, Coder, encode_with
from flows.data.errors import FaultError
from flows.data.faults.fault import Fault, Setting, Stage, runs
from flows.data.slices import transmit_slices


@dataclass(frozen=True)
class DroppedFrames(Fault):
    """A share of the frames is never sent, in runs of mean length `burst`; the receiver shows the last one again."""

    kind: ClassVar[str] = "dropped-frames"
    stage: ClassVar[Stage] = Stage.NETWORK
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"share": (0.0, 0.9), "burst": (1.0, 50.0)}

    share: float = 0.1
    burst: float = 2.0

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """The first frame always arrives."""
        dropped = runs(len(frames), self.share, self.burst, random)
        dropped[0] = False
        index = np.maximum.accumulate(np.where(dropped, 0, np.arange(len(frames))))
        return np.asarray(frames[index], dtype=np.uint8)


@dataclass(frozen=True)
class Coding(Fault):
    """A codec at a fixed quantiser (`qp`), a constant quality (`crf`) or a bit rate, and packets lost on the way.

    `loss` is the share of packets lost, in runs of mean length `burst`. A packet is a whole picture, or, with
    `packet_bytes` (x264 only), a slice of at most that many bytes: then the decoder conceals the missing part of a
    picture from its neighbours. Either way the damage lasts until the next key frame.
    """

    kind: ClassVar[str] = "coding"
    stage: ClassVar[Stage] = Stage.NETWORK
    bounds: ClassVar[dict[str, tuple[float, float]]] = {
        "qp": (0, 51), "crf": (0.0, 51.0), "bitrate_kbps": (5.0, 100_000.0), "loss": (0.0, 0.9),
        "burst": (1.0, 50.0), "packet_bytes": (200, 65_535),
    }  # fmt: skip

    codec: str = "x264"
    qp: int | None = None
    crf: float | None = None
    bitrate_kbps: float | None = None
    loss: float = 0.0
    burst: float = 1.0
    packet_bytes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codec not in DECODERS:
            raise FaultError(f"coding: codec is {self.codec!r}, give one of {', '.join(DECODERS)}")
        if sum(rate is not None for rate in (self.qp, self.crf, self.bitrate_kbps)) != 1:
            raise FaultError("coding: give exactly one of qp, crf and bitrate_kbps")
        if self.packet_bytes is not None and self.codec != "x264":
            raise FaultError(
                "coding: packet_bytes cuts pictures into slices, which is done for x264 only; leave it out"
            )

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """What a receiver shows."""
        coder = Coder(self.codec, self.qp, self.crf, self.bitrate_kbps)
        if self.packet_bytes is not None:
            return transmit_slices(
                frames,
                coder,
                setting.fps,
                int(self.packet_bytes),
                lambda count: runs(count, self.loss, self.burst, random),
            )
        packets = encode_with(frames, coder, setting.fps)
        lost = runs(len(packets), self.loss, self.burst, random)
        lost[0] = False
        return decode_with_losses(packets, lost, len(frames), frames.shape[1:3], DECODERS[self.codec]).frames
