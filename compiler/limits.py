"""Bounds on what the compiler accepts; checked before memory is spent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompilerLimits:
    """Counts, extents in elements, sizes in bytes. ``bundle_bytes``: what a bundle has to stay under to pass the gate;
    only the little kernels give way for it. ``decode_ms``: what decoding the constants of one program may add to a load
    where the compiler chooses by itself, a sixteenth of the time between two frames at 30 a second.
    """

    model_bytes: int = 64 * 1024 * 1024
    nodes: int = 20_000
    extent: int = 16_384
    channels: int = 4_096
    tensor_extent: int = 65_535
    rank: int = 8
    folded_elements: int = 16 * 1024 * 1024
    kernel: int = 15
    stride: int = 255
    profiles: int = 16
    states: int = 8
    targets: int = 16
    bundle_bytes: int = 2_000_000
    decode_ms: float = 2.0
    name_characters: int = 256


LIMITS = CompilerLimits()
