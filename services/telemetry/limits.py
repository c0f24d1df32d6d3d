"""Limits of telemetry: body sizes (checked before anything is parsed), how often a device may send, what may wait."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.wire import WireLimits
from services.kit.batching import BatchLimits
from services.kit.ratelimit import Rate

_WIRE = WireLimits()

BODY_LIMITS = {"/v1/reports": _WIRE.report_bytes, "/v1/segments": _WIRE.segment_bytes}


DEVICE_RATE = Rate(per_second=10.0, burst=120)
FREE_RATE = Rate(per_second=0.2, burst=10)
REPORT_BATCHES = BatchLimits(batch=1_000, at_once=2, waiting=8_000)
SEGMENT_BATCHES = BatchLimits(batch=100, at_once=1, waiting=500)


@dataclass(frozen=True)
class TelemetryLimits:
    """One device may send a burst after a long time offline; all together fill at most the queues.

    What waits for its commit is bounded by `reports` and `segments`: 16 MB and 25 MB of bodies. A report may be
    `late_days` old and one day ahead (clocks differ; drift counts apart what is still ahead when it takes it). A day
    that may still get a report is never dropped: `kept_days` is larger than `late_days` by far. Of the streams at most
    `*_in_stream` entries wait in Redis; the rest waits in PostgreSQL. A row that its reader does not have after
    `lag_alarm_s` is said aloud in the log.
    """

    device: Rate = DEVICE_RATE
    free: Rate = FREE_RATE
    reports: BatchLimits = REPORT_BATCHES
    segments: BatchLimits = SEGMENT_BATCHES
    late_days: int = 7
    segment_late_days: int = 28
    ahead_days: int = 1
    kept_days: int = 30
    days_made_ahead: int = 3
    ddl_wait_ms: int = 2_000
    publish_batch: int = 1_000
    publish_bytes: int = 8_000_000
    publish_for_s: float = 20.0
    settle_wait_ms: int = 2_000
    reports_in_stream: int = 200_000
    segments_in_stream: int = 5_000
    refusal_days: int = 30
    lag_alarm_s: float = 900.0


LIMITS = TelemetryLimits()
