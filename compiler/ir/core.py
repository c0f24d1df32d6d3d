"""Convolution, addition, layout moves, clamps and the block that runs as one kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.ir.values import OPEN, PLAIN, Clamp, View


@dataclass(frozen=True)
class Residual:
    """A fused addition of the operator's own result and ``value`` seen through ``view``, in this order; ``first``:
    the other way round. ``subtract`` takes the second of the two off instead.
    """

    value: str
    view: View
    clamp: Clamp
    subtract: bool = False
    first: bool = False


@dataclass(frozen=True, eq=False)
class Conv:
    """Convolution. ``weights`` int8 [out][in/groups][kh][kw]; pads top, bottom, left, right.

    ``scale``/``zero_point`` are those of the convolution's own result; they equal the result value's unless a
    residual is fused behind it.
    """

    name: str
    source: str
    result: str
    weights: npt.NDArray[np.int8]
    weight_scale: npt.NDArray[np.float32]
    weight_zero_point: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int32]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int
    scale: float
    zero_point: int
    clamp: Clamp = OPEN
    read: View = PLAIN
    write: View = PLAIN
    residual: Residual | None = None
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,) if self.residual is None else (self.source, self.residual.value)

    @property
    def kernel(self) -> tuple[int, int]:
        """Kernel height and width."""
        return int(self.weights.shape[2]), int(self.weights.shape[3])


@dataclass(frozen=True)
class Add:
    """Elementwise addition of a and b (or a - b), each seen through its view."""

    name: str
    a: str
    b: str
    result: str
    a_view: View = PLAIN
    b_view: View = PLAIN
    clamp: Clamp = OPEN
    origin: tuple[str, ...] = ()
    subtract: bool = False
    host: str = ""
    """Why the host processor runs it; empty where the NPU does."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.a, self.b)


@dataclass(frozen=True)
class Move:
    """Copy that changes the layout: Space-to-Depth, Depth-to-Space (CRD) or nearest enlargement."""

    name: str
    source: str
    result: str
    read: View = PLAIN
    write: View = PLAIN
    origin: tuple[str, ...] = ()
    host: str = ""
    """Why the host processor runs it; empty where the NPU does."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


@dataclass(frozen=True)
class Clip:
    """ReLU or Clip that is not folded yet; same quantisation on both sides."""

    name: str
    source: str
    result: str
    clamp: Clamp
    origin: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


@dataclass(frozen=True)
class Block:
    """Convolutions that run as one kernel; values between them are private to it."""

    name: str
    body: tuple[Conv, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read from outside."""
        made = {conv.result for conv in self.body}
        return tuple(value for conv in self.body for value in conv.reads if value not in made)

    @property
    def result(self) -> str:
        """The last convolution's result."""
        return self.body[-1].result

    @property
    def origin(self) -> tuple[str, ...]:
        """ONNX nodes."""
        return tuple(node for conv in self.body for node in conv.origin)
