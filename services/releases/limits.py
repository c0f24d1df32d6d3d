"""Limits of the releases service: sizes, lifetimes and times, in one place.

Lifetimes of security objects are real seconds; everything about rollouts is in seconds of the platform's clock,
except the floors: a device polls in real time, so no device is called silent before it could have polled.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.bundle.limits import LIMITS as BUNDLE
from contracts.wire.limits import LIMITS as WIRE

DAY = 86_400


@dataclass(frozen=True)
class MetadataLimits:
    """Lifetimes of signed metadata in real seconds; metadata is renewed after half of its life."""

    root_s: int = 365 * DAY
    targets_s: int = 90 * DAY
    snapshot_s: int = 7 * DAY
    timestamp_s: int = DAY
    metadata_bytes: int = 4 << 20
    name_chars: int = 100


@dataclass(frozen=True)
class DeltaLimits:
    """From how many earlier bundles a new one gets a delta, up to which size, and when one is worth its place in the
    signed metadata (share of the bundle).
    """

    bases: int = 2
    bundle_bytes: int = 8 << 20
    share: float = 0.7


@dataclass(frozen=True)
class StateLimits:
    """The device state document: how long it is valid, how long a device or a proxy may keep it.

    A worker puts it into the cache again every `refresh_s`, well before `cached_s` ends.
    """

    life_s: int = DAY
    ttl_s: int = 30
    memory_s: float = 1.0
    cached_s: int = 30
    refresh_s: float = 10.0
    kept: int = 1_000


@dataclass(frozen=True)
class RolloutLimits:
    """`patience` silent deadlines after the soak, a stage without a verdict is paused for a person.

    `silent_floor_s` and `patience_floor_s` are real seconds.
    """

    patience: float = 2.0
    silent_floor_s: float = 120.0
    patience_floor_s: float = 300.0
    looks_shown: int = 60
    tick_rows: int = 100
    strata: int = 32


@dataclass(frozen=True)
class DeviceLimits:
    """Enrolment and feedback. `flush_s`: how often buffered polls reach the cache.

    A download that goes on is not noted again for `taking_s`; a process remembers `takings` of them.
    """

    enrolments_per_second: float = 50.0
    enrolment_burst: int = 1_000
    flush_s: float = 5.0
    seen_kept_s: int = 7 * DAY
    item_days: int = 14
    taking_s: float = 60.0
    takings: int = 100_000


@dataclass(frozen=True)
class SearchLimits:
    """Devices that one page of a search by rule looks at."""

    devices: int = 25_000


@dataclass(frozen=True)
class CountLimits:
    """Counts that are kept in rows: from how many on they are folded, how many of the fleet's and how many
    alerts are told at a glance."""

    fold_rows: int = 500
    rows: int = 400
    alerts: int = 20


METADATA = MetadataLimits()
DELTAS = DeltaLimits()
STATE = StateLimits()
ROLLOUT = RolloutLimits()
DEVICE = DeviceLimits()
COUNTS = CountLimits()
SEARCH = SearchLimits()

BODY_LIMITS = {
    "/v1/enrolments": WIRE.enrolment_bytes,
    "/v1/feedback": WIRE.feedback_bytes,
    "/v1/bundle-keys": WIRE.enrolment_bytes,
    "/ddi/": 64 * 1024,
    "/v1/bundles/uploads": BUNDLE.file_bytes,
    "/v1/ddi/images/": BUNDLE.file_bytes + (1 << 20),  # description, signature and headers around the bundle
}
