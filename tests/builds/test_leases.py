"""Who works on a build, and what happens when he stops."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from contracts.wire import BuildState
from services.builds import bench, leases, tasks, work
from services.builds.limits import WORK
from services.builds.models import BuildRow
from services.builds.settings import builds_settings
from services.builds.states import COMPILABLE, IllegalTransition, check_transition
from services.kit.database import transaction
from tests.builds.conftest import Studio


@pytest.fixture
def build_id(studio: Studio) -> str:
    """A queued build."""
    return str(studio.send().json()["id"])


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Build ids whose step was sent to Celery."""
    seen: list[str] = []
    for one in (tasks.compile_build, tasks.gate_build):
        monkeypatch.setattr(one, "delay", lambda build_id, one=one: seen.append(f"{one.name} {build_id}"))
    return seen


def _expire(build_id: str) -> None:
    with transaction() as session:
        row = session.get_one(BuildRow, build_id)
        row.touched_at = func.now() - func.make_interval(0, 0, 0, 0, 1)
        if row.lease_until is not None:
            row.lease_until = func.now() - func.make_interval(0, 0, 0, 0, 0, 1)


def _wait_renewed(build_id: str) -> None:
    deadline = time.monotonic() + 20
    lasts = select(BuildRow.lease_until > func.clock_timestamp()).where(BuildRow.id == build_id)
    while True:
        with transaction() as session:
            if session.scalar(lasts):
                return
        assert time.monotonic() < deadline, "not renewed"
        time.sleep(0.02)


def _claim(build_id: str) -> leases.Lease | None:
    return leases.claim(build_id, COMPILABLE, BuildState.COMPILING)


def test_a_build_is_claimed_once(build_id: str) -> None:
    assert _claim(build_id) is not None
    assert _claim(build_id) is None


def test_a_lease_that_ran_out_is_taken_over_and_the_first_owner_is_fenced_off(build_id: str) -> None:
    first = _claim(build_id)
    assert first is not None
    _expire(build_id)
    second = _claim(build_id)
    assert second is not None
    assert second.attempt == 2
    with pytest.raises(leases.LeaseLost):
        leases.renew(first)
    with transaction() as session, pytest.raises(leases.LeaseLost):
        leases.owned(session, first)
    leases.renew(second)


def test_a_held_lease_renews_itself(build_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WORK.renewals >= 2, "within its length"
    monkeypatch.setattr(leases, "WORK", replace(WORK, renewals=600))
    monkeypatch.setenv("EDGELOOP_BUILDS_LEASE_S", "60")
    builds_settings.cache_clear()
    try:
        lease = _claim(build_id)
        assert lease is not None
        with leases.held(lease):
            for _ in range(3):
                _expire(build_id)
                _wait_renewed(build_id)
                assert _claim(build_id) is None
    finally:
        builds_settings.cache_clear()


def test_the_sweep_sends_what_waits_and_nobody_holds(build_id: str, sent: list[str]) -> None:
    tasks.sweep()
    assert not any(build_id in entry for entry in sent)  # touched a moment ago: its own message is on the way
    _expire(build_id)
    tasks.sweep()
    assert f"builds.compile_build {build_id}" in sent


def test_the_sweep_leaves_a_held_build_alone(build_id: str, sent: list[str]) -> None:
    assert _claim(build_id) is not None
    with transaction() as session:
        session.get_one(BuildRow, build_id).touched_at = func.now() - func.make_interval(0, 0, 0, 0, 1)
    tasks.sweep()
    assert not any(build_id in entry for entry in sent)


def test_a_lab_that_does_not_start_is_tried_again_and_then_given_up(
    studio: Studio, build_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bench,
        "builds_settings",
        lambda: builds_settings().model_copy(update={"lab_command": "no-such-lab {device_class}"}),
    )
    work.compile_step(build_id)
    for attempt in range(1, WORK.attempts + 1):
        work.gate_step(build_id)
        seen = studio.get(build_id)
        assert seen["state"] == "gating"
        assert f"attempt {attempt} failed" in seen["message"]
        assert "no-such-lab" in seen["message"]
    work.gate_step(build_id)
    seen = studio.get(build_id)
    assert seen["state"] == "failed"
    assert "no-such-lab" in seen["message"]
    assert "lab command" in seen["remedy"]


def test_a_finished_build_never_moves(studio: Studio) -> None:
    build = studio.build({"release_version": "2.0"})
    assert build["finished"] is not None
    work.compile_step(build["id"])
    work.gate_step(build["id"])
    assert studio.get(build["id"]) == build
    with pytest.raises(IllegalTransition):
        check_transition(BuildState.PASSED, BuildState.GATING)
