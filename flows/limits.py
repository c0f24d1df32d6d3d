"""Every limit of the learning part in one place: sizes, counts and time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LearningLimits:
    """Bounds that keep a laptop run small; a GPU run may pass its own instance."""

    max_clip_frames: int = 2_000
    max_frame_side: int = 4_096
    min_frame_side: int = 32
    max_corpus_files: int = 10_000
    max_pair_bytes: int = 1 << 30
    max_seed_bytes: int = 500_000
    max_supernet_bytes: int = 300_000
    max_blocks: int = 16
    max_channels: int = 256


LIMITS = LearningLimits()
