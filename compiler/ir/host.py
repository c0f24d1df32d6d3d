"""Operators that run on the host processor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from compiler.ir.core import Conv
from compiler.ir.values import OPEN, Clamp


class HostFunction(IntEnum):
    """What a HOST operator computes (``arithmetic.md``, Host operators)."""

    SOFTMAX = 0
    MATRIX_PRODUCT = 1
    DEFORMABLE_ALIGNMENT = 2
    DYNAMIC_UPSAMPLING = 3
    LINEAR_TEMPORAL_ATTENTION = 4
    GLOBAL_MOTION_WARP = 5


@dataclass(frozen=True)
class Host:
    """An operator that runs on the host processor. ``axis``: of a softmax; ``convolution``: of a deformable
    alignment, its geometry and constants.
    """

    name: str
    function: HostFunction
    a: str
    b: str
    result: str
    axis: int = 0
    kernel: tuple[int, int] = (1, 1)
    factor: int = 1
    convolution: Conv | None = None
    clamp: Clamp = OPEN
    origin: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The first operand."""
        return self.a

    @property
    def reads(self) -> tuple[str, ...]:
        """Values read."""
        return (self.a, self.b) if self.b else (self.a,)
