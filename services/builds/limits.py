"""Every bound of the builds service: uploads, work, and the gate's thresholds. Nothing else holds a number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UploadLimits:
    """Sizes in bytes and counts of what a client may send."""

    model_bytes: int = 16 << 20
    quality_bytes: int = 16 << 20
    observer_bytes: int = 4 << 20
    meta_bytes: int = 64 << 10
    evaluation_bytes: int = 192 << 20
    evaluation_frames: int = 600
    evaluation_side: int = 1_440
    evaluation_sets: int = 5_000
    idempotency_key: int = 128


@dataclass(frozen=True)
class WorkLimits:
    """Time-outs in real seconds; a lease is renewed `renewals` times in its length."""

    renewals: int = 4
    attempts: int = 3
    compile_s: int = 600
    gate_s: int = 1_200
    sweep_s: int = 10
    sweep_rows: int = 50
    lab_batch_bytes: int = 32 << 20
    oracle_frames: int = 4
    synthetic_frames: int = 4


@dataclass(frozen=True)
class GateLimits:
    """Thresholds of the gate. Shares are relative to production: 0.05 is five percent more."""

    latency_p99_share: float = 0.05
    ddr_share: float = 0.10
    size_bytes: int = 2_000_000
    normal_drop_db: float = 0.05
    hard_drop_db: float = 0.0
    flicker_share: float = 0.05
    quantisation_drop_db: float = 0.15
    below_nearest_db: float = 0.10
    decode_ms: float = 8.0
    oracle_lsb: int = 1
    oracle_share: float = 0.001
    tie_db: float = 1e-6
    tie_share: float = 1e-9


@dataclass(frozen=True)
class ReportLimits:
    """What a report lists, the largest first; `steps` along the timeline within which spans are joined."""

    version: int = 1
    kernels: int = 400
    ranges: int = 400
    lanes: int = 80
    steps: int = 400


UPLOADS = UploadLimits()
WORK = WorkLimits()
REPORTS = ReportLimits()
GATE = GateLimits()

BODY_LIMITS = {
    "/v1/builds": UPLOADS.model_bytes + UPLOADS.quality_bytes + UPLOADS.observer_bytes + UPLOADS.meta_bytes,
    "/v1/evaluation-sets": UPLOADS.evaluation_bytes,
}
"""Path prefix -> bytes of a whole request body; the middleware answers 413 beyond."""
