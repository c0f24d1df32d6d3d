"""Slots A and B: which bundle runs, which one is on trial, which one to go back to.

    empty ──install──> installed ──begin_trial──> trial ──confirm──> confirmed
                            ^                       │                   │
                            └───────install─────────┴──> rolled_back <──┘   (with a cause)

This page is pure: values and transitions. `slot_store.py` keeps them on disk. Invariants: the running
bundle is the built-in one, a confirmed one or one on trial; the slot to go back to is never overwritten
while a trial runs; the security floor never sinks; the cause of a roll back is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from contracts.wire import Cause
from edge_agent.errors import SlotError
from edge_agent.limits import LIMITS

NAMES = ("a", "b")
MAY_COME_AGAIN = (Cause.WITHDRAWN.value, Cause.REVOKED.value, Cause.TEE_FAILED.value)


class SlotState(StrEnum):
    """Life of one slot."""

    EMPTY = "empty"
    INSTALLED = "installed"
    TRIAL = "trial"
    CONFIRMED = "confirmed"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True)
class Slot:
    """One slot. `offer` names the rollout or baseline that brought the bundle."""

    state: SlotState = SlotState.EMPTY
    digest: str = ""
    version: str = ""
    offer: str = ""
    security_epoch: int = 0
    boots: int = 0
    cause: str = ""
    armed: int = 0
    """How often a trial was made ready; it is counted for good before the first frame of each."""


@dataclass(frozen=True)
class RollBack:
    """A bundle that was left (`ran`) or refused, why, and whether the platform's mail holds the news."""

    digest: str
    offer: str
    cause: str
    detail: str = ""
    ran: bool = True
    number: int = 0
    told: bool = False


@dataclass(frozen=True)
class Fall:
    """A process that went down without an orderly end, by the bundle that ran ("" is the built-in one). It stays until
    the platform's mail holds it.
    """

    digest: str
    number: int


@dataclass(frozen=True)
class Slots:
    """Everything the device knows of its bundles. `active` is "a", "b" or "" for the built-in bundle."""

    active: str = ""
    previous: str = ""
    a: Slot = Slot()
    b: Slot = Slot()
    security_floor: int = 0
    starts: int = 0
    rollbacks: tuple[RollBack, ...] = ()
    left: int = 0
    """How many roll backs and refusals there ever were."""
    started: bool = False
    """A process began and has not ended in order."""
    falls: tuple[Fall, ...] = ()
    """Ends out of order that the platform's mail does not hold yet, the newest `LIMITS.falls_kept`."""
    fallen: int = 0
    """How many ends out of order there ever were."""

    @property
    def untold(self) -> tuple[RollBack, ...]:
        """Roll backs that the platform's mail does not hold yet."""
        return tuple(entry for entry in self.rollbacks if not entry.told)

    def slot(self, name: str) -> Slot:
        return self.a if name == "a" else self.b if name == "b" else Slot()

    @property
    def running(self) -> Slot:
        """The slot that runs; an empty one for the built-in bundle."""
        return self.slot(self.active)

    @property
    def on_trial(self) -> bool:
        return self.running.state is SlotState.TRIAL

    @property
    def spare(self) -> str:
        """The slot that may be overwritten: never the running one, a confirmed one last."""
        if self.active:
            return "b" if self.active == "a" else "a"
        return "b" if self.a.state is SlotState.CONFIRMED else "a"

    def holding(self, digest: str) -> str:
        """Name of the slot that holds a usable copy of `digest`, or ""."""
        usable = (SlotState.INSTALLED, SlotState.TRIAL, SlotState.CONFIRMED)
        return next((n for n in NAMES if self.slot(n).digest == digest and self.slot(n).state in usable), "")

    def failed_before(self, digest: str, offer: str) -> bool:
        """True when this very offer of this bundle failed here. What the platform took back may come again, and what
        the device could not open for a reason of its own.
        """
        return any(r.digest == digest and r.offer == offer and r.cause not in MAY_COME_AGAIN for r in self.rollbacks)

    def digests(self) -> frozenset[str]:
        """Bundles whose files must stay."""
        return frozenset(s.digest for s in (self.a, self.b) if s.digest and s.state is not SlotState.ROLLED_BACK)

    def with_slot(self, name: str, slot: Slot) -> Slots:
        return replace(self, a=slot) if name == "a" else replace(self, b=slot)


def install(slots: Slots, digest: str, version: str, offer: str, security_epoch: int) -> Slots:
    """Record a verified bundle in the spare slot."""
    if slots.on_trial:
        raise SlotError("a trial is running: no installation before it is confirmed or rolled back")
    if security_epoch < slots.security_floor:
        raise SlotError(f"security epoch {security_epoch} is below this device's floor {slots.security_floor}")
    fresh = Slot(SlotState.INSTALLED, digest, version, offer, security_epoch)
    return replace(
        slots.with_slot(slots.spare, fresh), previous="" if slots.previous == slots.spare else slots.previous
    )


def arm(slots: Slots, digest: str, offer: str) -> Slots:
    """Count that a trial of `digest` is about to begin; a bundle that was armed too often crashes the device before
    the trial itself can be recorded, and is rejected.
    """
    name = slots.holding(digest)
    slot = slots.slot(name)
    if not name or name == slots.active:
        raise SlotError(f"no slot is ready for a trial of {digest[:12]}")
    if slot.armed >= LIMITS.trial_arms:
        return reject(slots, digest, offer, Cause.CRASH, f"{slot.armed} trials were begun and none was recorded")
    return slots.with_slot(name, replace(slot, armed=slot.armed + 1))


def begin_trial(slots: Slots, digest: str, offer: str) -> Slots:
    """Point to the slot that holds `digest`, for a trial."""
    name = slots.holding(digest)
    slot = slots.slot(name)
    if not name or slot.state is SlotState.TRIAL or name == slots.active:
        raise SlotError(f"no slot is ready for a trial of {digest[:12]}")
    trial = replace(slot, state=SlotState.TRIAL, boots=0, cause="", offer=offer)
    return replace(slots.with_slot(name, trial), active=name, previous=slots.active)


def confirm(slots: Slots) -> Slots:
    """The trial went well; from now on nothing older than its security epoch runs."""
    if not slots.on_trial:
        raise SlotError("nothing is on trial")
    slot = replace(slots.running, state=SlotState.CONFIRMED, boots=0, armed=0)
    floor = max(slots.security_floor, slot.security_epoch)
    return replace(slots.with_slot(slots.active, slot), security_floor=floor)


def roll_back(slots: Slots, cause: Cause, detail: str = "") -> Slots:
    """Leave the running bundle for the one before it, or for the built-in one."""
    if not slots.active:
        raise SlotError("the built-in bundle runs: there is nothing to go back to")
    left = slots.running
    before = slots.slot(slots.previous)
    sound = before.state is SlotState.CONFIRMED and before.security_epoch >= slots.security_floor
    target = slots.previous if sound else ""
    kept = _noted(slots, RollBack(left.digest, left.offer, cause.value, detail[:200]))
    failed = replace(left, state=SlotState.ROLLED_BACK, cause=cause.value)
    return replace(kept.with_slot(slots.active, failed), active=target, previous="")


def reject(slots: Slots, digest: str, offer: str, cause: Cause, detail: str) -> Slots:
    """Remember that an offered bundle cannot run here, so that this offer is not tried again."""
    rejected = _noted(slots, RollBack(digest, offer, cause.value, detail[:200], ran=False))
    name = slots.holding(digest)
    if not name or name == slots.active:
        return rejected
    return rejected.with_slot(name, replace(slots.slot(name), state=SlotState.ROLLED_BACK, cause=cause.value))


def mark_told(slots: Slots, numbers: frozenset[int]) -> Slots:
    """Remember which roll backs the platform's mail holds."""
    return replace(slots, rollbacks=tuple(replace(r, told=r.told or r.number in numbers) for r in slots.rollbacks))


def use_built_in(slots: Slots, cause: Cause, detail: str = "") -> Slots:
    """Leave both slots for the built-in bundle."""
    return replace(roll_back(slots, cause, detail), active="", previous="")


def exchange(slots: Slots, digest: str) -> Slots:
    """Go to the other slot, whose bundle was confirmed before; the one left counts as withdrawn."""
    name = slots.holding(digest)
    if slots.slot(name).state is not SlotState.CONFIRMED or name == slots.active:
        raise SlotError(f"no other slot holds {digest[:12]} confirmed")
    left = roll_back(slots, Cause.WITHDRAWN) if slots.active else slots
    return replace(left, active=name, previous="")


def forget_falls(slots: Slots, numbers: frozenset[int]) -> Slots:
    """Forget the ends out of order that the platform's mail holds."""
    return replace(slots, falls=tuple(fall for fall in slots.falls if fall.number not in numbers))


def count_start(slots: Slots) -> Slots:
    """A start of the process; too many of them during a trial end the trial. One that follows no orderly end means that
    the process went down with the bundle that ran.
    """
    slots = replace(_fallen(slots) if slots.started else slots, starts=slots.starts + 1, started=True)
    if not slots.on_trial:
        return slots
    boots = slots.running.boots + 1
    if boots > LIMITS.trial_boots:
        return roll_back(slots, Cause.CRASH, f"{boots} starts without a confirmation")
    return slots.with_slot(slots.active, replace(slots.running, boots=boots))


def count_end(slots: Slots) -> Slots:
    """An orderly end of the process; a start that ends so does not count against a trial."""
    slots = replace(slots, started=False)
    if not slots.on_trial:
        return slots
    boots = max(0, slots.running.boots - 1)
    return slots.with_slot(slots.active, replace(slots.running, boots=boots))


def _fallen(slots: Slots) -> Slots:
    number = slots.fallen + 1
    kept = (*slots.falls, Fall(slots.running.digest, number))[-LIMITS.falls_kept :]
    return replace(slots, falls=kept, fallen=number)


def _noted(slots: Slots, entry: RollBack) -> Slots:
    number = slots.left + 1
    kept = (*slots.rollbacks, replace(entry, number=number))[-LIMITS.rollbacks_kept :]
    return replace(slots, rollbacks=kept, left=number)
