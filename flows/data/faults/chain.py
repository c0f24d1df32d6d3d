"""Faults in physical order, with a seed: what a call does to a clip, and the clean target beside it.

Equal chains give equal bytes. Each fault draws from a generator of its own, so that adding one leaves the draws of
the others as they were.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from flows.data.clips import Frames, shrink
from flows.data.errors import FaultError
from flows.data.faults.fault import Fault, Setting
from flows.data.faults.layouts import LAYOUTS, Layout
from flows.data.faults.network import Coding, DroppedFrames
from flows.data.faults.optics import Defocus, MotionBlur
from flows.data.faults.sensor import HighlightClip, LowLight, SensorNoise
from flows.data.faults.text import ScreenText

KINDS: dict[str, type[Fault]] = {
    fault.kind: fault
    for fault in (
        Defocus, MotionBlur, SensorNoise, LowLight, HighlightClip, Layout, ScreenText, DroppedFrames, Coding,
    )
}  # fmt: skip
MIN_FRAMES = 5
MAX_FAULTS = 16


@dataclass(frozen=True)
class Chain:
    """Faults from lens to receiver. Raises FaultError when they are not in that order."""

    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.faults) > MAX_FAULTS:
            raise FaultError(f"{len(self.faults)} faults in a chain, limit {MAX_FAULTS}")
        for before, after in pairwise(self.faults):
            if before.stage > after.stage:
                places = f"{after.kind} ({after.stage.name.lower()}) after {before.kind} ({before.stage.name.lower()})"
                raise FaultError(f"{places} is not possible; order faults from lens to network")

    def with_seed(self, seed: int) -> Chain:
        """The same faults with another draw."""
        return replace(self, seed=seed)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the faults in order."""
        return tuple(fault.kind for fault in self.faults)

    def degrade(self, high: Frames, fps: float = 25.0) -> tuple[Frames, Frames]:
        """(received [n, h/2, w/2, 3], clean target [n, h, w, 3]) of a clip of at least five frames, sides in fours."""
        if len(high) < MIN_FRAMES:
            raise FaultError(f"a chain of faults needs clips of {MIN_FRAMES} frames or more, got {len(high)}")
        if high.shape[1] % 4 or high.shape[2] % 4:
            raise FaultError(f"sides must be multiples of four, got {high.shape[2]}x{high.shape[1]}; crop the clip")
        return self.receive(shrink(high, 2), fps), self.target(high, fps)

    def receive(self, low: Frames, fps: float = 25.0) -> Frames:
        """What a receiver shows of a clean low-resolution clip."""
        for position, fault in enumerate(self.faults):
            low = fault.apply(low, self._random(position), Setting(fps, 2))
        return low

    def target(self, high: Frames, fps: float = 25.0) -> Frames:
        """What a perfect network would show: the scene under this light, in this layout."""
        for position, fault in enumerate(self.faults):
            if fault.in_target:
                high = fault.clean(high, self._random(position), Setting(fps, 1))
        return high

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps({"faults": [fault.to_json() for fault in self.faults], "seed": self.seed}, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Chain:
        """Inverse of `to_json`. Raises FaultError that names what is wrong."""
        try:
            raw = json.loads(text)
            faults, seed = raw["faults"], raw.get("seed", 0)
            kinds = [fault["kind"] for fault in faults]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FaultError('a chain is {"faults": [{"kind": ...}, ...], "seed": 0}; this is not one') from error
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise FaultError(f"seed is {seed!r}, give a whole number that is not negative")
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise FaultError(f"no fault {unknown[0]!r}; known: {', '.join(KINDS)}")
        return Chain(tuple(KINDS[kind].from_json(fault) for kind, fault in zip(kinds, faults, strict=True)), seed)

    def _random(self, position: int) -> np.random.Generator:
        fault = self.faults[position]
        earlier = sum(other.kind == fault.kind for other in self.faults[:position])
        return np.random.default_rng([self.seed, zlib.crc32(fault.kind.encode()), earlier])


FAMILY: dict[str, Chain] = {
    "healthy": Chain((Coding(crf=20.0),)),
    "healthy-x265": Chain((Coding("x265", crf=22.0),)),
    "coarse-x264": Chain((Coding(qp=36),)),
    "coarse-x265": Chain((Coding("x265", qp=38),)),
    "starved": Chain((Coding(bitrate_kbps=60.0),)),
    "lost-pictures": Chain((Coding(crf=26.0, loss=0.15, burst=2.0),)),
    "lost-slices": Chain((Coding(crf=26.0, loss=0.10, burst=2.0, packet_bytes=400),)),
    "stutter": Chain((DroppedFrames(0.25, 3.0), Coding(crf=24.0))),
    "grain": Chain((SensorNoise(3.0, 14.0), Coding(crf=24.0))),
    "dusk": Chain((LowLight(0.2, 1.5, 3.0, 9.0), Coding(crf=26.0))),
    "soft": Chain((Defocus(1.2), Coding(crf=22.0))),
    "moving": Chain((MotionBlur(4), Coding(crf=22.0))),
    "backlight": Chain((HighlightClip(0.55, 8.0), Coding(crf=22.0))),
    "night": Chain((LowLight(0.1, 2.5, 3.0, 9.0), Coding(crf=28.0))),
    "dusk-lost": Chain((LowLight(0.25, 1.2, 3.0, 9.0), Coding(crf=28.0, loss=0.15, burst=2.0))),
    "dusk-gallery": Chain((LowLight(0.25, 1.2, 2.0, 8.0), Layout("gallery-2x2"), Coding(crf=26.0))),
    "shared-screen-lost": Chain((ScreenText(0.5, 2), Coding("x265", crf=28.0, loss=0.15, burst=2.0))),
    "shared-screen": Chain((ScreenText(0.6, 2), Coding(crf=28.0))),
    **{f"layout-{name}": Chain((Layout(name), Coding(crf=24.0))) for name in LAYOUTS},
}
"""A chain for each fault and each layout, and some of what comes together in calls."""
