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
    """Bounds of one task, one answer and one stored thing. rows: read, written or changed in one statement."""

    batch: int = 200
    ingest_for_s: float = 20.0
    distinct_points: int = 1_000_000
    window_segments: int = 500_000
    direct_points: int = 20_000
    rows: int = 50_000
    coverage_rows: int = 2_000
    leaks_told: int = 20
    epsilon_sample: int = 2_000
    detail_members: int = 200
    map_points: int = 1_000
    stand_ins: int = 40
    runs_kept: int = 50
    members_kept: int = 5_000_000
    segment_days: int = 30
    chain: int = 16
    training_bytes: int = 8_000_000


LIMITS = CurationLimits()
BODY_LIMITS = {"/v1/training-vectors": LIMITS.training_bytes, "/v1/evaluation-vectors": LIMITS.training_bytes}


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
    rebuild_days: float = Field(7.0, ge=0, description="days that runs only add to the last full run; 0: never add")
    plan_hours: float = Field(24.0, gt=0, description="hours of the platform's clock in which a plan may be applied")
    shards: int = Field(1, ge=1, le=4_096, description="cells of a full run; 1: one scan in this process")
    dask: str = Field("", description="address of a Dask scheduler for the cells; empty: processes on this machine")
    leak_eps: float | None = Field(None, gt=0, description="near to an evaluation vector; empty: eps of the last run")
    eps_cov_default: float = Field(0.1, gt=0, description="near, where training vectors come from one video")
    covered_share: float = Field(0.95, gt=0, le=1, description="share of members from which a cluster is covered")
    uncovered_share: float = Field(0.5, gt=0, lt=1, description="share of members below which it is uncovered")


@lru_cache(maxsize=1)
def curation_settings() -> CurationSettings:
    """The process's curation settings, read from the environment on the first call."""
    return CurationSettings()
