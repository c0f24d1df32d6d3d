"""One message: u32 length of the header, JSON header, then the blobs whose lengths the header lists.

Arrays travel as blobs; `header["arrays"]` gives name, type and shape of each. Invariant: nothing is allocated
before its size was compared with the limits.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.lab.errors import LabProtocolError
from contracts.lab.limits import LIMITS, LabLimits

PROTOCOL = 1
_LENGTH = struct.Struct("<I")
_DTYPES = ("uint8", "float32", "float64", "int64")
Array = NDArray[np.generic]


@dataclass(frozen=True)
class Message:
    """A header (JSON values) and named arrays."""

    header: dict[str, Any]  # Any: JSON values
    arrays: dict[str, Array] = field(default_factory=dict)


def encode(header: Mapping[str, object], arrays: Mapping[str, Array] | None = None) -> Iterator[memoryview]:
    """Yield the message's parts without copying the arrays; raises LabProtocolError when it is too large."""
    blobs = {name: np.asarray(values, order="C") for name, values in (arrays or {}).items()}
    described = [
        {"name": name, "dtype": values.dtype.name, "shape": list(values.shape)} for name, values in blobs.items()
    ]
    text = json.dumps({**header, "arrays": described, "blobs": [v.nbytes for v in blobs.values()]}).encode()
    check_sizes(len(text), [values.nbytes for values in blobs.values()])
    yield memoryview(_LENGTH.pack(len(text)) + text)
    for values in blobs.values():
        if values.nbytes:
            yield values.reshape(-1).view(np.uint8).data


def decode(read: Callable[[int], memoryview], limits: LabLimits = LIMITS) -> Message:
    """Read one message through `read` (exactly n bytes); raises LabProtocolError."""
    (length,) = _LENGTH.unpack(read(_LENGTH.size))
    check_sizes(length, [], limits)
    try:
        header = json.loads(bytes(read(length)))
        sizes = header["blobs"]
        described = header["arrays"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LabProtocolError(f"a header that is not the protocol's JSON: {error}") from error
    if not isinstance(sizes, list) or not isinstance(described, list) or len(sizes) != len(described):
        raise LabProtocolError("the header's blobs and arrays do not match")
    check_sizes(length, sizes, limits)
    arrays = {}
    for size, entry in zip(sizes, described, strict=True):
        name, values = _array(entry, size, read(size))
        arrays[name] = values
    return Message(header, arrays)


def check_sizes(header: int, blobs: list[int], limits: LabLimits = LIMITS) -> None:
    """Raise LabProtocolError when a message of these sizes is over the limits."""
    if header > limits.header_bytes:
        raise LabProtocolError(f"a header of {header} bytes, at most {limits.header_bytes}")
    if len(blobs) > limits.blobs:
        raise LabProtocolError(f"{len(blobs)} blobs, at most {limits.blobs}")
    for size in blobs:
        if type(size) is not int or not 0 <= size <= limits.blob_bytes:
            raise LabProtocolError(f"a blob of {size!r} bytes, at most {limits.blob_bytes}")
    if sum(blobs) > limits.message_bytes:
        raise LabProtocolError(f"a message of {sum(blobs)} bytes, at most {limits.message_bytes}")


def _array(entry: object, size: int, data: memoryview) -> tuple[str, Array]:
    try:
        name, dtype, shape = (entry[key] for key in ("name", "dtype", "shape"))  # type: ignore[index]  # caught below
        if dtype not in _DTYPES or not all(type(extent) is int and extent >= 0 for extent in shape):
            raise ValueError(f"type {dtype!r}, shape {shape!r}")
        return str(name), np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    except (TypeError, KeyError, ValueError) as error:
        raise LabProtocolError(f"an array of {size} bytes that does not match its description: {error}") from error
