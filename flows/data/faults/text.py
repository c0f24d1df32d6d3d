"""Screen content: lines of text, as in a shared editor, a chat or captions, over a part of the picture.

Letters come from a font of 5x7 dots in this file. The text stands still but for a caret and one line that is being
typed, so that a clip has the sharp edges and the sudden small changes of a shared screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames
from flows.data.faults.fault import Fault, Setting, Stage

_GLYPHS = {
    "A": (14, 17, 17, 31, 17, 17, 17),
    "B": (30, 17, 30, 17, 17, 17, 30),
    "C": (15, 16, 16, 16, 16, 16, 15),
    "D": (30, 17, 17, 17, 17, 17, 30),
    "E": (31, 16, 30, 16, 16, 16, 31),
    "F": (31, 16, 30, 16, 16, 16, 16),
    "G": (15, 16, 16, 19, 17, 17, 15),
    "H": (17, 17, 31, 17, 17, 17, 17),
    "I": (31, 4, 4, 4, 4, 4, 31),
    "K": (17, 18, 28, 20, 18, 17, 17),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "M": (17, 27, 21, 17, 17, 17, 17),
    "N": (17, 25, 21, 19, 17, 17, 17),
    "O": (14, 17, 17, 17, 17, 17, 14),
    "P": (30, 17, 17, 30, 16, 16, 16),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "S": (15, 16, 14, 1, 1, 1, 30),
    "T": (31, 4, 4, 4, 4, 4, 4),
    "U": (17, 17, 17, 17, 17, 17, 14),
    "V": (17, 17, 17, 17, 10, 10, 4),
    "W": (17, 17, 17, 21, 21, 27, 17),
    "X": (17, 10, 4, 4, 4, 10, 17),
    "0": (14, 19, 21, 21, 21, 25, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 6, 8, 16, 31),
    "3": (30, 1, 1, 14, 1, 1, 30),
    "4": (18, 18, 18, 31, 2, 2, 2),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "=": (0, 0, 31, 0, 31, 0, 0),
    "(": (2, 4, 4, 4, 4, 4, 2),
    ")": (8, 4, 4, 4, 4, 4, 8),
    ":": (0, 4, 4, 0, 4, 4, 0),
    "_": (0, 0, 0, 0, 0, 0, 31),
    " ": (0, 0, 0, 0, 0, 0, 0),
}
_LETTERS = "".join(_GLYPHS)
_PAPER_INK = ((245.0, 20.0), (30.0, 225.0))
_CELL = (9, 6)


@dataclass(frozen=True)
class ScreenText(Fault):
    """Text on an opaque panel over the lower `share` of the picture; a dot is `size` target pixels wide."""

    kind: ClassVar[str] = "screen-text"
    stage: ClassVar[Stage] = Stage.COMPOSITION
    in_target: ClassVar[bool] = True
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"share": (0.05, 1.0), "size": (1, 8)}

    share: float = 0.4
    size: int = 2
    dark: bool = False

    def apply(self, frames: Frames, random: np.random.Generator, setting: Setting) -> Frames:
        """The same text, at the same place, for the target and for its halved version."""
        height, width = frames.shape[1] * setting.shrunk, frames.shape[2] * setting.shrunk
        top = height - max(4, round(height * self.share / 4.0) * 4)
        paper, ink = _PAPER_INK[int(self.dark)]
        page = _page((height - top) // (_CELL[0] * int(self.size)), width // (_CELL[1] * int(self.size)), random)
        output = frames.copy()
        for index in range(len(frames)):
            dots = _raster(_typed(page, index), int(self.size), (height - top, width))
            panel = _halved(paper + (ink - paper) * dots, setting.shrunk)
            output[index, top // setting.shrunk :] = np.rint(panel)[..., None]
        return output


def _page(rows: int, columns: int, random: np.random.Generator) -> list[str]:
    lines = []
    for _ in range(rows):
        letters = random.integers(len(_LETTERS), size=columns)
        words = random.random(columns) < 0.18
        length = int(random.integers(columns // 3, columns + 1))
        lines.append("".join(" " if gap else _LETTERS[at] for at, gap in zip(letters, words, strict=True))[:length])
    return lines


def _typed(page: list[str], frame: int) -> list[str]:
    """The last line grows by a letter every second frame and starts again when it is full."""
    if not page or not page[-1]:
        return page
    shown = frame // 2 % (len(page[-1]) + 1)
    return [*page[:-1], page[-1][:shown] + "_"]


def _raster(lines: list[str], size: int, shape: tuple[int, int]) -> NDArray[np.float32]:
    dots = np.zeros((len(lines) * _CELL[0] + 1, max((len(line) for line in lines), default=0) * _CELL[1] + 1))
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            rows = np.array(_GLYPHS[letter])[:, None] >> np.arange(4, -1, -1) & 1
            dots[row * _CELL[0] + 1 : row * _CELL[0] + 8, column * _CELL[1] + 1 : column * _CELL[1] + 6] = rows
    large = dots.repeat(size, axis=0).repeat(size, axis=1)[: shape[0], : shape[1]]
    page = np.zeros(shape, np.float32)
    page[: large.shape[0], : large.shape[1]] = large
    return page


def _halved(image: NDArray[np.float32], factor: int) -> NDArray[np.float32]:
    rows, columns = image.shape[0] // factor, image.shape[1] // factor
    return np.asarray(image.reshape(rows, factor, columns, factor).mean(axis=(1, 3)), np.float32)
