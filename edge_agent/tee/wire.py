"""The protocol between agent and trusted environment: one question, one answer, everything bounded.

A message over a Unix socket, little endian: magic "TEE1", word u8 (the question, or 0 and the reason of a no), number
of parts u8, their lengths u32 each, then the parts. The answer to OPEN carries no bytes but the descriptor of a
memory file, sealed against writing; where a system has no such files, the bytes are its one part.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from enum import IntEnum

from contracts.bundle.sealed import MOST_BYTES

MAGIC = b"TEE1"
MOST_PARTS = 4
DONE = 0
_HEAD = struct.Struct("<4sBB")
_FDS = 1


class Word(IntEnum):
    """The questions."""

    PUBLIC = 1
    ADMIT = 2
    OPEN = 3
    FLOOR = 4
    SIGN = 5


class ProtocolError(Exception):
    """The other side does not speak this protocol, or has gone."""


def send(to: socket.socket, word: int, parts: Sequence[bytes], descriptor: int = -1) -> None:
    """Send a message. Raises OSError."""
    lengths = struct.pack(f"<{len(parts)}I", *map(len, parts))
    head = _HEAD.pack(MAGIC, word, len(parts)) + lengths
    if descriptor < 0:
        to.sendall(head)
    else:
        socket.send_fds(to, [head], [descriptor])  # a message this short is sent whole
    for part in parts:
        to.sendall(part)


def receive(source: socket.socket) -> tuple[int, list[bytes], int]:
    """Return (word, parts, descriptor or -1). Raises ProtocolError, OSError."""
    data, found, _, _ = socket.recv_fds(source, _HEAD.size, _FDS)
    descriptor = found[0] if found else -1
    try:
        head = data + _exactly(source, _HEAD.size - len(data)) if data else b""
        if not head:
            raise ProtocolError("the other side has gone")
        magic, word, count = _HEAD.unpack(head)
        if magic != MAGIC or count > MOST_PARTS:
            raise ProtocolError("not a message")
        lengths = struct.unpack(f"<{count}I", _exactly(source, 4 * count))
        if any(length > MOST_BYTES for length in lengths):
            raise ProtocolError(f"a part of more than {MOST_BYTES} bytes")
        return word, [_exactly(source, length) for length in lengths], descriptor
    except BaseException:
        if descriptor >= 0:
            os.close(descriptor)
        raise


def _exactly(source: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = source.recv_into(view)
        if not got:
            raise ProtocolError("the other side broke off")
        view = view[got:]
    return bytes(data)
