"""Hard-example features: 4-bit codes of at most 16 channels at 1/32 resolution, and their summary vector.

The quality net gives unsigned bytes; a code is the upper four bits of a byte. Codes are packed two to a
byte, the earlier value in the low half, and entropy-coded (zlib) where that makes them smaller; the length
tells which, because a reader knows the shape. Nothing finer than a code ever leaves a device, and both ends
compute the summary vector from codes, so they agree to the last bit.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CHANNELS = 16
VECTOR_LENGTH = 2 * CHANNELS
MAX_CODE = 15

Codes = NDArray[np.uint8]


def quantize_codes(features: NDArray[np.uint8]) -> Codes:
    """Cut unsigned bytes of any shape down to codes 0..15 of the same shape."""
    return np.right_shift(features, 4).astype(np.uint8)


def pack_codes(codes: Codes) -> str:
    """Pack codes of shape (frames, rows, columns, channels), entropy-coded if that helps, into base64 text.

    Raises ValueError when a value does not fit four bits.
    """
    flat = np.ascontiguousarray(codes, dtype=np.uint8).reshape(-1)
    if flat.size and int(flat.max()) > MAX_CODE:
        raise ValueError(f"codes must be 0..{MAX_CODE}, got {int(flat.max())}; call quantize_codes first")
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    packed = (flat[0::2] | (flat[1::2] << 4)).tobytes()
    dense = zlib.compress(packed, 9)
    return base64.b64encode(dense if len(dense) < len(packed) else packed).decode("ascii")


def unpack_codes(text: str, shape: tuple[int, int, int, int]) -> Codes:
    """Undo `pack_codes` for a known shape (frames, rows, columns, channels).

    Raises ValueError when the text is not base64 or does not hold exactly that many values.
    """
    count = int(np.prod(shape))
    data = unpack_bytes(text, (count + 1) // 2)
    packed = np.frombuffer(data, dtype=np.uint8)
    flat = np.empty(packed.size * 2, dtype=np.uint8)
    flat[0::2] = packed & MAX_CODE
    flat[1::2] = packed >> 4
    return flat[:count].reshape(shape)


def unpack_bytes(text: str, size: int) -> bytes:
    """Return the `size` packed bytes behind base64 text, entropy-coded or not; never inflates more than that.

    Raises ValueError naming the two lengths.
    """
    data = base64.b64decode(text, validate=True)
    if len(data) == size:
        return data
    found = len(data)
    if found < size:
        inflater = zlib.decompressobj()
        try:
            plain = inflater.decompress(data, size + 1)
        except zlib.error:
            plain = b""
        if len(plain) == size and inflater.eof and not inflater.unused_data:
            return plain
        found = max(found, len(plain))
    raise ValueError(f"expected {size} packed bytes or their zlib form, got {found} bytes")


def segment_vector(codes: Sequence[Codes] | Codes) -> NDArray[np.float32]:
    """Summarise a segment: mean, then standard deviation of each of 16 channels, codes scaled to 0..1.

    `codes` is one array (frames, rows, columns, 16) or a list of (rows, columns, 16). Returns float32[32].
    Fewer channels than 16 leave the missing places zero.
    """
    maps = [np.asarray(codes[index]) for index in range(len(codes))]
    channels = maps[0].shape[-1]
    pixels = np.concatenate([m.reshape(-1, channels) for m in maps]).astype(np.float64) / MAX_CODE
    vector = np.zeros(VECTOR_LENGTH, dtype=np.float32)
    vector[:channels] = pixels.mean(axis=0)
    vector[CHANNELS : CHANNELS + channels] = pixels.std(axis=0)
    return vector
