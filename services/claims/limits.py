"""Every bound of the claims service: texts, rules, evidence and how long it is kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextLimits:
    """Bounds of a text that is linted and of a rule file."""

    text_bytes: int = 1 << 20
    rules_bytes: int = 256 << 10
    findings: int = 1_000


@dataclass(frozen=True)
class EvidenceLimits:
    """Sizes in bytes, counts, and the years that evidence is kept (the articles ask for three)."""

    keep_years: int = 3
    manifest_bytes: int = 256 << 10
    logs: int = 16
    log_bytes: int = 64 << 20
    upload_bytes: int = 256 << 20
    entries: int = 500
    archive_bytes: int = 64 << 30
    archive_members: int = 200_000
    block_bytes: int = 1 << 20


TEXTS = TextLimits()
EVIDENCE = EvidenceLimits()

BODY_LIMITS = {"/v1/evidence": EVIDENCE.upload_bytes}
"""Path prefix -> bytes of a whole request body; the middleware answers 413 beyond."""
