"""Values of the IR, how operators see them, and the range of their bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contracts.npu import Layout


@dataclass(frozen=True)
class Window:
    """A value that lives inside another one: its first row, column and channel there."""

    parent: str
    row: int = 0
    col: int = 0
    channel: int = 0


@dataclass(frozen=True)
class Value:
    """One activation tensor: real = (q - zero_point) * scale. ``window``: where it lies when it has no bytes of
    its own.
    """

    name: str
    height: int
    width: int
    channels: int
    scale: float
    zero_point: int
    window: Window | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.height * self.width * self.channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        return self.height, self.width, self.channels

    def same_quantization(self, other: Value) -> bool:
        """Whether a byte means the same number in both."""
        return np.float32(self.scale) == np.float32(other.scale) and self.zero_point == other.zero_point


@dataclass(frozen=True)
class View:
    """How an operator sees a stored image (read) or lays its result down (write)."""

    layout: Layout = Layout.NHWC
    block: int = 0

    def logical(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Logical extents of a stored image of ``shape`` seen through this view."""
        height, width, channels = shape
        if self.layout in (Layout.S2D, Layout.D2S):
            return height // self.block, width // self.block, channels * self.block**2
        if self.layout == Layout.NEAREST:
            return height * self.block, width * self.block, channels
        return shape


PLAIN = View()


@dataclass(frozen=True)
class Clamp:
    """Range of the stored bytes; ReLU and Clip narrow it."""

    low: int = 0
    high: int = 255

    def narrowed(self, other: Clamp) -> Clamp:
        """The clamp that does both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Clamp(min(low, high), high)


OPEN = Clamp()
