"""De-identification without a face detector: what is left of a person is a heap of single blocks.

A picture is cut into blocks. Of each person only every second block in every second row is ever used (a quarter of
the picture, no two of them neighbours), always the same quarter, so that nothing is completed by other frames of the
set. The blocks of four people are then put at random places, some of them mirrored, the same way for the frames of one
sequence, so that motion, noise and texture inside a block stay what they are. What a network with a small receptive
field does to a picture hardly depends on where the block lies; the seams are no worse than those of a gallery call.

A person who moves shows other parts in the same blocks, in other sequences with another shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flows.data.clips import Frames
from flows.data.errors import CorpusError

BLOCK = 32
PHASES = 4


def kept_cells(rows: int, columns: int, phase: int) -> NDArray[np.intp]:
    """[n, 2] (row, column) of the blocks that may be used of a person of this phase, 0..3."""
    row, column = np.meshgrid(
        np.arange(phase // 2, rows, 2, dtype=np.intp), np.arange(phase % 2, columns, 2, dtype=np.intp), indexing="ij"
    )
    return np.stack((row.ravel(), column.ravel()), axis=1)


def mosaic(clips: Sequence[tuple[Frames, int]], random: np.random.Generator, block: int = BLOCK) -> Frames:
    """A clip of the size of the first, made of blocks of `clips`, each given with its person's phase.

    All clips have the same number of frames [n, h, w, 3]. Places left over repeat blocks that are used already.
    """
    if not clips or len({frames.shape for frames, _ in clips}) != 1:
        raise CorpusError("a mosaic needs clips of one size and length; cut them first")
    count, height, width, _ = clips[0][0].shape
    rows, columns = height // block, width // block
    if rows < 2 or columns < 2:
        raise CorpusError(f"{width}x{height} is too small for blocks of {block} pixels; give larger pictures")
    pieces = [
        frames[:, row * block : (row + 1) * block, column * block : (column + 1) * block]
        for frames, phase in clips
        for row, column in kept_cells(rows, columns, phase)
    ]
    order = random.permutation(len(pieces))
    output = np.empty((count, rows * block, columns * block, 3), np.uint8)
    for place in range(rows * columns):
        piece = pieces[order[place % len(pieces)]]
        piece = piece[:, :, ::-1] if random.random() < 0.5 else piece
        top, left = place // columns * block, place % columns * block
        output[:, top : top + block, left : left + block] = piece
    return output
