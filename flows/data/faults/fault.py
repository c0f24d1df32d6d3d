"""What every fault has in common: a kind, a place in the physical order, numbers within bounds, a JSON form.

A fault works on a clip, not on a picture. Faults that belong to the scene (light, clipped highlights, what the call
shows on screen) change the target as well: nothing asks a network to brighten a picture or to take a caption away.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import ClassVar, Self

import numpy as np

from flows.data.clips import Frames
from flows.data.errors import FaultError

Json = dict[str, object]


class Stage(IntEnum):
    """Where on the way from scene to receiver a fault happens."""

    OPTICS = 0
    SENSOR = 1
    COMPOSITION = 2
    NETWORK = 3


@dataclass(frozen=True)
class Setting:
    """What a fault is given beside its own numbers: frames per second, and the clip's shrinkage (1 target, 2 low)."""

    fps: float = 25.0
    shrunk: int = 2


@dataclass(frozen=True)
class Fault(ABC):
    """Base of all faults. Subclasses set `kind` and `stage`, and `in_target` when the clean target has it too."""

    kind: ClassVar[str] = ""
    stage: ClassVar[Stage] = Stage.OPTICS
    in_target: ClassVar[bool] = False
    bounds: ClassVar[dict[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        for name, (low, high) in self.bounds.items():
            value = getattr(self, name)
            if value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not low <= value <= high:
                raise FaultError(f"{self.kind}: {name} is {value!r}, give a number from {low:g} to {high:g}")

    @abstractmethod
    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """What becomes of a clip [n, h, w, 3]; as many frames, of the same size."""

    def clean(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """The part of it that the target shows too. Only asked of faults that are `in_target`."""
        return self.apply(frames, random, setting)

    def to_json(self) -> Json:
        """{"kind": ..., the fault's numbers}."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Inverse of `to_json`. Raises FaultError on a field that this fault does not have."""
        fields = {name: number for name, number in value.items() if name != "kind"}
        try:
            return cls(**fields)
        except TypeError as error:
            known = ", ".join(cls.__dataclass_fields__)
            raise FaultError(f"{cls.kind}: {', '.join(sorted(fields))} are not its fields ({known})") from error


def runs(
    count: int, share: float, burst: float, random: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Gilbert's channel: which of `count` things are lost; `share` of them on average, in runs of mean length `burst`.

    Source: E. N. Gilbert, "Capacity of a burst-noise channel", 1960.
    """
    lost = np.zeros(count, np.bool_)
    if share <= 0.0:
        return lost
    leave = 1.0 / max(burst, 1.0)
    enter = min(1.0, share * leave / max(1.0 - share, 1e-9))
    bad = False
    for index, draw in enumerate(random.random(count)):
        bad = draw >= leave if bad else draw < enter
        lost[index] = bad
    return lost
