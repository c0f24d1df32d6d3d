"""Many DRF1 reports at once: which are certainly acceptable, and what their headers say.

`headers_of` checks a whole batch with a few array operations instead of parsing each report. It is sure of what it
accepts, never of what it does not: a report without a header here has to be given to `decode_report`, which accepts
it or says why not. The tests hold that nothing passes here that `decode_report` refuses.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from contracts.device import DeviceTags
from contracts.statistics.drf1 import MAC_BYTES, MAGIC, REPORT_BYTES, SATURATED, SCHEMA, DriftReport
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE

_HEADER = np.dtype(
    [
        ("magic", "S4"),
        ("schema", "u1"),
        ("flags", "u1"),
        ("sessions", "<u2"),
        ("pseudonym", "V16"),
        ("embedding", "V16"),
        ("day", "<u4"),
        ("frames", "<u4"),
        ("clipped", "<u4"),
        ("score", "<f4"),
        ("hard", "<u2"),
        ("reserved", "<u2"),
        ("tags", "V56"),
        ("mean", "<f2", DIMENSIONS),
        ("variance", "u1", DIMENSIONS),
        ("covariance", "<f2", SUBSPACE * (SUBSPACE + 1) // 2),
        ("histogram", "<u2", (HISTOGRAMS, BINS)),
        ("crc", "<u4"),
        ("mac", "V32"),
    ]
)
USUAL_MEAN, USUAL_SCORE, USUAL_VARIANCE_CODE = 8.0, 100.0, 192
"""What clipped frames give. Beyond it a report may still be sound, but `decode_report` shall say so."""

_UPPER = np.triu_indices(SUBSPACE)
_DIAGONAL = np.flatnonzero(_UPPER[0] == _UPPER[1])
_CHECKED = REPORT_BYTES - MAC_BYTES - 4
_WORDS = slice(24, 40), slice(60, 84), slice(84, 116)
assert _HEADER.itemsize == REPORT_BYTES, "the layout here is not the one of drf1.py"


@dataclass(frozen=True, slots=True)
class ReportHeader:
    """What a report is filed under. `pseudonym` has 16 bytes."""

    pseudonym: bytes
    day: int
    embedding_id: str
    cohort: str

    @classmethod
    def of(cls, report: DriftReport) -> ReportHeader:
        """The header of a report that was parsed."""
        return cls(bytes.fromhex(report.pseudonym), report.day, report.embedding_id, report.cohort)


def headers_of(bodies: Sequence[bytes]) -> list[ReportHeader | None]:
    """The headers of `bodies` in order; None where `decode_report` has to look closer."""
    found: list[ReportHeader | None] = [None] * len(bodies)
    right = [index for index, body in enumerate(bodies) if len(body) == REPORT_BYTES and body[:4] == MAGIC]
    if not right:
        return found
    rows = np.frombuffer(b"".join(bodies[index] for index in right), _HEADER)
    good = _sound(rows) & (rows["crc"] == [zlib.crc32(bodies[index][:_CHECKED]) for index in right])
    for index, fine in zip(right, good.tolist(), strict=True):
        if fine:
            found[index] = header_of(bodies[index])
    return found


def header_of(body: bytes) -> ReportHeader | None:
    """The header of an accepted report; None when its words are not plain ones."""
    words = _words(*(bytes(body[part]) for part in _WORDS))
    if words is None:
        return None
    return ReportHeader(bytes(body[8:24]), struct.unpack_from("<I", body, 40)[0], *words)


def _sound(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    frames = rows["frames"]
    finite = np.isfinite(rows["score"]) & np.isfinite(rows["mean"]).all(1) & np.isfinite(rows["covariance"]).all(1)
    moves = rows["variance"].any(1) | (frames == 1)
    adds_up = (rows["histogram"].sum(2, dtype=np.int64) == frames[:, None]).all(1)
    saturated = (rows["flags"] & SATURATED).astype(bool)
    usual = (np.abs(rows["score"]) <= USUAL_SCORE) & (np.abs(rows["mean"]) <= USUAL_MEAN).all(1)
    usual &= (rows["variance"] <= USUAL_VARIANCE_CODE).all(1) & (rows["covariance"][:, _DIAGONAL] >= 0).all(1)
    sound: NDArray[np.bool_] = (
        (rows["schema"] == SCHEMA)
        & (frames >= 1)
        & (rows["clipped"] <= frames)
        & finite
        & usual
        & moves
        & (adds_up | saturated)
    )
    return sound


@lru_cache(maxsize=4_096)
def _words(embedding: bytes, device_class: bytes, scenario: bytes) -> tuple[str, str] | None:
    """Embedding id and cohort, or None. A fleet uses few different ones."""
    try:
        plain = [part.rstrip(b"\0").decode("ascii") for part in (embedding, device_class, scenario)]
        return plain[0], DeviceTags(device_class=plain[1], scenario=plain[2]).cohort
    except ValueError:
        return None
