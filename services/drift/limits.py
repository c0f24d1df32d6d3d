"""Limits and thresholds of drift, each with its unit. `EDGELOOP_DRIFT_*` overrides a threshold.

`DriftLimits` are sizes that protect the service and do not change a verdict. `DriftSettings` are the
numbers a verdict depends on; their defaults carry the articles' 3.5 sigma and 0.12 in calibrated form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


@dataclass(frozen=True)
class DriftLimits:
    """Bounds of one task, one answer and one stored thing."""

    batch: int = 500
    ingest_for_s: float = 20.0
    fold_batch: int = 2_000
    inbox_days: int = 7
    seen_days: int = 14
    observer_bytes: int = 1_000_000
    cohorts_per_day: int = 10_000
    alarm_cohorts: int = 1_000
    prefect_timeout_s: float = 10.0
    prefect_view_s: float = 3.0
    flow_lines: int = 200
    flow_runs: int = 100_000
    dead_flow_run_s: float = 6 * 3600.0
    shard_days: int = 21
    chart_days: int = 366
    chart_cohorts: int = 24
    loudest: int = 20
    calibration_days: int = 2_000
    calibration_tests: int = 20_000
    rollouts: int = 100
    threshold_bytes: int = 4_000
    publish_bytes: int = 2_000


LIMITS = DriftLimits()
BODY_LIMITS = {
    "/v1/observers": LIMITS.observer_bytes,
    "/v1/thresholds": LIMITS.threshold_bytes,
    "/v1/published": LIMITS.publish_bytes,
}


class DriftSettings(BaseSettings):
    """What counts as drift and when it starts a retraining. Days and hours are of the platform's clock."""

    model_config = SettingsConfigDict(env_prefix="EDGELOOP_DRIFT_", extra="ignore", frozen=True)

    reference_days: int = Field(2, ge=1, le=28, description="days: length of a cohort's reference window")
    reference_min_devices: int = Field(30, ge=2, description="devices a day needs to count for the reference")
    season_weeks: int = Field(
        2, ge=0, le=8, description="weeks that a weekday differs, the fleet returning in between, before it is a season"
    )
    grace_hours: float = Field(6.0, ge=0.0, le=48.0, description="hours after midnight before a day is complete")
    min_devices: int = Field(60, ge=2, description="devices on each side of the test of the mean")
    min_freedom: int = Field(300, ge=60, description="pooled reference device-days behind the spread")
    min_devices_js: int = Field(200, ge=2, description="devices on each side of the divergence")
    z_threshold: float = Field(3.5, gt=0, description="sigma-equivalent, one-sided: tail 2.3e-4")
    false_discovery_rate: float = Field(
        0.01, gt=0, le=0.5, description="expected share of false cohorts in a day's alarms"
    )
    d_warn: float = Field(0.35, gt=0, description="reference standard deviations of one frame")
    d_severe: float = Field(1.0, gt=0, description="reference standard deviations of one frame")
    js_warn: float = Field(0.03, gt=0, le=0.6931, description="nats on 16 bins")
    js_severe: float = Field(0.12, gt=0, le=0.6931, description="nats on 16 bins")
    reference_max_clipped: float = Field(0.01, gt=0, le=1.0, description="share of frames clipped, of a reference day")
    residual_warn: float = Field(0.35, gt=0, description="R: root of the relative change of energy outside")
    residual_severe: float = Field(1.0, gt=0, description="R: root of the relative change of energy outside")
    quality_alpha: float = Field(0.01, gt=0, le=0.5, description="one-sided tail of a fall of quality")
    quality_fall_db: float = Field(0.1, ge=0, description="dB of expected loss that count as a fall of quality")
    window_days: int = Field(3, ge=1, le=14, description="days looked back on for an alarm")
    days_in_window: int = Field(2, ge=1, le=14, description="drifting days in the window that make an alarm")
    cool_down_hours: float = Field(24.0, ge=0.0, description="hours between two retrainings")
    weekly_budget: int = Field(5, ge=0, description="retrainings in any 7 days")


@lru_cache(maxsize=1)
def drift_settings() -> DriftSettings:
    """The process's drift settings, read from the environment on the first call."""
    return DriftSettings()


class PublishingSettings(BaseSettings):
    """What published days may cost a device (central differential privacy); without `epsilon` nothing is published."""

    model_config = SettingsConfigDict(env_prefix="EDGELOOP_PUBLISHING_", extra="ignore", frozen=True)

    epsilon: float | None = Field(None, gt=0, le=20, description="of all releases of any window of days together")
    delta: float = Field(1e-8, gt=0, le=1e-4, description="likewise; less than one over the number of devices")
    window_days: int = Field(30, ge=1, le=366, description="days in a row that one promise covers")
    noise: Literal["exact", "opendp"] = Field("exact", description="our sampler, or that of the extra `privacy`")


@lru_cache(maxsize=1)
def publishing_settings() -> PublishingSettings:
    """The process's publishing settings, read from the environment on the first call."""
    return PublishingSettings()
