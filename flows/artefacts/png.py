"""RGB pictures as PNG files, by zlib alone. Source: W3C, "Portable Network Graphics (PNG) Specification"."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def to_png(image: NDArray[np.uint8]) -> bytes:
    """[h, w, 3] bytes as a PNG file; the same picture gives the same file."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        raise ValueError(f"a picture is [h, w, 3] of uint8, got {image.shape} of {image.dtype}")
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = image.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
    return _SIGNATURE + _chunk(b"IHDR", header) + body + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
