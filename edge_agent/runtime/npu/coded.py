"""Decodes entropy-coded constants when a program is loaded, from docs/reference/program.md ("Coded constants").

Invariants: a section that is not exactly one coder's work is refused, whatever its bytes say; the loop is as long as
the declared length, which is bounded.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import Program
from contracts.npu.spec import NpuSpec
from edge_agent.runtime.npu.errors import ProgramRefused

MOST_BYTES = 256 << 20
_HEAD = struct.Struct("<II")
_LANES, _SLOTS, _RENEW = 128, 4096, 65536


def decoded(program: Program) -> Program:
    """The program with its constants in plain; raises ProgramRefused where the section is not a coder's work."""
    if program.coded is None:
        return program
    return program.with_constants(_constants(program.coded.tobytes()))


def decode_ns(program: Program, spec: NpuSpec) -> float:
    """Simulated nanoseconds that decoding took at load: one call of the host and its rate, a byte an element."""
    if not program.decoded:
        return 0.0
    return spec.host_call_us * 1000.0 + program.decoded / spec.host_elements_per_ns


def _constants(data: bytes) -> NDArray[np.uint8]:
    if len(data) < _HEAD.size + 512 + 4 * _LANES:
        raise _refused("are too short for their head")
    length, count = _HEAD.unpack_from(data)
    table = np.frombuffer(data, "<u2", 256, _HEAD.size).astype(np.uint32)
    state = np.frombuffer(data, "<u4", _LANES, _HEAD.size + 512).astype(np.uint64)
    body = _HEAD.size + 512 + 4 * _LANES
    if length > MOST_BYTES or length % _LANES or len(data) - body != 2 * count:
        raise _refused(f"declare {length} bytes from {count} words in {len(data)}")
    if int(table.sum()) != _SLOTS:
        raise _refused(f"have frequencies that sum to {int(table.sum())}")
    stream = np.frombuffer(data, "<u2", count, body).astype(np.uint64)
    return _run(length // _LANES, table, state, stream)


def _run(
    steps: int, table: NDArray[np.uint32], state: NDArray[np.uint64], stream: NDArray[np.uint64]
) -> NDArray[np.uint8]:
    byte_of_slot = np.concatenate([np.full(int(share), byte, np.uint8) for byte, share in enumerate(table)])
    first = np.concatenate(([0], np.cumsum(table)[:-1])).astype(np.uint64)
    width, offset = table.astype(np.uint64)[byte_of_slot], np.arange(_SLOTS, dtype=np.uint64) - first[byte_of_slot]
    result, read = bytearray(), 0
    for _ in range(steps):
        slot = (state % np.uint64(_SLOTS)).astype(np.intp)
        result += byte_of_slot[slot].tobytes()
        state = width[slot] * (state // np.uint64(_SLOTS)) + offset[slot]
        hungry = state < np.uint64(_RENEW)
        wanted = int(hungry.sum())
        if read + wanted > len(stream):
            raise _refused("end before their last byte")
        state[hungry] = state[hungry] * np.uint64(_RENEW) + stream[read : read + wanted]
        read += wanted
    if read != len(stream) or not (state == np.uint64(_RENEW)).all():
        raise _refused("do not end in the state that every coder begins with")
    return np.frombuffer(bytes(result), np.uint8)


def _refused(why: str) -> ProgramRefused:
    return ProgramRefused(f"constants that {why}", "section CODED", "fetch the file again or compile the model again")
