"""A few words over the FlatBuffers builder: tables from slots, vectors from lists.

A table's slots are (index, kind, value); offsets are written before the table, as the format wants.
"""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers  # type: ignore[import-untyped]  # ships no types
import numpy as np
import numpy.typing as npt

Slot = tuple[int, str, int | bool]
OFFSET = "offset"


class FlatWriter:
    """Builds one FlatBuffer from the leaves up; every method returns an offset."""

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(1 << 20)

    def text(self, value: str) -> int:
        """A string."""
        return int(self._builder.CreateString(value))

    def numbers(self, values: npt.ArrayLike, dtype: npt.DTypeLike) -> int:
        """A vector of scalars."""
        return int(self._builder.CreateNumpyVector(np.ascontiguousarray(np.array(values, dtype).reshape(-1))))

    def data(self, values: npt.NDArray[np.generic]) -> int:
        """A vector of bytes at a multiple of 16, as tensor data has to lie."""
        raw = np.frombuffer(values.tobytes(), np.uint8)
        self._builder.StartVector(1, len(raw), 16)
        head = self._builder.head = self._builder.head - len(raw)
        self._builder.Bytes[head : head + len(raw)] = raw.tobytes()
        return int(self._builder.EndVector())

    def tables(self, offsets: Sequence[int]) -> int:
        """A vector of tables."""
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())

    def table(self, slots: int, values: Sequence[Slot]) -> int:
        """A table with room for `slots` fields. Kinds: offset, int8, uint8, int32, uint32, bool."""
        builder = self._builder
        put = {
            OFFSET: builder.PrependUOffsetTRelativeSlot,
            "int8": builder.PrependInt8Slot,
            "uint8": builder.PrependUint8Slot,
            "int32": builder.PrependInt32Slot,
            "uint32": builder.PrependUint32Slot,
            "bool": builder.PrependBoolSlot,
        }
        builder.StartObject(slots)
        for index, kind, value in values:
            put[kind](index, value, 0)
        return int(builder.EndObject())

    def finish(self, root: int, identifier: bytes) -> bytes:
        """The whole buffer."""
        self._builder.Finish(root, file_identifier=identifier)
        return bytes(self._builder.Output())
