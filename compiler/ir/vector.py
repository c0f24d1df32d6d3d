"""Operators of the vector unit: tables, products, pooling and resizing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from compiler.ir.values import OPEN, Clamp
from contracts.npu.program import PoolMode


@dataclass(frozen=True, eq=False)
class Table:
    """Each byte through a table: ``tables`` is uint8 [1][256], or [channels][256]."""

    name: str
    source: str
    result: str
    tables: npt.NDArray[np.uint8]
    origin: tuple[str, ...] = ()
    host: str = ""
    """Why the host processor runs it; empty where the NPU does."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


@dataclass(frozen=True)
class Mul:
    """Elementwise product of a and b."""

    name: str
    a: str
    b: str
    result: str
    clamp: Clamp = OPEN
    origin: tuple[str, ...] = ()
    host: str = ""
    """Why the host processor runs it; empty where the NPU does."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.a, self.b)


@dataclass(frozen=True)
class Pool:
    """Maximum or average over windows; ``whole``: one window, the whole map. Pads top, bottom, left, right."""

    name: str
    source: str
    result: str
    mode: PoolMode
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    whole: bool = False
    clamp: Clamp = OPEN
    origin: tuple[str, ...] = ()
    host: str = ""
    """Why the host processor runs it; empty where the NPU does."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)


class Transformation(IntEnum):
    """How a result index becomes a source position (``arithmetic.md``, Resizing)."""

    ASYMMETRIC = 0
    HALF_PIXEL = 1
    ALIGN_CORNERS = 2


class Rounding(IntEnum):
    """How a nearest position becomes an index."""

    FLOOR = 0
    CEIL = 1
    PREFER_FLOOR = 2
    PREFER_CEIL = 3


@dataclass(frozen=True)
class Resize:
    """Nearest or linear resizing; the extents are those of source and result."""

    name: str
    source: str
    result: str
    linear: bool
    transformation: Transformation
    rounding: Rounding = Rounding.FLOOR
    origin: tuple[str, ...] = ()
    host: str = ""
    """Why the host processor runs it; empty where the NPU does."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.source,)
