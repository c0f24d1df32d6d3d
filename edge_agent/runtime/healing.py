"""The healing machine: which backend serves a frame, as an enum, a transition table and small rules. Pure.

    Normal    the primary backend (NPU) serves; a frame that fails is served by the fallback (CPU) at once
    Degraded  the breaker is open: the fallback serves; after the probe interval one frame tries the primary
    Disabled  both failed too often: no network runs, frames are enlarged plainly; a probe may lead back

Invariants: whatever happened before, the plan of a frame ends with LAST_RESORT, so no frame is lost; a
success of the primary always leads to Normal; errors older than the window are forgotten; in Degraded and
Disabled the primary is tried no more often than once in each probe interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum


class State(Enum):
    """Where the machine stands."""

    NORMAL = "normal"
    DEGRADED = "degraded"
    DISABLED = "disabled"


class Choice(Enum):
    """Who may serve a frame."""

    PRIMARY = "primary"
    FALLBACK = "fallback"
    LAST_RESORT = "last_resort"


class Event(Enum):
    """What happened to an attempt."""

    PRIMARY_OK = "primary_ok"
    PRIMARY_FAILED = "primary_failed"
    FALLBACK_OK = "fallback_ok"
    FALLBACK_FAILED = "fallback_failed"


@dataclass(frozen=True)
class HealingLimits:
    """When the breaker opens, and when a closed door is tried again; seconds of the agent's clock."""

    errors: int = 5
    window_s: float = 60.0
    probe_s: float = 30 * 60.0


@dataclass(frozen=True)
class Healing:
    """The machine's whole state; instants are seconds of the agent's clock."""

    state: State = State.NORMAL
    primary_errors: tuple[float, ...] = ()
    fallback_errors: tuple[float, ...] = ()
    probe_at: float | None = None


Rule = Callable[[Healing, float, HealingLimits], Healing]


def plan(healing: Healing, now: float) -> tuple[Choice, ...]:
    """Return who serves the next frame, in the order of trying."""
    probing = healing.probe_at is not None and now >= healing.probe_at
    if healing.state is State.NORMAL or probing:
        return (Choice.PRIMARY, Choice.FALLBACK, Choice.LAST_RESORT)
    if healing.state is State.DEGRADED:
        return (Choice.FALLBACK, Choice.LAST_RESORT)
    return (Choice.LAST_RESORT,)


def after(healing: Healing, event: Event, now: float, limits: HealingLimits) -> Healing:
    """Return the state after `event` at the instant `now`."""
    return TABLE[healing.state, event](healing, now, limits)


def _stay(healing: Healing, now: float, limits: HealingLimits) -> Healing:
    return healing


def _recover(healing: Healing, now: float, limits: HealingLimits) -> Healing:
    return Healing()


def _count_primary(healing: Healing, now: float, limits: HealingLimits) -> Healing:
    errors = _recent(healing.primary_errors, now, limits)
    if len(errors) < limits.errors:
        return replace(healing, primary_errors=errors)
    return Healing(State.DEGRADED, fallback_errors=healing.fallback_errors, probe_at=now + limits.probe_s)


def _count_fallback(healing: Healing, now: float, limits: HealingLimits) -> Healing:
    errors = _recent(healing.fallback_errors, now, limits)
    if len(errors) < limits.errors:
        return replace(healing, fallback_errors=errors)
    return Healing(State.DISABLED, probe_at=now + limits.probe_s)


def _postpone(healing: Healing, now: float, limits: HealingLimits) -> Healing:
    return replace(healing, probe_at=now + limits.probe_s)


def _half_recover(healing: Healing, now: float, limits: HealingLimits) -> Healing:
    return Healing(State.DEGRADED, probe_at=now + limits.probe_s)


def _recent(errors: tuple[float, ...], now: float, limits: HealingLimits) -> tuple[float, ...]:
    """Return the errors inside of the window and this one, the newest `limits.errors` of them."""
    kept = [instant for instant in errors if now - limits.window_s < instant <= now]
    return (*kept, now)[-limits.errors :]


TABLE: dict[tuple[State, Event], Rule] = {
    (State.NORMAL, Event.PRIMARY_OK): _stay,
    (State.NORMAL, Event.PRIMARY_FAILED): _count_primary,
    (State.NORMAL, Event.FALLBACK_OK): _stay,
    (State.NORMAL, Event.FALLBACK_FAILED): _count_fallback,
    (State.DEGRADED, Event.PRIMARY_OK): _recover,
    (State.DEGRADED, Event.PRIMARY_FAILED): _postpone,
    (State.DEGRADED, Event.FALLBACK_OK): _stay,
    (State.DEGRADED, Event.FALLBACK_FAILED): _count_fallback,
    (State.DISABLED, Event.PRIMARY_OK): _recover,
    (State.DISABLED, Event.PRIMARY_FAILED): _postpone,
    (State.DISABLED, Event.FALLBACK_OK): _half_recover,
    (State.DISABLED, Event.FALLBACK_FAILED): _postpone,
}
