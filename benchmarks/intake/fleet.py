"""A fleet for the bench: device `i` has a token and one report, both made from `i` alone, so no list travels.

Reports are 64 different ones (means, variances and covariances of a random device in four cohorts), each under its own
pseudonym and with a checksum that fits. The MAC is not checked by the platform and stays that of the template.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from base64 import urlsafe_b64encode
from functools import lru_cache

import numpy as np

from contracts.device import DeviceTags
from contracts.statistics import DriftReport, ObserverParameters, encode_report
from contracts.statistics.drf1 import MAC_BYTES
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE

EMBEDDING = "bench-telemetry"
COHORTS = (("npu-4t", "meeting"), ("npu-4t", "mobile"), ("npu-2t", "meeting"), ("npu-2t", "mobile"))
TEMPLATES, FRAMES = 64, 600
SEED = b"edgeloop bench telemetry"


@lru_cache(maxsize=8)
def templates(day: int) -> list[tuple[bytes, bytes, bytes]]:
    """For each template what is before the pseudonym, between it and the checksum, and behind the checksum."""
    made = []
    for index in range(TEMPLATES):
        data = encode_report(_report(index, day), SEED)
        made.append((data[:8], data[24 : -MAC_BYTES - 4], data[-MAC_BYTES:]))
    return made


def report(device: int, day: int) -> bytes:
    """The DRF1 report of a device."""
    start, middle, mac = templates(day)[device % TEMPLATES]
    checked = b"".join((start, pseudonym(device), middle))
    return b"".join((checked, struct.pack("<I", zlib.crc32(checked)), mac))


def pseudonym(device: int) -> bytes:
    """16 bytes, different for each device."""
    return hashlib.blake2b(device.to_bytes(8, "big"), digest_size=16, key=SEED).digest()


def token_id(device: int) -> str:
    """The public part of a device's token."""
    return f"{device:016x}"


def token_secret(device: int) -> str:
    """The secret part of a device's token."""
    return urlsafe_b64encode(hashlib.blake2b(device.to_bytes(8, "big"), digest_size=32, key=SEED).digest()).decode()


def token(device: int) -> str:
    """What a device sends as its bearer token."""
    return f"el_{token_id(device)}_{token_secret(device)}"


def _report(index: int, day: int) -> DriftReport:
    rng = np.random.default_rng(index)
    device_class, scenario = COHORTS[index % len(COHORTS)]
    spread = rng.normal(size=(SUBSPACE, SUBSPACE)) / np.sqrt(SUBSPACE)
    histogram = np.stack([rng.multinomial(FRAMES, np.full(BINS, 1 / BINS)) for _ in range(HISTOGRAMS)])
    return DriftReport(
        pseudonym="00" * 16,
        embedding_id=EMBEDDING,
        day=day,
        frames=FRAMES,
        sessions=3,
        clipped=int(rng.integers(0, 6)),
        score_mean=float(rng.normal(0.5, 0.1)),
        hard_segments=int(rng.integers(0, 3)),
        tags=DeviceTags(device_class=device_class, scenario=scenario),
        mean=rng.normal(0, 0.3, DIMENSIONS).astype(np.float32),
        variance=rng.uniform(0.5, 1.5, DIMENSIONS).astype(np.float32),
        projected_covariance=(spread @ spread.T).astype(np.float32),
        histogram=histogram,
    )


def observer() -> ObserverParameters:
    """Parameters of the fleet's embedding; only their shapes matter to the intake."""
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.normal(size=(DIMENSIONS, SUBSPACE)))[0].T.astype(np.float32)
    edges = np.tile(np.linspace(-1.5, 1.5, BINS - 1), (HISTOGRAMS, 1)).astype(np.float32)
    return ObserverParameters(
        embedding_id=EMBEDDING,
        mu0=np.zeros(DIMENSIONS, np.float32),
        sd0=np.ones(DIMENSIONS, np.float32),
        projection=rows,
        directions=rows[:HISTOGRAMS],
        edges=edges,
        score_w=np.zeros(DIMENSIONS, np.float32),
        score_b=0.0,
        tau=1.0,
    )
