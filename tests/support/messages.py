"""Messages as a device would send them, for tests."""

from __future__ import annotations

import base64
import secrets
import time
from typing import Any

import numpy as np

from contracts.clock import day_of, hour_of
from contracts.device import DeviceTags
from contracts.statistics import DriftReport, encode_report
from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE

TAGS = DeviceTags(device_class="npu-4t", scenario="meeting")


def report_bytes(
    *, pseudonym: str | None = None, day: int | None = None, embedding_id: str = "e1", frames: int = 300
) -> bytes:
    """A valid DRF1 report, of today where no day is given."""
    histogram = np.zeros((HISTOGRAMS, BINS), np.int64)
    histogram[:, 3] = frames
    report = DriftReport(
        pseudonym=pseudonym or secrets.token_hex(16),
        embedding_id=embedding_id,
        day=day_of(time.time()) if day is None else day,
        frames=frames,
        sessions=3,
        clipped=0,
        score_mean=0.5,
        hard_segments=1,
        tags=TAGS,
        mean=np.zeros(DIMENSIONS, np.float32),
        variance=np.ones(DIMENSIONS, np.float32),
        projected_covariance=np.eye(SUBSPACE, dtype=np.float32),
        histogram=histogram,
    )
    return encode_report(report, b"a key of the device")


def segment_json(segment_id: str | None = None, **changes: Any) -> dict[str, Any]:
    """A valid SegmentUpload document."""
    frames, height, width, channels = 3, 6, 10, 16
    codes = b"\x44" * (frames * height * width * channels // 2)
    document: dict[str, Any] = {
        "segment_id": segment_id or secrets.token_hex(8),
        "embedding_id": "e1",
        "model_version": "m1",
        "pseudonym": secrets.token_hex(16),
        "hour": hour_of(time.time()),
        "tags": TAGS.model_dump(),
        "frames": frames,
        "height": height,
        "width": width,
        "channels": channels,
        "codes": base64.b64encode(codes).decode(),
        "score_mean": 1.5,
        "score_max": 2.5,
    }
    return document | changes
