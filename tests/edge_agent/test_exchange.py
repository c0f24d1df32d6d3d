"""Two records that trade places: by the kernel's exchange and by renames, with a failure at every operation."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from contracts.wire import Cause
from edge_agent.disk import Disk
from edge_agent.errors import SlotError
from edge_agent.exchange import ExchangeUnsupported, exchange_names
from edge_agent.slot_store import FILE, SlotStore, read_slots
from edge_agent.slots import Slots, arm, begin_trial, confirm, count_start, exchange, install, mark_told, roll_back
from tests.edge_agent.test_slots import LIFE, SECOND, Transition, allowed, put, trial
from tests.support.agent_twin import PowerCut
from tests.support.crash_disk import CRASHES, CrashDisk, Failure

A, B = "a" * 96, "b" * 96


def test_two_files_trade_places_in_one_step(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")
    exchange_names(one, other)
    assert (one.read_text(), other.read_text()) == ("2", "1")


def test_a_name_that_is_missing_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_text("1")
    with pytest.raises(FileNotFoundError):
        exchange_names(one, tmp_path / "missing")
    assert one.read_text() == "1"


def test_where_the_kernel_cannot_exchange_the_caller_hears_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_agent.exchange._renameat2", lambda: None)
    with pytest.raises(ExchangeUnsupported):
        exchange_names(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "renames"])
@pytest.mark.parametrize("failure", CRASHES, ids=lambda failure: failure.name.lower())
def test_a_crash_at_any_operation_leaves_the_state_before_or_after(
    tmp_path: Path, failure: Failure, can_exchange: bool
) -> None:
    life = allowed(LIFE)
    counted = CrashDisk(can_exchange=can_exchange)
    (tmp_path / "count").mkdir()
    store = SlotStore(tmp_path / "count", counted)
    for transition in life:
        store.apply(transition)
    assert counted.operations > 50

    for at in range(1, counted.operations + 1):
        folder = tmp_path / f"at{at}"
        folder.mkdir()
        disk = CrashDisk(at=at, failure=failure, seed=at, can_exchange=can_exchange)
        before, after = interrupted(folder, life, disk)
        disk.crash()
        found = SlotStore(folder, Disk()).slots
        assert found in (before, after), f"operation {at}: {counted.log[at - 1]}"
        assert found.security_floor >= before.security_floor


def interrupted(folder: Path, life: tuple[Transition, ...], disk: CrashDisk) -> tuple[Slots, Slots]:
    slots = following = Slots()
    try:
        store = SlotStore(folder, disk)
        for transition in life:
            slots, following = store.slots, transition(store.slots)
            store.apply(transition)
    except PowerCut:
        return slots, following
    raise AssertionError("the disk never failed")


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "renames"])
def test_a_prepared_change_takes_effect_by_names_alone(tmp_path: Path, can_exchange: bool) -> None:
    disk = CrashDisk(can_exchange=can_exchange)
    store = SlotStore(tmp_path, disk)
    store.apply(put(A))
    prepared = store.prepare(trial(A))
    known = disk.operations
    store.commit(prepared)
    done = {line.split(" ")[0] for line in disk.log[known:]}
    assert done == ({"exchange"} if can_exchange else {"rename"})
    assert store.slots.on_trial
    assert read_slots(tmp_path / FILE).on_trial


def test_a_prepared_change_that_another_decision_overtook_is_refused(tmp_path: Path) -> None:
    store = SlotStore(tmp_path, CrashDisk())
    for transition in SECOND:
        store.apply(transition)
    prepared = store.prepare(partial(roll_back, cause=Cause.WITHDRAWN))
    store.decide(confirm)
    with pytest.raises(SlotError, match="another situation"):
        store.commit(prepared)
    store.flush()
    with pytest.raises(SlotError, match="another situation"):
        store.commit(prepared)
    assert SlotStore(tmp_path, Disk()).slots.running.digest == B


def test_what_a_frame_decides_is_true_at_once_and_on_disk_after_the_flush(tmp_path: Path) -> None:
    disk = CrashDisk()
    store = SlotStore(tmp_path, disk)
    for transition in SECOND:
        store.apply(transition)
    known = disk.operations
    store.decide(confirm)
    assert disk.operations == known, "a frame never waits for the disk"
    assert store.slots.security_floor == 1
    assert store.pending
    store.flush()
    assert not store.pending
    assert SlotStore(tmp_path, Disk()).slots == store.slots


def test_a_record_that_rots_costs_one_step_and_never_the_floor(tmp_path: Path) -> None:
    store = SlotStore(tmp_path, Disk())
    for transition in (put(A, epoch=7), trial(A), confirm):
        store.apply(transition)
    record = bytearray((tmp_path / FILE).read_bytes())
    record[40] ^= 1
    (tmp_path / FILE).write_bytes(bytes(record))

    found = SlotStore(tmp_path, Disk()).slots
    assert found.security_floor == 7
    assert found.running.digest == A
    assert (tmp_path / "slots.damaged.json").exists()


def test_a_record_of_the_format_before_is_still_read(tmp_path: Path) -> None:
    slot = {"state": "confirmed", "digest": A, "version": "1", "offer": "r", "security_epoch": 3, "boots": 0}
    slot |= {"cause": ""}
    empty = {**slot, "state": "empty", "digest": "", "version": "", "offer": "", "security_epoch": 0}
    record = {"format": 1, "active": "a", "previous": "", "a": slot, "b": empty, "security_floor": 3, "starts": 5}
    old = json.dumps({**record, "rollbacks": []})
    (tmp_path / FILE).write_text(old)
    store = SlotStore(tmp_path, Disk())
    assert (store.slots.running.digest, store.slots.security_floor) == (A, 3)
    store.apply(count_start)
    assert SlotStore(tmp_path, Disk()).slots.starts == 6


def test_a_full_disk_refuses_a_change_and_keeps_both_records_of_use(tmp_path: Path) -> None:
    disk = CrashDisk(failure=Failure.FULL)
    store = SlotStore(tmp_path, disk)
    store.apply(put(A))
    before = store.slots
    disk.at = disk.operations + 1
    with pytest.raises(OSError, match="no space"):
        store.prepare(trial(A))
    with pytest.raises(OSError, match="no space"):
        store.apply(trial(A))
    assert store.slots == before
    assert SlotStore(tmp_path, Disk()).slots == before


def test_a_bundle_that_kills_the_device_before_its_trial_is_recorded_is_given_up() -> None:
    """A trial is made ready durably before its first frame, so even a frame that takes the power away counts."""
    slots = put(A)(Slots())
    for _ in range(8):
        slots = arm(slots, A, "r1")
        assert slots.holding(A)
    slots = arm(slots, A, "r1")
    assert not slots.holding(A)
    assert slots.rollbacks[-1].cause == "crash"
    assert slots.failed_before(A, "r1")


def test_roll_backs_are_numbered_for_ever_and_marked_when_told() -> None:
    slots = Slots()
    for transition in (*SECOND, partial(roll_back, cause=Cause.FIDELITY)):
        slots = transition(slots)
    assert [entry.number for entry in slots.untold] == [1]
    slots = mark_told(slots, frozenset({1}))
    assert slots.untold == ()
    assert slots.rollbacks[0].told
    with pytest.raises(SlotError):
        exchange(slots, B)
    assert begin_trial(install(slots, B, "b", "r2", 1), B, "r2").on_trial


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "renames"])
def test_a_record_is_not_overwritten_while_its_names_may_still_be_lost(tmp_path: Path, can_exchange: bool) -> None:
    """A commit does not flush; the next write must, or power lost in it could take both records."""
    disk = CrashDisk(can_exchange=can_exchange)
    store = SlotStore(tmp_path, disk)
    store.apply(put(A))
    store.commit(store.prepare(trial(A)))
    known = disk.operations
    store.apply(confirm)
    assert disk.log[known].startswith("flush folder")


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "renames"])
def test_one_operation_that_fails_leaves_a_store_that_goes_on(tmp_path: Path, can_exchange: bool) -> None:
    """Whatever fails once: memory is the state before or after, the next change succeeds, and a restart finds it."""
    life = allowed(LIFE)
    counted = CrashDisk(can_exchange=can_exchange)
    (tmp_path / "count").mkdir()
    store = SlotStore(tmp_path / "count", counted)
    for transition in life:
        store.apply(transition)
    for at in range(1, counted.operations + 1):
        folder = tmp_path / f"at{at}"
        folder.mkdir()
        disk = CrashDisk(at=at, failure=Failure.REFUSE, can_exchange=can_exchange)
        store = SlotStore(folder, disk)
        for transition in life:
            before, after = store.slots, transition(store.slots)
            try:
                store.apply(transition)
            except OSError:
                assert store.slots == before
                store.apply(transition)
            assert store.slots == after
        store.flush()
        assert SlotStore(folder, Disk()).slots == store.slots, f"operation {at}: {counted.log[at - 1]}"
