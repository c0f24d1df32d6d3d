"""Charts as plain data: Plotly traces without any script, and geometry for the small SVG pictures of the templates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from contracts.wire import MetricInterval
from contracts.wire.drift import CohortDay
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS

SEVERE_SIGMA = 3.5
EPOCH = date(1970, 1, 1)


def day_text(day: int) -> str:
    """A day number as an ISO date."""
    return (EPOCH + timedelta(days=day)).isoformat()


def instant_text(seconds: float) -> str:
    """Seconds since 1970 as `2026-11-30 01:02 UTC`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def instant_iso(seconds: float) -> str:
    """Seconds since 1970 for the `datetime` attribute."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def drift_figure(days: Iterable[CohortDay]) -> dict[str, Any]:  # Any: a Plotly figure as JSON
    """Sigma-equivalents of the cohorts over days, the loudest cohorts first, with the alarm line."""
    by_cohort: dict[str, list[CohortDay]] = defaultdict(list)
    for row in days:
        by_cohort[row.cohort].append(row)
    loudest = sorted(by_cohort, key=lambda name: (-max((row.z or 0.0) for row in by_cohort[name]), name))
    traces = [
        _trace(name, sorted(by_cohort[name], key=lambda row: row.day)) for name in loudest[: LIMITS.chart_cohorts]
    ]
    return {
        "data": traces,
        "x": {"date": True},
        "y": {"title": _("sigma"), "zero": True},
        "limit": {"axis": "y", "at": SEVERE_SIGMA, "text": _("alarm at %(at)g sigma", at=SEVERE_SIGMA)},
        "empty": _("No drift measured yet: the chart begins with the first complete day."),
    }


def _trace(cohort: str, rows: list[CohortDay]) -> dict[str, Any]:  # Any: a Plotly trace as JSON
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": cohort,
        "x": [day_text(row.day) for row in rows],
        "y": [row.z for row in rows],
        "text": [f"{row.state.value.replace('_', ' ')}, {row.devices} devices" for row in rows],
        "hovertemplate": "%{x}<br>%{y:.2f} sigma<br>%{text}<extra>%{fullData.name}</extra>",
        "connectgaps": False,
    }


@dataclass(frozen=True)
class IntervalBar:
    """An interval on a line of 200 units: where it begins and ends, its estimate, zero and the margin."""

    low: float
    high: float
    estimate: float
    zero: float
    margin: float


def newest_looks(metrics: Iterable[MetricInterval]) -> list[MetricInterval]:
    """The last look of every metric and group of devices, harm first."""
    newest: dict[tuple[str, str], MetricInterval] = {}
    for metric in metrics:
        known = newest.get((metric.metric, metric.stratum))
        if known is None or metric.at >= known.at:
            newest[metric.metric, metric.stratum] = metric
    return sorted(newest.values(), key=lambda metric: (metric.verdict != "harm", metric.metric, metric.stratum))


def interval_bar(metric: MetricInterval, width: float = 200.0) -> IntervalBar:
    """Geometry of one metric's interval; everything lies inside 0..width."""
    values = (metric.low, metric.high, metric.estimate, 0.0, metric.margin)
    left, right = min(values), max(values)
    span = (right - left) or 1.0
    left, span = left - 0.08 * span, span * 1.16
    low, high, estimate, zero, margin = (round((value - left) / span * width, 2) for value in values)
    return IntervalBar(low, high, estimate, zero, margin)
