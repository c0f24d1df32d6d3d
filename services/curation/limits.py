"""Limits and settings of curation. `EDGELOOP_CURATION_*` overrides a setting.

Distances are Euclidean between 32-d segment vectors (means and deviations of codes scaled to 0..1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


@dataclass(frozen=True)
class CurationLimits:
    """Bounds of one task, one answer and one stored thing."""

    batch: int = 200
    ingest_for_s: float = 20.0
    distinct_points: int = 1_000_000
    window_segments: int = 100_000
    epsilon_sample: int = 2_000
    detail_members: int = 200
    runs_kept: int = 50
    segment_days: int = 30
    chain: int = 16
    training_bytes: int = 8_000_000


LIMITS = CurationLimits()
BODY_LIMITS = {"/v1/training-vectors": LIMITS.training_bytes}


class CurationSettings(BaseSettings):
    """What a cluster is and when it is covered."""

    model_config = SettingsConfigDict(env_prefix="EDGELOOP_CURATION_", extra="ignore", frozen=True)

    window_days: int = Field(7, ge=1, le=90, description="days of the platform's clock that a run looks back")
    run_every_hours: float = Field(24.0, gt=0, description="hours of the platform's clock between periodic runs")
    min_samples: int = Field(5, ge=2, le=1_000, description="segments within eps that make a core point")
    eps: float | None = Field(None, gt=0, description="radius of DBSCAN; empty: chosen from the data")
    eps_floor: float = Field(0.02, gt=0, description="smallest radius that the data may choose")
    eps_ceiling: float = Field(0.5, gt=0, description="largest radius that the data may choose")
    radius_cap: float = Field(2.0, ge=1.0, description="largest distance from the medoid, in multiples of eps")
    keep_hardest: int = Field(10, ge=1, description="hardest members kept of each cluster, beside the medoid")
    most_dropped: float = Field(0.95, gt=0, lt=1, description="share of a device class that may be dropped")
    eps_cov_default: float = Field(0.1, gt=0, description="near, where training vectors come from one video")
    covered_share: float = Field(0.95, gt=0, le=1, description="share of members from which a cluster is covered")
    uncovered_share: float = Field(0.5, gt=0, lt=1, description="share of members below which it is uncovered")


@lru_cache(maxsize=1)
def curation_settings() -> CurationSettings:
    """The process's curation settings, read from the environment on the first call."""
    return CurationSettings()
