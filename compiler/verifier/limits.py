"""Limits of the verifier: a hostile program costs bounded time and memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VerifierLimits:
    """Extents of one region, findings of one profile, rows followed in one stream, unread runs of rows."""

    extent: int = 1 << 16
    channels: int = 1 << 26
    block: int = 16
    findings: int = 100
    rows: int = 16_000_000
    unread: int = 100_000


LIMITS = VerifierLimits()
