"""Sizes of the scan: what a step holds at once, and how fine the index is. None of them changes a label."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScanLimits:
    """rows: points converted at once. chunk: rows compared with one block at once (fits a core's cache).

    sample, probe: points drawn to choose axes, and to choose bounds. directions, direction_share: at most so many
    directions, one for so many points. lift_steps: steps that raise a block's plane. terms: numbers of leading
    coordinates to try; unclear_share: share of pairs apart that they may leave unclear. crowded: pairs per row and
    column from which a comparison is kept as a matrix. group: blocks whose candidates are sought together.
    pending: most pairs that may have to be remembered (8 B each). audit_*: size of the audit.
    """

    block: int = 128
    chunk: int = 2_048
    rows: int = 32_768
    sample: int = 20_000
    probe: int = 2_048
    lift_steps: int = 60
    directions: int = 4_096
    direction_share: int = 256
    terms: tuple[int, ...] = (6, 14, 22, 30, 46, 62, 94, 126)
    unclear_share: float = 1e-4
    group: int = 64
    crowded: int = 4
    exact_pairs: int = 16_384
    pending: int = 100_000_000
    workers: int = 2
    audit_queries: int = 1_000
    audit_rows: int = 256


SCAN_LIMITS = ScanLimits()
