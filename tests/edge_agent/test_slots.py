"""The slots: transitions as a table of allowed and refused, and a power cut at every single disk operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from contracts.wire import Cause
from edge_agent.errors import SlotError
from edge_agent.limits import LIMITS
from edge_agent.slot_store import SlotStore
from edge_agent.slots import (
    Slots,
    SlotState,
    begin_trial,
    confirm,
    count_start,
    exchange,
    install,
    reject,
    roll_back,
    use_built_in,
)
from tests.support.agent_twin import FaultyDisk, PowerCut

A, B, C = "a" * 96, "b" * 96, "c" * 96
Transition = Callable[[Slots], Slots]


def put(digest: str, epoch: int = 1, offer: str = "r1") -> Transition:
    return partial(install, digest=digest, version=digest[:2], offer=offer, security_epoch=epoch)


def run(*transitions: Transition) -> Slots:
    slots = Slots()
    for transition in transitions:
        slots = transition(slots)
    return slots


def trial(digest: str) -> Transition:
    return partial(begin_trial, digest=digest, offer="r1")


FIRST: tuple[Transition, ...] = (put(A), trial(A), confirm)
SECOND: tuple[Transition, ...] = (*FIRST, put(B), trial(B))


def test_a_confirmed_bundle_raises_the_security_floor() -> None:
    assert run(put(A, epoch=3), trial(A)).security_floor == 0
    assert run(put(A, epoch=3), trial(A), confirm).security_floor == 3


def test_a_failed_trial_goes_back_to_the_slot_before_and_keeps_the_cause() -> None:
    slots = roll_back(run(*SECOND), Cause.FIDELITY, "too far")
    assert slots.running.digest == A
    assert slots.b.state is SlotState.ROLLED_BACK
    assert (slots.rollbacks[0].digest, slots.rollbacks[0].cause) == (B, "fidelity")


def test_a_roll_back_never_leads_below_the_security_floor() -> None:
    slots = run(*FIRST, put(B, epoch=7), trial(B), confirm)
    assert roll_back(slots, Cause.REVOKED).active == ""


def test_the_running_slot_is_never_overwritten() -> None:
    slots = run(*SECOND, confirm, put(C))
    assert slots.running.digest == B
    assert slots.a.digest == C
    assert roll_back(slots, Cause.REVOKED).active == "", "what was overwritten is no way back"


def test_transitions_that_make_no_sense_are_refused() -> None:
    for transitions, wrong in (
        ((), confirm),
        (FIRST, confirm),
        (SECOND, put(C)),
        (FIRST, trial(B)),
        (FIRST, trial(A)),
        ((), partial(roll_back, cause=Cause.NONE)),
        (FIRST, partial(exchange, digest=B)),
    ):
        with pytest.raises(SlotError):
            wrong(run(*transitions))
    with pytest.raises(SlotError, match="floor"):
        put(B, epoch=0)(run(*FIRST))


def test_an_exchange_goes_to_the_other_confirmed_slot() -> None:
    slots = exchange(run(*SECOND, confirm), A)
    assert slots.running.digest == A
    assert not slots.failed_before(B, "r1"), "what the platform took back may be offered again"


def test_a_rejected_offer_is_remembered_for_that_offer_only() -> None:
    slots = reject(run(put(A)), A, "r1", Cause.DAMAGED, "piece missing")
    assert slots.failed_before(A, "r1")
    assert not slots.failed_before(A, "r2")
    assert slots.a.state is SlotState.ROLLED_BACK


def test_too_many_starts_without_confirmation_end_a_trial() -> None:
    slots = run(*SECOND)
    for _ in range(LIMITS.trial_boots):
        slots = count_start(slots)
        assert slots.on_trial
    slots = count_start(slots)
    assert slots.running.digest == A
    assert slots.rollbacks[-1].cause == "crash"


def test_the_memory_of_roll_backs_is_bounded() -> None:
    slots = Slots()
    for index in range(40):
        slots = reject(slots, f"{index:096x}", "r", Cause.DAMAGED, "x" * 1_000)
    assert len(slots.rollbacks) == LIMITS.rollbacks_kept
    assert len(slots.rollbacks[-1].detail) == 200


LIFE: tuple[Transition, ...] = (
    count_start,
    *SECOND,
    partial(roll_back, cause=Cause.DRIVER_ERRORS, detail="three"),
    put(C, epoch=2),
    trial(C),
    count_start,
    confirm,
    partial(exchange, digest=A),
    partial(use_built_in, cause=Cause.WITHDRAWN),
)


def allowed(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """The prefix of a life that is allowed: an exchange below the floor is not."""
    slots, good = Slots(), []
    for transition in transitions:
        try:
            slots = transition(slots)
        except SlotError:
            continue
        good.append(transition)
    return tuple(good)


def test_a_power_cut_at_any_operation_leaves_the_state_before_or_after(tmp_path: Path) -> None:
    life = allowed(LIFE)
    counted = FaultyDisk()
    store = SlotStore(tmp_path / "count", counted)
    for transition in life:
        store.apply(transition)
    assert counted.operations > 25

    for cut in range(1, counted.operations + 1):
        folder = tmp_path / f"cut{cut}"
        before, after = interrupted(folder, life, cut)
        found = SlotStore(folder, FaultyDisk()).slots
        assert found in (before, after), f"operation {cut}: {counted.log[cut - 1]}"
        assert found.security_floor >= before.security_floor
        assert found.running.state in (SlotState.EMPTY, SlotState.TRIAL, SlotState.CONFIRMED)


def interrupted(folder: Path, life: tuple[Transition, ...], cut: int) -> tuple[Slots, Slots]:
    """Live until the power is cut; return the slots before and after the transition that was cut."""
    disk = FaultyDisk(cut_at=cut, seed=cut)
    slots = Slots()
    try:
        store = SlotStore(folder, disk)
        for transition in life:
            slots, following = store.slots, transition(store.slots)
            store.apply(transition)
    except PowerCut:
        return slots, following if disk.operations > 1 else slots
    raise AssertionError("the power was never cut")


def test_a_full_disk_changes_neither_memory_nor_disk(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = SlotStore(tmp_path, disk)
    store.apply(put(A))
    before = store.slots
    disk.full = True
    with pytest.raises(OSError, match="no space"):
        store.apply(trial(A))
    assert store.slots == before
    disk.full = False
    assert SlotStore(tmp_path, disk).slots == before


def test_a_damaged_record_is_put_aside_and_the_built_in_bundle_plays(tmp_path: Path) -> None:
    store = SlotStore(tmp_path, FaultyDisk())
    store.apply(put(A))
    (tmp_path / "slots.json").write_bytes(b'{"format": 1, "active"')
    assert SlotStore(tmp_path, FaultyDisk()).slots == Slots()
    assert (tmp_path / "slots.damaged.json").exists()
