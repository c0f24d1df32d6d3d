"""Bounds of the lab protocol, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LabLimits:
    """Both sides refuse what is larger."""

    header_bytes: int = 1024 * 1024
    blob_bytes: int = 256 * 1024 * 1024
    message_bytes: int = 512 * 1024 * 1024
    blobs: int = 64
    batch_bytes: int = 8 * 1024 * 1024
    """Frames that the client sends in one request."""

    start_s: float = 60.0
    answer_s: float = 120.0
    stop_s: float = 5.0
    last_words_bytes: int = 4096
    """How much of the process's error output a LabDied carries."""


LIMITS = LabLimits()
