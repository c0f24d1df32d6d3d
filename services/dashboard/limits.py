"""Bounds of the dashboard: time-outs of the calls behind a page, and how much a page shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DashboardLimits:
    """Times in real seconds; a source that does not answer in `call_s` shows its error state."""

    call_s: float = 4.0
    connect_s: float = 1.0
    refresh_s: int = 1
    chart_refresh_s: int = 15
    list_pages: int = 10
    fleet_rows: int = 20
    list_rows: int = 12
    page_rows: int = 50
    alerts: int = 5
    chart_cohorts: int = 12
    chart_days: int = 60
    heat_days: int = 14
    form_bytes: int = 16_384
    token_chars: int = 256
    password_chars: int = 256


LIMITS = DashboardLimits()

BODY_LIMITS = {"/login": LIMITS.form_bytes, "/console": LIMITS.form_bytes}
