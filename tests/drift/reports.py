"""DRF1 reports of a small fleet whose answer is known, made cheaply: means are drawn, not accumulated."""

from __future__ import annotations

import hashlib

import numpy as np

from contracts.device import DeviceTags
from contracts.statistics import DriftReport, ObserverParameters, encode_report
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE

_ORTHONORMAL = np.linalg.qr(np.random.default_rng(1).normal(size=(DIMENSIONS, SUBSPACE)))[0].T


def observer(embedding_id: str = "e1") -> ObserverParameters:
    """An observer with an orthonormal projection."""
    edges = np.tile(np.linspace(-1.5, 1.5, BINS - 1), (HISTOGRAMS, 1))
    return ObserverParameters(
        embedding_id=embedding_id,
        mu0=np.zeros(DIMENSIONS, np.float32),
        sd0=np.ones(DIMENSIONS, np.float32),
        projection=_ORTHONORMAL.astype(np.float32),
        directions=_ORTHONORMAL[:HISTOGRAMS].astype(np.float32),
        edges=edges.astype(np.float32),
        score_w=np.zeros(DIMENSIONS, np.float32),
        score_b=0.0,
        tau=1.0,
    )


def fleet_day(
    cohort: str, day: int, devices: int, shift: float = 0.0, embedding_id: str = "e1", frames: int = 400
) -> list[bytes]:
    """Reports of `devices` devices on one day; `shift` moves each of the 28 coordinates."""
    seed = int.from_bytes(hashlib.sha256(f"{cohort} {day} {embedding_id}".encode()).digest()[:8])
    rng = np.random.default_rng(seed)
    means = rng.normal(scale=np.sqrt(0.5), size=(devices, SUBSPACE)) + shift
    return [one_report(cohort, day, mean, rng, embedding_id, frames) for mean in means]


def one_report(
    cohort: str,
    day: int,
    projected: np.ndarray,
    rng: np.random.Generator,
    embedding_id: str = "e1",
    frames: int = 400,
    saturated: bool = False,
) -> bytes:
    """The report of one device whose projected mean is given."""
    device_class, scenario = cohort.split("/")
    edges = np.linspace(-1.5, 1.5, BINS - 1)
    seen = rng.normal(scale=np.sqrt(0.5), size=(HISTOGRAMS, frames)) + projected[:HISTOGRAMS, None]
    histogram = np.stack([np.bincount((row[:, None] > edges).sum(axis=1), minlength=BINS) for row in seen])
    report = DriftReport(
        pseudonym=rng.bytes(16).hex(),
        embedding_id=embedding_id,
        day=day,
        frames=frames,
        sessions=3,
        clipped=0,
        score_mean=0.5,
        hard_segments=0,
        tags=DeviceTags(device_class=device_class, scenario=scenario),
        mean=(_ORTHONORMAL.T @ projected).astype(np.float32),
        variance=np.full(DIMENSIONS, 0.5, np.float32),
        projected_covariance=(0.5 * np.eye(SUBSPACE)).astype(np.float32),
        histogram=histogram,
        saturated=saturated,
    )
    return encode_report(report, b"device key")
