"""Prepared pairs on disk while a run lasts: a run that was killed maps them instead of coding every clip again.

One file: a length, a JSON head (sets, and of each pair clip, condition, extents, places), then the frames. Frames are
mapped, not read, so opening costs nothing and several processes share them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flows.data.degrade import Degradation
from flows.data.errors import CorpusError
from flows.data.pairs import Pair, PairSet
from flows.storage import write_whole

_LENGTH = 8
_MOST_HEAD = 16 << 20


def save_pairs(sets: Mapping[str, PairSet], path: Path) -> None:
    """Write the file whole or not at all. Raises StorageError when the disk is full."""
    rows: dict[str, list[dict[str, Any]]] = {}  # Any: JSON
    offset = 0
    for name, pairs in sets.items():
        rows[name] = []
        for pair in pairs.pairs:
            places = {"low": offset, "high": offset + pair.low.nbytes}
            offset += pair.low.nbytes + pair.high.nbytes
            shapes = {"low_shape": pair.low.shape, "high_shape": pair.high.shape}
            rows[name].append({"clip": pair.clip, "degradation": asdict(pair.degradation), **places, **shapes})
    head = json.dumps(rows).encode()

    def fill(file: BinaryIO) -> None:
        file.write(len(head).to_bytes(_LENGTH, "little") + head)
        for array in _arrays(sets):
            file.write(np.ascontiguousarray(array).data)

    write_whole(path, fill)


def load_pairs(path: Path) -> dict[str, PairSet]:
    """The sets by name. Raises CorpusError when the file is not one of these."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH), "little")
            if length > _MOST_HEAD:
                raise ValueError(f"a head of {length} bytes")
            rows = json.loads(file.read(length))
        mapped: NDArray[np.uint8] = np.asarray(np.memmap(path, np.uint8, "c", _LENGTH + length))
        return {name: PairSet(tuple(_pair(row, mapped) for row in listed)) for name, listed in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorpusError(f"{path} is no file of prepared pairs ({error}); remove it") from error


def _pair(row: dict[str, Any], mapped: NDArray[np.uint8]) -> Pair:  # Any: JSON
    low, high = (_cut(mapped, int(row[side]), tuple(row[f"{side}_shape"])) for side in ("low", "high"))
    return Pair(str(row["clip"]), Degradation(**row["degradation"]), low, high)


def _cut(mapped: NDArray[np.uint8], offset: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    count = int(np.prod(shape, dtype=np.int64))
    if offset < 0 or count <= 0 or offset + count > len(mapped):
        raise ValueError(f"frames {shape} at {offset} leave the file")
    return mapped[offset : offset + count].reshape(shape)


def _arrays(sets: Mapping[str, PairSet]) -> Iterator[NDArray[np.uint8]]:
    for pairs in sets.values():
        for pair in pairs.pairs:
            yield pair.low
            yield pair.high
