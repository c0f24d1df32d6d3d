"""Several streams in one frame: the commands of one stream, repeated over the rows of taller input and output maps.

Constants, rings and the scratch of the net are shared by all streams; a kernel is launched once and entered again for
each further stream. Only regions of the model's own input and outputs move: stream s begins at row s * height.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from contracts.npu import Space
from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH

Region = npt.NDArray[np.void]


def repeat(body: Sequence[Region], streams: int, heights: Mapping[int, int]) -> list[Region]:
    """The commands of all streams. `heights`: rows of one stream's map, by the DDR offset where the map begins."""
    if streams == 1:
        return list(body)
    return [_moved(command, stream, streams, heights) for stream in range(streams) for command in body]


def _moved(command: Region, stream: int, streams: int, heights: Mapping[int, int]) -> Region:
    moved = command.copy()
    for field in ("src", "residual", "dst"):
        place = moved[field]
        height = heights.get(int(place["offset"])) if place["space"] == Space.DDR else None
        if height is not None:
            place["ring_first"] += stream * height
            place["ring_rows"] = streams * height
    if stream and moved["flags"] & FLAG_LAUNCH:
        moved["flags"] = moved["flags"] & ~np.uint8(FLAG_LAUNCH) | np.uint8(FLAG_DISPATCH)
    return moved
