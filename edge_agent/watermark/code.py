"""A mark of 80 bits in the last bits of bytes that carry it: batch, hour, check. Pure.

A secret key decides which bytes carry which bit, so without it the carriers look like any others. Every bit lies in
`COPIES` carriers and is read by majority; a CRC-16 tells a mark from chance. A carrier whose bit is right already is
not changed, so about half of the carriers move, each by one step. Bits are whitened by the key: nobody sees a pattern.
"""

from __future__ import annotations

import binascii
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BITS = 80
COPIES = 9
LEAST_AGREEMENT = 0.75
"""Share of carriers that must say what their majority says; chance gives 0.64 with nine copies."""
LEAST_KEY = 16
_PAYLOAD = struct.Struct("<II")
Bytes = NDArray[np.uint8]


class WatermarkError(ValueError):
    """The mark does not fit, or there is none under this key."""


@dataclass(frozen=True)
class Mark:
    """`batch` of devices and `hour` of the installation since 1970, both below 2^32."""

    batch: int
    hour: int

    def to_bits(self) -> Bytes:
        """80 bits: payload and CRC-16."""
        try:
            payload = _PAYLOAD.pack(self.batch, self.hour)
        except struct.error as error:
            raise WatermarkError(f"batch {self.batch}, hour {self.hour}: give numbers below 2^32") from error
        check = binascii.crc_hqx(payload, 0xFFFF).to_bytes(2, "little")
        return np.unpackbits(np.frombuffer(payload + check, np.uint8))


def read_key(path: Path) -> bytes:
    """Return the key in a file. Raises WatermarkError, without a word of what the file holds."""
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise WatermarkError(f"{path} holds no key in hexadecimal") from error
    if len(key) < LEAST_KEY:
        raise WatermarkError(f"{path} holds {len(key)} bytes; give {LEAST_KEY} or more")
    return key


@dataclass(frozen=True)
class Reading:
    """A mark that was found, and the share of its carriers that agreed."""

    mark: Mark
    agreement: float


def write(carriers: Bytes, mark: Mark, key: bytes) -> Bytes:
    """Return carriers that hold the mark. Raises WatermarkError when there are too few."""
    places, mask = _places(len(carriers), key)
    wanted = (mark.to_bits() ^ mask)[:, None]
    marked = carriers.copy()
    marked[places] = (marked[places] & 0xFE) | wanted
    return marked


def read(carriers: Bytes, key: bytes) -> Reading:
    """Find a mark. Raises WatermarkError when there is none under this key."""
    places, mask = _places(len(carriers), key)
    votes = carriers[places] & 1
    share = votes.mean(axis=1)
    agreement = float(np.maximum(share, 1 - share).mean())
    raw = np.packbits((share > 0.5).astype(np.uint8) ^ mask).tobytes()
    payload, check = raw[: _PAYLOAD.size], raw[_PAYLOAD.size :]
    if agreement < LEAST_AGREEMENT or binascii.crc_hqx(payload, 0xFFFF).to_bytes(2, "little") != check:
        raise WatermarkError(f"no mark under this key ({agreement:.0%} of the carriers agree); try the other keys")
    return Reading(Mark(*_PAYLOAD.unpack(payload)), agreement)


def _places(count: int, key: bytes) -> tuple[NDArray[np.int64], Bytes]:
    """Return the carriers of each bit [80, copies] and the bits that whiten the mark."""
    if len(key) < LEAST_KEY:
        raise WatermarkError(f"a key of {len(key)} bytes; give {LEAST_KEY} or more")
    if count < BITS * COPIES:
        raise WatermarkError(f"{count} carriers, a mark needs {BITS * COPIES}; the network is too small to be marked")
    stream = hashlib.shake_256(b"edgeloop watermark 1" + key).digest(8 * count + BITS // 8)
    order = np.argsort(np.frombuffer(stream[: 8 * count], "<u8"), kind="stable")
    mask = np.unpackbits(np.frombuffer(stream[8 * count :], np.uint8))
    return order[: BITS * COPIES].reshape(BITS, COPIES), mask
