"""Hashes of the parts of a file, small enough for signed metadata: what lets a download go on where it stopped.

A device keeps a part as soon as its hash fits, so a torn, tampered or interrupted transfer costs one part and never
the whole. In the metadata of a target (`custom`): `chunk_bytes`, and `chunks`, the SHA-256 of each part in
hexadecimal one after another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_BYTES = 32 * 1024
MOST_CHUNKS = 64
_HASHES = re.compile(r"^([0-9a-f]{64})+$")


@dataclass(frozen=True)
class Chunks:
    """Parts of `size` bytes (the last may be shorter) and their SHA-256."""

    size: int
    hashes: tuple[str, ...]

    @staticmethod
    def of(data: bytes | memoryview) -> Chunks:
        """Cut a file into at most 64 parts of at least 32 KiB."""
        size = max(LEAST_BYTES, -(-len(data) // MOST_CHUNKS))
        starts = range(0, len(data), size)
        return Chunks(size, tuple(hashlib.sha256(data[start : start + size]).hexdigest() for start in starts))

    @staticmethod
    def parse(custom: object, length: int) -> Chunks | None:
        """Read the metadata of a target of `length` bytes; None when they say nothing usable of parts."""
        if not isinstance(custom, Mapping):
            return None
        size, text = custom.get("chunk_bytes"), custom.get("chunks")
        if type(size) is not int or not isinstance(text, str) or not _HASHES.match(text):
            return None
        hashes = tuple(text[start : start + 64] for start in range(0, len(text), 64))
        if not LEAST_BYTES <= size <= length + LEAST_BYTES or len(hashes) != -(-length // size):
            return None
        return Chunks(size, hashes) if len(hashes) <= MOST_CHUNKS else None

    def custom(self) -> dict[str, str | int]:
        """What the metadata of the target carry."""
        return {"chunk_bytes": self.size, "chunks": "".join(self.hashes)}

    def fits(self, index: int, data: bytes | memoryview) -> bool:
        """Whether these are the bytes of part `index`."""
        return index < len(self.hashes) and hashlib.sha256(data).hexdigest() == self.hashes[index]
