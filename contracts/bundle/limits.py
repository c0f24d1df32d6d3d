"""Bounds of a bundle, checked before anything is read into memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BundleLimits:
    """Sizes are bytes. The release gate has a stricter size budget of its own."""

    file_bytes: int = 64 * 1024 * 1024
    pieces: int = 256
    manifest_bytes: int = 256 * 1024
    name_characters: int = 100


LIMITS = BundleLimits()
