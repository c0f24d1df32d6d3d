"""What one metric in one stratum says: a reading for people, and cells for the alarm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from services.releases.verdict.alarm import CERTAIN, Cell


class Finding(StrEnum):
    """What one reading says. `UNASKED` is watched for harm, but no promotion waits for it."""

    HARM = "harm"
    SAFE = "safe"
    UNKNOWN = "unknown"
    UNASKED = "watched"


@dataclass(frozen=True)
class Reading:
    """One metric in one stratum. `low` is judged at the split alpha, `high` at the promotion alpha."""

    metric: str
    stratum: str
    canary_devices: int
    control_devices: int
    estimate: float | None
    low: float | None
    high: float | None
    margin: float
    finding: Finding
    excess: float = 0.0


Looked = tuple[Reading, tuple[Cell, ...]]
"""A reading with the evidence that the alarm takes from it."""


def safe_or_unknown(safe: bool) -> Finding:
    """For a reading that a promotion asks for."""
    return Finding.SAFE if safe else Finding.UNKNOWN


def all_or_nothing(certain: bool, alpha: float) -> float:
    """Log of the e-value of a test at level `alpha`: 1 / alpha when it rejects, else nothing at all."""
    return -math.log(alpha) if certain else -CERTAIN
