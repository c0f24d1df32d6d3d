"""From one bundle to the next: the difference of their bytes, compressed.

A retrained network has the same pieces as the one before and most INT8 weights a few steps away, so the byte-wise
difference is mostly small numbers and compresses to a fraction, where the weights themselves hardly compress at all.
Every piece travels as the difference to the piece of the same name when both have one length and that is smaller,
else whole. The whole is one Zstandard frame, so weights that lie in a bundle several times travel once.

    ELD1, little endian: magic "ELD1", SHA-384 of the base, SHA-384 of the result, length of the result u64, number of
    segments u32, then the frame: for each segment mode u8 (0 bytes, 1 difference), length u32, offset in the base u32;
    then the payload of all segments one after another.

Invariants: a delta is never trusted, only its result is, after its SHA-384 was found right; memory and time are
bounded by the length that the caller allows.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import zstandard
from numpy.typing import NDArray

from contracts.bundle.limits import LIMITS

MAGIC = b"ELD1"
LEVEL = 19
MOST_SEGMENTS = 2 * LIMITS.pieces + 4
WHOLE, DIFFERENCE = 0, 1
_HEAD = struct.Struct("<4s48s48sQI")
_SEGMENT = struct.Struct("<BII")


class DeltaError(ValueError):
    """A delta cannot be applied: another base, damaged, or not a delta. Fetch the whole bundle."""


@dataclass(frozen=True)
class Segment:
    """`length` bytes of the result: as they are, or as the difference to the base from `offset` on."""

    mode: int
    length: int
    offset: int


def delta_path(result: str, base: str) -> str:
    """Path of a delta in the update repository, from the digests of both bundles."""
    return f"deltas/{result[:32]}-{base[:32]}.eld"


def make_delta(base: bytes, result: bytes) -> bytes:
    """Return the delta from one bundle file to another. Raises zipfile.BadZipFile for files that are no bundles."""
    if max(len(base), len(result)) > LIMITS.file_bytes:
        raise DeltaError(f"a bundle of {max(len(base), len(result))} bytes, at most {LIMITS.file_bytes} are allowed")
    segments = _segments(base, result)
    table = b"".join(_SEGMENT.pack(part.mode, part.length, part.offset) for part in segments)
    payload = b"".join(_payload(base, result, segments))
    frame = _compressor(len(result)).compress(table + payload)
    head = _HEAD.pack(MAGIC, _sha(base), _sha(result), len(result), len(segments))
    return head + frame


def apply_delta(base: bytes | memoryview, delta: bytes, most: int = LIMITS.file_bytes) -> bytes:
    """Return the result, whose SHA-384 is the one that the delta names. Raises DeltaError."""
    if len(delta) < _HEAD.size:
        raise DeltaError("shorter than its head")
    magic, before, after, length, count = _HEAD.unpack_from(delta)
    if magic != MAGIC:
        raise DeltaError(f"starts with {magic!r}, not {MAGIC!r}")
    if length > most or count > MOST_SEGMENTS:
        raise DeltaError(f"{length} bytes in {count} segments, allowed are {most} in {MOST_SEGMENTS}")
    if _sha(base) != before:
        raise DeltaError("made for another base")
    body = _decompressed(delta[_HEAD.size :], count * _SEGMENT.size + length)
    result = _joined(base, body, count, length)
    if _sha(result) != after:
        raise DeltaError("its result has not the SHA-384 that it names")
    return result


def _joined(base: bytes | memoryview, body: bytes, count: int, length: int) -> bytes:
    table = [Segment(*_SEGMENT.unpack_from(body, index * _SEGMENT.size)) for index in range(count)]
    result = np.frombuffer(body, np.uint8)[count * _SEGMENT.size :].copy()
    if sum(part.length for part in table) != length:
        raise DeltaError("its segments do not make up the result")
    whole, at = np.frombuffer(base, np.uint8), 0
    for part in table:
        if part.mode == DIFFERENCE:
            if part.offset + part.length > len(whole):
                raise DeltaError("a segment reaches beyond the base")
            result[at : at + part.length] += whole[part.offset : part.offset + part.length]
        elif part.mode != WHOLE:
            raise DeltaError(f"unknown mode {part.mode}")
        at += part.length
    return result.tobytes()


def _decompressed(frame: bytes, length: int) -> bytes:
    """Return exactly `length` bytes, never holding more."""
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(BytesIO(frame))
        body = reader.read(length + 1)
    except zstandard.ZstdError as error:
        raise DeltaError(f"not readable ({error})") from error
    if len(body) != length:
        raise DeltaError(f"holds {'more' if len(body) > length else 'less'} than it says")
    return bytes(body)


def _segments(base: bytes, result: bytes) -> list[Segment]:
    """Cut the result into pieces, what lies between them, and what follows."""
    known = {name: (start, length) for name, start, length in _pieces(base)}
    parts: list[Segment] = []
    at = 0
    for name, start, length in _pieces(result):
        if start > at:
            parts.append(Segment(WHOLE, start - at, 0))
        parts.append(_best(base, result, known.get(name), start, length))
        at = start + length
    return [*parts, Segment(WHOLE, len(result) - at, 0)] if at < len(result) else parts


def _best(base: bytes, result: bytes, known: tuple[int, int] | None, start: int, length: int) -> Segment:
    if known is None or known[1] != length or not length:
        return Segment(WHOLE, length, 0)
    quick = zstandard.ZstdCompressor(level=3)
    whole = len(quick.compress(result[start : start + length]))
    change = len(quick.compress(_difference(base, result, known[0], start, length).tobytes()))
    return Segment(DIFFERENCE, length, known[0]) if change < whole else Segment(WHOLE, length, 0)


def _payload(base: bytes, result: bytes, segments: list[Segment]) -> list[bytes]:
    found, at = [], 0
    for part in segments:
        if part.mode == DIFFERENCE:
            found.append(_difference(base, result, part.offset, at, part.length).tobytes())
        else:
            found.append(result[at : at + part.length])
        at += part.length
    return found


def _difference(base: bytes, result: bytes, offset: int, start: int, length: int) -> NDArray[np.uint8]:
    ours = np.frombuffer(result, np.uint8, length, start)
    theirs = np.frombuffer(base, np.uint8, length, offset)
    return ours - theirs


def _pieces(bundle: bytes) -> list[tuple[str, int, int]]:
    """(name, first byte, length) of every entry, in the order of the file."""
    with zipfile.ZipFile(BytesIO(bundle)) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    found = []
    for entry in entries:
        name_length, extra_length = struct.unpack_from("<HH", bundle, entry.header_offset + 26)
        found.append((entry.filename, entry.header_offset + 30 + name_length + extra_length, entry.file_size))
    return found


def _compressor(length: int) -> zstandard.ZstdCompressor:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=length, enable_ldm=True, write_checksum=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


def _sha(data: bytes | memoryview) -> bytes:
    return hashlib.sha384(data).digest()
