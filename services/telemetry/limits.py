"""Limits of telemetry: body sizes (checked before anything is parsed) and how often a device may send."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.wire import WireLimits
from services.kit.ratelimit import Rate

_WIRE = WireLimits()

BODY_LIMITS = {"/v1/reports": _WIRE.report_bytes, "/v1/segments": _WIRE.segment_bytes}


DEVICE_RATE = Rate(per_second=10.0, burst=120)
EVERYONE_RATE = Rate(per_second=1_000.0, burst=4_000)


@dataclass(frozen=True)
class TelemetryLimits:
    """One device may send a burst after a long time offline; all devices together fill at most a worker's pace.

    `latest_day` keeps days in a plain integer column. `republish_margin` rows before the last one that Redis knows
    are published again after Redis lost data, because ids do not become visible exactly in order.
    """

    device: Rate = DEVICE_RATE
    everyone: Rate = EVERYONE_RATE
    latest_day: int = 1_000_000
    republish_margin: int = 1_000
    republish_batch: int = 1_000
    outbox_days: int = 3


LIMITS = TelemetryLimits()
