"""Twelve ways in which call programs put people on a screen. The clip fills the tiles; the canvas keeps its size.

Tiles are given in twelfths of the canvas and rounded to multiples of four target pixels, so that the low-resolution
canvas has its tiles on even pixels. Resampling is the exact area mean, which commutes with the halving of the picture:
the layout of the halved clip is the halved layout, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames
from flows.data.errors import FaultError
from flows.data.faults.fault import Fault, Setting, Stage

Tile = tuple[float, float, float, float]
"""Top, left, height, width in twelfths."""


def _grid(rows: int, columns: int) -> tuple[Tile, ...]:
    high, wide = 12.0 / rows, 12.0 / columns
    return tuple((row * high, column * wide, high, wide) for row in range(rows) for column in range(columns))


LAYOUTS: dict[str, tuple[Tile, ...]] = {
    "solo": _grid(1, 1),
    "side-by-side": _grid(1, 2),
    "gallery-2x2": _grid(2, 2),
    "gallery-2x3": _grid(2, 3),
    "gallery-3x3": _grid(3, 3),
    "gallery-4x4": _grid(4, 4),
    "strip-right": ((0, 0, 12, 9), *((3 * row, 9, 3, 3) for row in range(4))),
    "strip-bottom": ((0, 0, 9, 12), *((9, 3 * column, 3, 3) for column in range(4))),
    "strip-top": ((3, 0, 9, 12), *((0, 3 * column, 3, 3) for column in range(4))),
    "picture-in-picture": ((0, 0, 12, 12), (8, 8, 3.5, 3.5)),
    "portrait-letterbox": ((0, 4, 12, 4),),
    "portrait-pair": ((0, 1, 12, 4.5), (0, 6.5, 12, 4.5)),
}
_SHIFT = 7
_GAP = 4


@dataclass(frozen=True)
class Layout(Fault):
    """The clip in every tile of layout `name`, each tile at another moment, every second one mirrored."""

    kind: ClassVar[str] = "layout"
    stage: ClassVar[Stage] = Stage.COMPOSITION
    in_target: ClassVar[bool] = True
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"background": (0, 255)}

    name: str = "gallery-2x2"
    background: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name not in LAYOUTS:
            raise FaultError(f"layout: {self.name!r} is unknown, give one of {', '.join(LAYOUTS)}")

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """Background where no tile is."""
        canvas = np.full_like(frames, int(self.background))
        for number, (top, left, height, width) in enumerate(boxes(self.name, frames.shape[1:3], setting.shrunk)):
            content = frames[_moments(len(frames), number * _SHIFT)]
            content = content[:, :, ::-1] if number % 2 else content
            canvas[:, top : top + height, left : left + width] = fill(content, (height, width))
        return canvas


def boxes(name: str, size: tuple[int, ...], shrunk: int = 1) -> list[tuple[int, int, int, int]]:
    """(top, left, height, width) of every tile, in pixels of a canvas `shrunk` times smaller than the target."""
    height, width = size[0] * shrunk, size[1] * shrunk
    tiles = LAYOUTS[name]
    gap = 0 if len(tiles) == 1 else _GAP
    found = []
    for top, left, high, wide in tiles:
        y, x = _snap(top * height / 12), _snap(left * width / 12)
        bottom, right = _snap((top + high) * height / 12) - gap, _snap((left + wide) * width / 12) - gap
        box = (y, x, max(4, min(bottom, height) - y), max(4, min(right, width) - x))
        found.append((box[0] // shrunk, box[1] // shrunk, box[2] // shrunk, box[3] // shrunk))
    return found


def fill(frames: Frames, size: tuple[int, int]) -> Frames:
    """The centre of a clip in the shape of `size`, resampled to it by area means."""
    _, height, width, _ = frames.shape
    scale = min(height / size[0], width / size[1])
    rows = _area(height, size[0], scale)
    columns = _area(width, size[1], scale)
    output = np.empty((len(frames), *size, 3), np.uint8)
    for index, frame in enumerate(frames):
        narrow = rows @ frame.astype(np.float32).reshape(height, width * 3)
        wide = columns @ narrow.reshape(size[0], width, 3)
        output[index] = np.clip(np.rint(wide), 0, 255)
    return output


def _area(source: int, target: int, scale: float) -> NDArray[np.float32]:
    """[target, source] weights: each output pixel is the mean over `scale` input pixels, the middle of the source."""
    start = (source - target * scale) / 2.0
    low = start + scale * np.arange(target)[:, None]
    pixel = np.arange(source)[None]
    overlap = np.clip(np.minimum(low + scale, pixel + 1) - np.maximum(low, pixel), 0.0, None)
    return np.asarray(overlap / overlap.sum(axis=1, keepdims=True), np.float32)


def _moments(count: int, shift: int) -> NDArray[np.intp]:
    """Frame numbers from `shift` on, forth and back, so that no cut appears."""
    if count == 1:
        return np.zeros(1, np.intp)
    turn = 2 * (count - 1)
    place = (np.arange(count) + shift) % turn
    return np.asarray(np.where(place < count, place, turn - place), np.intp)


def _snap(value: float) -> int:
    return round(value / 4.0) * 4
