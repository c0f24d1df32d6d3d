"""Sizes that both ends enforce before they parse anything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WireLimits:
    """Upper bounds of messages, in bytes or counts."""

    report_bytes: int = 2_048
    segment_bytes: int = 50_000
    segment_channels: int = 16
    segment_frames: int = 8
    segment_side: int = 64
    feedback_items: int = 50
    feedback_bytes: int = 65_536
    enrolment_bytes: int = 8_192
    training_vectors: int = 5_000
    page: int = 200


LIMITS = WireLimits()
