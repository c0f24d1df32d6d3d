"""What was read: nodes in execution order, constants, the frame and the states. No protobuf object gets this far.

Invariants of a :class:`SourceGraph`: nodes in execution order (cycles refused), every name defined once,
every read name defined, one frame and for each state an output that follows it, sizes within the limits.
Nothing here knows about quantisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.errors import BrokenModel

Array = npt.NDArray[np.generic]
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | Array
_EXPORT = "export the model again"


@dataclass(frozen=True)
class SourceNode:
    """One ONNX node; an absent optional input is the empty string."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise BrokenModel(self.name, f"attribute {name} is not an integer", _EXPORT)
        return value

    def real(self, name: str, default: float) -> float:
        """A finite number attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise BrokenModel(self.name, f"attribute {name} is not a finite number", _EXPORT)
        return float(value)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise BrokenModel(self.name, f"attribute {name} is not a string", _EXPORT)
        return value

    def integers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """A list-of-integers attribute of the default's length."""
        value = self.attributes.get(name, default)
        if not isinstance(value, tuple) or len(value) != len(default) or not all(isinstance(v, int) for v in value):
            raise BrokenModel(self.name, f"attribute {name} must have {len(default)} integers", _EXPORT)
        return tuple(int(v) for v in value)

    def some_integers(self, name: str) -> tuple[int, ...] | None:
        """A list-of-integers attribute of any length; None when absent."""
        if name not in self.attributes:
            return None
        value = self.attributes[name]
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise BrokenModel(self.name, f"attribute {name} is not a list of integers", _EXPORT)
        return tuple(int(v) for v in value)


@dataclass(frozen=True)
class Extent:
    """Height or width of a state: ``size``, or a part of the frame's own extent."""

    size: int | None
    divisor: int = 1

    def of(self, frame: int) -> int | None:
        """The extent for a frame's; None when it does not divide."""
        if self.size is not None:
            return self.size
        return frame // self.divisor if frame % self.divisor == 0 else None


@dataclass(frozen=True)
class SourceState:
    """An input that the net itself wrote in the frame before, as its output ``output``."""

    name: str
    output: str
    channels: int
    height: Extent
    width: Extent


@dataclass(frozen=True)
class SourceGraph:
    """The model as read. ``input_shape`` is batch, channels, height, width; None where dynamic. ``input_type`` is
    float, uint8 or int8.
    """

    name: str
    input: str
    input_shape: tuple[int | None, ...]
    input_type: str
    outputs: tuple[str, ...]
    nodes: tuple[SourceNode, ...]
    constants: Mapping[str, Array]
    states: tuple[SourceState, ...] = ()

    def state(self, name: str) -> SourceState | None:
        """The state of that input name."""
        return next((state for state in self.states if state.name == name), None)
