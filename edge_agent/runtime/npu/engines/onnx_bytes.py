"""Writes the few ONNX models that the engine needs, without the `onnx` package (31 MB that a device can
spare).

A model here is one node: u8 inputs, u8 output, everything else an initialiser. Field numbers are those of
onnx.proto3 (IR version 9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

IR_VERSION = 9
OPSETS = (("", 17), ("com.microsoft", 1))
_DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
_INT, _INTS = 2, 7  # AttributeProto.AttributeType


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, data: bytes | str) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return _varint(field << 3 | 2) + _varint(len(raw)) + raw


def _tensor(name: str, values: NDArray[np.generic]) -> bytes:
    dims = b"".join(_number(1, size) for size in values.shape)
    return dims + _number(2, _DTYPES[values.dtype.name]) + _block(8, name) + _block(9, values.tobytes())


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _block(1, name) + _number(3, value) + _number(20, _INT)
    return _block(1, name) + b"".join(_number(8, item) for item in value) + _number(20, _INTS)


def _value(name: str, rank: int) -> bytes:
    shape = b"".join(_block(1, _block(2, f"{name}{axis}")) for axis in range(rank))
    return _block(1, name) + _block(2, _block(1, _number(1, _DTYPES["uint8"]) + _block(2, shape)))


def one_node_model(
    operator: str,
    arguments: Sequence[str],
    initialisers: Mapping[str, NDArray[np.generic]],
    attributes: Mapping[str, int | Sequence[int]],
    rank: int,
) -> bytes:
    """Return a serialised model: `operator` of com.microsoft on `arguments`, result `y`; free arguments are
    u8 inputs.
    """
    node = b"".join(_block(1, name) for name in arguments) + _block(2, "y") + _block(4, operator)
    node += b"".join(_block(5, _attribute(name, value)) for name, value in attributes.items())
    node += _block(7, "com.microsoft")
    graph = _block(1, node) + _block(2, operator)
    graph += b"".join(_block(5, _tensor(name, values)) for name, values in initialisers.items())
    graph += b"".join(_block(11, _value(name, rank)) for name in arguments if name not in initialisers)
    graph += _block(12, _value("y", rank))
    opsets = b"".join(_block(8, _block(1, domain) + _number(2, version)) for domain, version in OPSETS)
    return _number(1, IR_VERSION) + _block(7, graph) + opsets
