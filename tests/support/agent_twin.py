"""Twins of what surrounds the agent: bundles that a toy loader plays, videos, a hand-moved clock, a failing disk."""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from contracts.bundle import Bundle, BundleError, write_bundle
from contracts.device import DeviceTags
from contracts.statistics import ObserverParameters
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from edge_agent.disk import Disk
from edge_agent.playback import Enhanced, Seen
from edge_agent.sources import SourceFrame

TAGS = DeviceTags(device_class="npu-4t", scenario="meeting")
WEIGHTS = b"WEIGHTS" + bytes(range(200))
NOON = 20_000 * 86_400.0 + 43_200.0


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: float = NOON) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def toy_observer(embedding_id: str = "toy-1", tau: float = 1.0) -> ObserverParameters:
    """Scores a frame by its darkness: black gives 2 dB, white 0."""
    generator = np.random.default_rng(7)
    return ObserverParameters(
        embedding_id=embedding_id,
        mu0=np.full(DIMENSIONS, 0.5, np.float32),
        sd0=np.full(DIMENSIONS, 0.2, np.float32),
        projection=generator.normal(0, 0.06, (SUBSPACE, DIMENSIONS)).astype(np.float32),
        directions=generator.normal(0, 0.06, (HISTOGRAMS, DIMENSIONS)).astype(np.float32),
        edges=np.tile(np.linspace(-2, 2, BINS - 1, dtype=np.float32), (HISTOGRAMS, 1)),
        score_w=np.full(DIMENSIONS, -2.0 / DIMENSIONS, np.float32),
        score_b=2.0,
        tau=tau,
    )


@dataclass
class ToyBundle:
    """A bundle file and what a state document says of it."""

    path: Path
    digest: str
    version: str
    security_epoch: int

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()


def make_bundle(
    folder: Path, version: str, security_epoch: int = 1, embedding_id: str = "toy-1", **behaviour: object
) -> ToyBundle:
    """Write a bundle that `ToyLoader` plays. Behaviour: errors_from, latency_ms, shift, refuse, observe_fails."""
    build_id = version.encode().ljust(16, b"\0")[:16]
    meta = {"build_id": build_id.hex(), "release_version": version, "behaviour": behaviour}
    pieces = {"meta.json": json.dumps(meta).encode(), "observer.npz": toy_observer(embedding_id).to_bytes()}
    pieces["model.onnx"] = WEIGHTS
    path = folder / f"{version}.elb"
    write_bundle(path, pieces, build_id=build_id, release_version=version, security_epoch=security_epoch)
    return ToyBundle(path, Bundle.open(path).digest, version, security_epoch)


class ToyPlayback:
    """Doubles a frame by repeating pixels; misbehaves as its bundle says."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.behaviour: dict[str, Any] = bundle.meta["behaviour"]
        self.digest, self.version = bundle.digest, bundle.manifest.release_version
        self.observer = ObserverParameters.from_bytes(bundle.piece("observer.npz"))
        self.state = "normal"
        self.frames = 0
        self.begun: list[int] = []

    def begin(self) -> None:
        self.begun.append(self.frames)

    def upscale(self, frame: SourceFrame) -> Enhanced:
        self.frames += 1
        if self.behaviour.get("raises"):
            raise RuntimeError("the program fell over")
        image = frame.pixels.repeat(2, axis=0).repeat(2, axis=1)
        latency = float(self.behaviour.get("latency_ms", 5.0))
        return Enhanced(image, latency, float(self.behaviour.get("shift", 0.5)), self._errors())

    def observe(self, frame: SourceFrame) -> Seen:
        if self.behaviour.get("observe_fails"):
            raise RuntimeError("the quality program fell over")
        level = float(frame.pixels.mean()) / 255
        rows, columns = -(-frame.pixels.shape[0] // 32), -(-frame.pixels.shape[1] // 32)
        features = np.full((rows, columns, 16), int(level * 255), np.uint8)
        spread = np.linspace(-0.01, 0.01, DIMENSIONS, dtype=np.float32) * (1 + self.frames % 3)
        return Seen(features, np.full(DIMENSIONS, level, np.float32) + spread)

    def _errors(self) -> int:
        start = self.behaviour.get("errors_from")
        return int(start is not None and self.frames > start)


class ToyLoader:
    """Plays toy bundles and remembers what it loaded."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def load(self, bundle: Bundle) -> ToyPlayback:
        if bundle.meta["behaviour"].get("refuse"):
            raise BundleError("npu-4t/model.npu", "not for this device", "build it for this device")
        self.loaded.append(bundle.digest)
        return ToyPlayback(bundle)


class PictureSource:
    """Gives the same picture again and again, or what `paint` gives for a frame number."""

    def __init__(self, paint: Callable[[int], int] = lambda index: 128, frames: int = 0) -> None:
        self._paint, self._most = paint, frames
        self.given = 0
        self.closed = False

    def next(self) -> SourceFrame | None:
        if self._most and self.given >= self._most:
            return None
        level = self._paint(self.given)
        self.given += 1
        return SourceFrame(np.full((64, 96, 3), level, np.uint8), f"picture#{self.given}")

    def close(self) -> None:
        self.closed = True


def write_video(
    path: Path, frames: int = 24, size: tuple[int, int] = (96, 64), seed: int = 0, fragmented: bool = False
) -> Path:
    """Encode a small moving picture with x264."""
    options = {"movflags": "frag_keyframe+empty_moov"} if fragmented else {}
    generator = np.random.default_rng(seed)
    texture = generator.integers(0, 256, (size[1], size[0] + frames, 3), dtype=np.uint8)
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream("libx264", rate=25, options={"g": "6", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = size[0], size[1], "yuv420p"
        for index in range(frames):
            picture = np.ascontiguousarray(texture[:, index : index + size[0]])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


class PowerCut(BaseException):
    """The device lost power: nothing that runs may catch it."""


@dataclass
class FaultyDisk(Disk):
    """Counts operations, cuts the power before the n-th, loses what was not flushed, or says the disk is full.

    `torn` is the share of an unflushed file that survives a cut.
    """

    cut_at: int = -1
    full: bool = False
    torn: float = 0.5
    seed: int = 0
    durable: bool = False
    operations: int = 0
    log: list[str] = field(default_factory=list)

    def write(self, path: Path, data: bytes, mode: int = 0o644) -> None:
        if self.full:
            path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no space left on device", str(path))
        if self._cut("write", path):
            kept = int(len(data) * random.Random(self.seed + self.operations).random())
            path.write_bytes(data[:kept])
            raise PowerCut
        super().write(path, data, mode)

    def rename(self, source: Path, target: Path) -> None:
        if self._cut("rename", target):
            raise PowerCut
        super().rename(source, target)

    def append(self, path: Path, data: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left on device", str(path))
        if self._cut("append", path):
            raise PowerCut
        super().append(path, data)

    def exchange(self, one: Path, other: Path) -> None:
        if self._cut("exchange", one):
            raise PowerCut
        super().exchange(one, other)

    def sync_directory(self, path: Path) -> None:
        if self._cut("sync", path):
            raise PowerCut
        super().sync_directory(path)

    def remove(self, path: Path) -> None:
        if self._cut("remove", path):
            raise PowerCut
        super().remove(path)

    def _cut(self, name: str, path: Path) -> bool:
        self.operations += 1
        self.log.append(f"{name} {path.name}")
        return self.operations == self.cut_at


def pixels(level: int, size: tuple[int, int] = (64, 96)) -> NDArray[np.uint8]:
    """A plain grey picture."""
    return np.full((*size, 3), level, np.uint8)
