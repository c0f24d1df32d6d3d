"""Limits of the shared parts: sizes, counts and times that are not a service's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutboxLimits:
    """`batch` messages a dispatch; pauses after a failure grow from `first_pause_s` to `longest_pause_s`."""

    batch: int = 500
    first_pause_s: float = 1.0
    longest_pause_s: float = 300.0


@dataclass(frozen=True)
class StreamLimits:
    """A message in hand for `claim_after_s` is taken over; after `deliveries` tries it goes to `<stream>.dead`."""

    claim_after_s: float = 30.0
    deliveries: int = 20
    dead_letters: int = 10_000


@dataclass(frozen=True)
class HttpLimits:
    """`body_bytes` is the default; a service raises it for a path in its own `limits.BODY_LIMITS`.

    A request that wants the database waits for `admission_s` at most.
    """

    body_bytes: int = 1 << 20
    page: int = 50
    page_max: int = 200
    cursor_chars: int = 512
    idempotency_key_chars: int = 128
    admission_s: float = 10.0


@dataclass(frozen=True)
class ClientLimits:
    """Bounds of `ServiceClient`."""

    connect_s: float = 5.0
    read_s: float = 60.0
    tries: int = 4
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0


@dataclass(frozen=True)
class TokenLimits:
    """A valid token is believed for `remember_s`: a revocation takes effect within that time on the fast routes."""

    remember_s: float = 30.0
    batch: int = 500
    at_once: int = 1
    waiting: int = 4_000


@dataclass(frozen=True)
class RateLimits:
    """Subjects whose bucket a process keeps in memory; beyond it the least recent is forgotten (its bucket is full)."""

    subjects: int = 100_000


@dataclass(frozen=True)
class PollTokenLimits:
    """How long a checked token is believed by routes that fleets poll, in memory and in the cache; tokens that the
    one memory of a process holds, for them and for the fast routes.

    `memory_s` is more than two polls of 60 s. `cached_s` decides how often a fleet asks the database for its tokens:
    each life in the cache is drawn between half of it and all of it, so that devices that came together do not return
    together. A token that is revoked leaves the cache with the commit, or with the next sweep where the cache was down
    then (`RevocationLimits`).
    """

    memory_s: float = 150.0
    cached_s: float = 6 * 3_600.0
    held: int = 250_000


@dataclass(frozen=True)
class RevocationLimits:
    """A worker takes revoked tokens out of the cache every `sweep_s`; who finds that nobody did for `late_s` does it.

    A sweep goes back `overlap_s` behind the last one, which is more than a transaction may take.
    """

    sweep_s: float = 10.0
    late_s: float = 60.0
    overlap_s: float = 120.0
    batch: int = 1_000


OUTBOX = OutboxLimits()
STREAM = StreamLimits()
HTTP = HttpLimits()
CLIENT = ClientLimits()
TOKENS = TokenLimits()
POLL_TOKENS = PollTokenLimits()
REVOCATIONS = RevocationLimits()
RATE = RateLimits()
