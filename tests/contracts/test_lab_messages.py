"""Lab messages survive the trip, and nothing oversized or malformed is believed."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest

from contracts.lab import LabProtocolError
from contracts.lab.limits import LIMITS, LabLimits
from contracts.lab.messages import Message, decode, encode


def through(data: bytes, limits: LabLimits = LIMITS) -> Message:
    stream = io.BytesIO(data)

    def read(size: int) -> memoryview:
        assert size <= limits.message_bytes
        return memoryview(stream.read(size))

    return decode(read, limits)


def test_header_and_arrays_come_back_equal() -> None:
    arrays = {
        "frames": np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3),
        "none": np.zeros((0, 3), np.float64),
    }
    message = through(b"".join(encode({"op": "run", "profile": None}, arrays)))
    assert message.header["op"] == "run"
    for name, values in arrays.items():
        assert np.array_equal(message.arrays[name], values)
        assert message.arrays[name].dtype == values.dtype


def packed(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text


ARRAY = {"name": "x", "dtype": "uint8", "shape": [4]}


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<I", LIMITS.header_bytes + 1),
        struct.pack("<I", 2) + b"[]",
        struct.pack("<I", 4) + b"\xff\xfe{}",
        packed({"op": "run"}),
        packed({"blobs": [4], "arrays": []}),
        packed({"blobs": [-1], "arrays": [ARRAY]}),
        packed({"blobs": [LIMITS.blob_bytes + 1], "arrays": [ARRAY]}),
        packed({"blobs": ["4"], "arrays": [ARRAY]}),
        packed({"blobs": [1] * 65, "arrays": [ARRAY] * 65}),
        packed({"blobs": [LIMITS.blob_bytes] * 3, "arrays": [ARRAY] * 3}),
        packed({"blobs": [4], "arrays": [{**ARRAY, "dtype": "object"}]}) + b"1234",
        packed({"blobs": [4], "arrays": [{**ARRAY, "shape": [5]}]}) + b"1234",
        packed({"blobs": [4], "arrays": [{**ARRAY, "shape": [-1]}]}) + b"1234",
        packed({"blobs": [4], "arrays": ["x"]}) + b"1234",
        struct.pack("<I", 60_000) + b"[" * 60_000,
    ],
)
def test_a_malformed_or_oversized_message_is_refused(data: bytes) -> None:
    with pytest.raises(LabProtocolError):
        through(data)


def test_a_message_too_large_in_sum_is_refused_before_its_blobs_are_read() -> None:
    stream = io.BytesIO(packed({"blobs": [LIMITS.blob_bytes] * 3, "arrays": [ARRAY] * 3}))

    def read(size: int) -> memoryview:
        assert size < LIMITS.header_bytes
        return memoryview(stream.read(size))

    with pytest.raises(LabProtocolError, match="a message of"):
        decode(read)


def test_an_oversized_message_is_not_sent() -> None:
    with pytest.raises(LabProtocolError, match="at most"):
        list(encode({"op": "x" * LIMITS.header_bytes}))
