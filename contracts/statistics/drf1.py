"""DRF1: one device's drift statistics of one day in at most 2,048 bytes.

Layout, little endian (docs/reference/drf1.md): a 116-byte header, mean 256 x float16, variance 256 x uint8 on
a log scale, upper triangle of the 28 x 28 projected covariance as float16, projected mean 28 x float16 is
left out because the projection is linear (the reader projects the mean), histograms 8 x 16 x uint16
(saturating), CRC-32, and a 32-byte HMAC-SHA-256 over everything before it.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.device import DeviceTags
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE, Moments

MAGIC = b"DRF1"
SCHEMA = 1
MAX_BYTES = 2_048
LOG_STEP = 1 / 12
LOG_ZERO = 128
MAC_BYTES = 32

_HEADER = struct.Struct("<4sBBH16s16sIIIfHH24s32s")
_TRIANGLE = SUBSPACE * (SUBSPACE + 1) // 2
_BODY = 2 * DIMENSIONS + DIMENSIONS + 2 * _TRIANGLE + 2 * HISTOGRAMS * BINS
_UPPER = np.triu_indices(SUBSPACE)
REPORT_BYTES = _HEADER.size + _BODY + 4 + MAC_BYTES
SATURATED = 1
LARGEST_MEAN = 8.01
"""Reference units are clipped to +/- 8; the rest is rounding."""
LARGEST_VARIANCE = 8.0**2 * 1.03
LARGEST_SCORE = 1_000.0
"""Decibels; no quality net scores beyond."""

_VARIANCES: NDArray[np.float32] = np.exp2((np.arange(256) - LOG_ZERO) * LOG_STEP).astype(np.float32)
_VARIANCES[0] = 0.0


class ReportError(ValueError):
    """The report is not acceptable; `reason` is a short slug that statistics count by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True)
class DriftReport:
    """A device-day. `pseudonym` is 32 hex digits that change daily, `tags.region` and network are not carried."""

    pseudonym: str
    embedding_id: str
    day: int
    frames: int
    sessions: int
    clipped: int
    score_mean: float
    hard_segments: int
    tags: DeviceTags
    mean: NDArray[np.float32]
    variance: NDArray[np.float32]
    projected_covariance: NDArray[np.float32]
    histogram: NDArray[np.int64]
    saturated: bool = False

    @property
    def cohort(self) -> str:
        """The cohort that this device-day counts for."""
        return self.tags.cohort


def report_from(
    moments: Moments,
    *,
    pseudonym: str,
    embedding_id: str,
    day: int,
    sessions: int,
    score_mean: float,
    hard_segments: int,
    tags: DeviceTags,
) -> DriftReport:
    """Make the report of a day from accumulated moments."""
    return DriftReport(
        pseudonym=pseudonym,
        embedding_id=embedding_id,
        day=day,
        frames=moments.count,
        sessions=sessions,
        clipped=moments.clipped,
        score_mean=score_mean,
        hard_segments=hard_segments,
        tags=tags,
        mean=moments.mean.astype(np.float32),
        variance=moments.variance.astype(np.float32),
        projected_covariance=moments.projected_covariance.astype(np.float32),
        histogram=moments.histogram,
    )


def encode_report(report: DriftReport, key: bytes) -> bytes:
    """Write a report, the same bytes each time. Variances keep 6 % (a log step of 1/12 octave) and are rounded up or
    down by chance, so that the mean over devices keeps far more; histogram counts saturate at 65,535.
    """
    counts = np.minimum(report.histogram, 65_535).astype("<u2")
    flags = SATURATED if report.saturated or bool(np.any(report.histogram > 65_535)) else 0
    header = _HEADER.pack(
        MAGIC,
        SCHEMA,
        flags,
        min(report.sessions, 65_535),
        bytes.fromhex(report.pseudonym),
        _text(report.embedding_id, 16),
        report.day,
        report.frames,
        report.clipped,
        report.score_mean,
        min(report.hard_segments, 65_535),
        0,
        _text(report.tags.device_class, 24),
        _text(report.tags.scenario, 32),
    )
    upper = report.projected_covariance[_UPPER]
    limit = np.finfo(np.float16).max
    body = b"".join(
        (
            np.clip(report.mean, -limit, limit).astype("<f2").tobytes(),
            _encode_variance(report.variance, _dither(report)).tobytes(),
            np.clip(upper, -limit, limit).astype("<f2").tobytes(),
            counts.tobytes(),
        )
    )
    checked = header + body
    checked += struct.pack("<I", zlib.crc32(checked))
    return checked + hmac.new(key, checked, hashlib.sha256).digest()


def decode_report(data: bytes, key: bytes | None = None) -> DriftReport:
    """Read and check a report; with `key` its MAC too.

    Raises ReportError with reason `size`, `foreign`, `checksum`, `mac`, `tags`, `empty`, `not_finite`,
    `range`, `zero_variance` or `counts`.
    """
    if len(data) != REPORT_BYTES:
        raise ReportError("size", f"a DRF1 report has {REPORT_BYTES} bytes, got {len(data)}")
    if data[:4] != MAGIC or data[4] != SCHEMA:
        raise ReportError("foreign", "not a DRF1 report of schema 1")
    checked, mac = data[:-MAC_BYTES], data[-MAC_BYTES:]
    if zlib.crc32(checked[:-4]) != struct.unpack("<I", checked[-4:])[0]:
        raise ReportError("checksum", "CRC-32 does not match")
    if key is not None and not hmac.compare_digest(hmac.new(key, checked, hashlib.sha256).digest(), mac):
        raise ReportError("mac", "message authentication code does not match")
    return _checked(_parse(checked))


def _parse(data: bytes) -> DriftReport:
    fields = _HEADER.unpack_from(data)
    offset = _HEADER.size
    mean = np.frombuffer(data, "<f2", DIMENSIONS, offset).astype(np.float32)
    offset += 2 * DIMENSIONS
    variance = _decode_variance(np.frombuffer(data, np.uint8, DIMENSIONS, offset))
    offset += DIMENSIONS
    covariance = np.zeros((SUBSPACE, SUBSPACE), dtype=np.float32)
    covariance[_UPPER] = covariance.T[_UPPER] = np.frombuffer(data, "<f2", _TRIANGLE, offset)
    offset += 2 * _TRIANGLE
    counts = np.frombuffer(data, "<u2", HISTOGRAMS * BINS, offset).astype(np.int64).reshape(HISTOGRAMS, BINS)
    try:
        tags = DeviceTags(device_class=_untext(fields[12]), scenario=_untext(fields[13]))
        embedding_id = _untext(fields[5])
    except ValueError as error:
        raise ReportError("tags", "device class, scenario or embedding id is not a short plain word") from error
    return DriftReport(
        pseudonym=fields[4].hex(),
        embedding_id=embedding_id,
        day=fields[6],
        frames=fields[7],
        sessions=fields[3],
        clipped=fields[8],
        score_mean=fields[9],
        hard_segments=fields[10],
        tags=tags,
        mean=mean,
        variance=variance,
        projected_covariance=covariance,
        histogram=counts,
        saturated=bool(fields[2] & SATURATED),
    )


def _checked(report: DriftReport) -> DriftReport:
    if report.frames < 1:
        raise ReportError("empty", "a report needs at least one frame")
    numbers = (report.mean, report.projected_covariance, np.array([report.score_mean]))
    if not all(bool(np.all(np.isfinite(values))) for values in numbers):
        raise ReportError("not_finite", "mean, covariance and score must be finite")
    if _out_of_range(report):
        raise ReportError("range", "mean, variance or score is larger than clipped frames can have")
    if not np.any(report.variance > 0) and report.frames > 1:
        raise ReportError("zero_variance", "every dimension has variance zero: the embedding stands still")
    sums = report.histogram.sum(axis=1)
    if report.clipped > report.frames or (not report.saturated and bool(np.any(sums != report.frames))):
        raise ReportError("counts", "histogram or clip counts do not add up to the frames")
    return report


def _out_of_range(report: DriftReport) -> bool:
    """A single such device could carry a whole cohort away."""
    return bool(
        np.abs(report.mean).max() > LARGEST_MEAN
        or report.variance.max() > LARGEST_VARIANCE
        or np.diag(report.projected_covariance).min() < 0
        or abs(report.score_mean) > LARGEST_SCORE
    )


def _encode_variance(variance: NDArray[np.float32], dither: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Code v > 0 as 1..255 on a log2 scale around 1; 0 stands for zero.

    `dither` (each in 0..1) chooses between the codes below and above so that the expected variance is v: rounded to
    the nearest, a fleet of devices that are alike would be wrong by 3 % together.
    """
    place = np.log2(np.maximum(variance.astype(np.float64), 1e-12)) / LOG_STEP + LOG_ZERO
    below = np.floor(place)
    share = (np.exp2((place - below) * LOG_STEP) - 1.0) / (2.0**LOG_STEP - 1.0)
    code = np.clip(below + (dither < share), 1, 255)
    return np.where(variance > 0, code, 0).astype(np.uint8)


def _dither(report: DriftReport) -> NDArray[np.float64]:
    """A number in 0..1 for each dimension, from the pseudonym and the day: a report sent again has the same bytes."""
    seed = bytes.fromhex(report.pseudonym) + struct.pack("<I", report.day)
    return np.frombuffer(hashlib.shake_256(seed).digest(2 * DIMENSIONS), "<u2") / 65_536.0


def _decode_variance(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _VARIANCES[codes]


def _text(value: str, size: int) -> bytes:
    raw = value.encode("ascii")
    if len(raw) > size:
        raise ReportError("tags", f"{value!r} is longer than {size} characters")
    return raw


def _untext(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("ascii")
