"""People at the wheel: pre-flight, pause, resume, roll back, kill, and two of them at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from contracts.state import bucket
from contracts.wire import FeedbackBatch, RolloutState
from services.kit.database import transaction
from services.releases import feedback, observed, ticks
from services.releases.models import DecisionRow, RolloutRow, StateDocument
from services.releases.verdict import Evidence
from tests.releases.conftest import OLD
from tests.releases.world import HOUR, World

ROLLOUTS = "/releases/v1/rollouts"


def test_a_bundle_for_nobody_is_refused_with_the_reason(world: World) -> None:
    digest = world.register()
    body = {"digest": digest, "auto_start": True}
    nobody = world.client.post(ROLLOUTS, token=world.service, json=body)
    assert nobody.status_code == 409
    assert "matches none of the enrolled devices" in nobody.json()["detail"]
    world.enrol(4, OLD, device_class="npu-8t")
    foreign = world.client.post(ROLLOUTS, token=world.service, json=body)
    assert foreign.status_code == 409
    assert "4 of class npu-8t" in foreign.json()["detail"]
    assert world.client.get(ROLLOUTS, token=world.service).json()["items"] == []


@pytest.mark.parametrize("selector", [{"colour": ["red"]}, {"region": []}])
def test_a_selector_that_makes_no_sense_is_refused(world: World, selector: dict[str, list[str]]) -> None:
    body = {"digest": world.register(), "selector": selector}
    answer = world.client.post(ROLLOUTS, token=world.service, json=body)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/bad-selector"


def test_an_unknown_bundle_is_refused(world: World) -> None:
    answer = world.client.post(ROLLOUTS, token=world.service, json={"digest": "a" * 96, "auto_start": True})
    assert answer.status_code == 404


def test_two_operators_at_once_one_is_told_to_look_again(world: World) -> None:
    world.enrol(10, OLD)
    rollout = world.rollout(world.register())
    etag = world.client.get(f"{ROLLOUTS}/{rollout.id}", token=world.operator).headers["etag"]
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(lambda _: world.act(rollout.id, "pause", headers={"If-Match": etag}).status_code, range(2))
        )
    assert sorted(found) == [200, 412]


def test_an_action_with_the_same_key_happens_once(world: World) -> None:
    world.enrol(10, OLD)
    rollout = world.rollout(world.register())
    headers = {"Idempotency-Key": "pause-1"}
    first, again = (world.act(rollout.id, "pause", headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    assert world.look(rollout.id).human_actions == 1


def test_a_paused_rollout_exposes_nobody_new_and_goes_on_when_resumed(world: World) -> None:
    world.enrol(40, OLD)
    rollout = world.rollout(world.register())
    assert world.act(rollout.id, "pause").status_code == 200
    assert world.act(rollout.id, "pause").status_code == 409
    assert world.run(rollout.id, rounds=3).stage == 0
    assert world.act(rollout.id, "resume").status_code == 200
    done = world.run(rollout.id)
    assert done.state is RolloutState.COMPLETED
    assert done.human_actions == 2


def test_harm_rolls_a_paused_rollout_back(world: World) -> None:
    world.enrol(160, OLD)
    rollout = world.rollout(world.register())
    world.act(rollout.id, "pause")
    world.live(bad_class="npu-2t")
    ticks.tick_all()
    assert world.look(rollout.id).state is RolloutState.ROLLED_BACK


def test_an_operators_roll_back_of_a_finished_release_brings_the_older_one_back(world: World) -> None:
    first, second = world.register(version="2.0.0"), world.register(version="1.0.0")
    world.enrol(40, first)
    assert world.rollout(first).state is RolloutState.COMPLETED
    later = world.rollout(second)
    assert world.run(later.id).state is RolloutState.COMPLETED
    assert world.act(later.id, "rollback").status_code == 200
    baseline = world.state(world.devices[0]).baseline
    assert baseline is not None
    assert baseline.digest == first
    assert world.act(later.id, "resume").status_code == 409


def test_a_new_rollout_for_the_same_devices_supersedes_the_running_one(world: World) -> None:
    world.enrol(20, OLD)
    first = world.rollout(world.register())
    second = world.rollout(world.register())
    assert world.look(first.id).state is RolloutState.ROLLED_BACK
    assert world.look(first.id).verdict == "superseded"
    assert [entry.id for entry in world.state(world.devices[0]).rollouts] == [second.id]


def test_a_release_for_a_part_of_the_fleet_stands_beside_the_baseline(world: World) -> None:
    world.enrol(24, OLD, region="north")
    world.enrol(24, OLD, region="south")
    digest = world.register()
    done = world.run(world.rollout(digest, selector={"region": ["north"]}).id)
    assert done.state is RolloutState.COMPLETED
    state = world.state(world.devices[0])
    assert state.baseline is None
    assert [entry.selector for entry in state.rollouts] == [{"region": ("north",)}]
    world.live()
    assert {d.tags.region for d in world.devices if d.running == digest} == {"north"}
    assert world.run(world.rollout(world.register()).id).state is RolloutState.COMPLETED
    assert world.state(world.devices[0]).rollouts == ()


def test_a_bundle_that_the_verdict_rolled_back_is_not_tried_again_by_a_machine(world: World) -> None:
    world.enrol(160, OLD)
    digest = world.register()
    assert world.run(world.rollout(digest).id, bad_class="npu-2t").state is RolloutState.ROLLED_BACK
    body = {"digest": digest, "auto_start": True}
    assert world.client.post(ROLLOUTS, token=world.service, json=body).status_code == 409
    assert world.rollout(digest, token=world.operator).human_actions == 1


def test_a_fleet_that_already_runs_the_bundle_is_done_at_once(world: World) -> None:
    digest = world.register()
    world.enrol(6, digest)
    done = world.rollout(digest)
    assert done.state is RolloutState.COMPLETED
    assert "already runs" in done.cause


def test_the_kill_switch_reaches_the_document_and_ends_what_runs(world: World) -> None:
    world.enrol(10, OLD)
    rollout = world.rollout(world.register())
    body = {"killed": True, "reason": "smoke"}
    answer = world.client.post("/releases/v1/kill-switch", token=world.operator, json=body)
    assert answer.status_code == 200
    state = world.state(world.devices[0])
    assert state.killed
    assert state.rollouts == ()
    assert world.look(rollout.id).state is RolloutState.KILLED
    world.client.post("/releases/v1/kill-switch", token=world.operator, json={"killed": False, "reason": "fixed"})
    assert not world.state(world.devices[0]).killed


def test_a_revoked_bundle_is_named_in_the_document_and_cannot_be_released(world: World) -> None:
    world.enrol(10, OLD)
    digest = world.register()
    rollout = world.rollout(digest)
    path = f"/releases/v1/bundles/{digest}/revoke"
    assert world.client.post(path, token=world.operator, json={"reason": "leaked"}).status_code == 200
    assert world.state(world.devices[0]).revoked == (digest,)
    assert world.look(rollout.id).state is RolloutState.KILLED
    body = {"digest": digest, "auto_start": True}
    assert world.client.post(ROLLOUTS, token=world.operator, json=body).status_code == 409


def test_a_stage_without_evidence_pauses_with_an_alert_once_its_time_is_up(world: World) -> None:
    world.enrol(20, OLD)
    rollout = world.rollout(world.register(), silent_after_s=HOUR)
    world.clock.sleep(4 * HOUR)
    ticks.tick_all()
    assert world.look(rollout.id).state is RolloutState.RUNNING, "devices had no real time to poll"
    with transaction() as session:
        past = datetime.now(UTC) - timedelta(hours=1)
        session.execute(text("UPDATE releases.rollout_stages SET entered_at = :past"), {"past": past})
    ticks.tick_all()
    found = world.look(rollout.id)
    assert found.state is RolloutState.PAUSED
    assert found.verdict == "inconclusive"
    assert "0 of 5 devices have reported health" in found.cause
    alerts = world.client.get("/releases/v1/alerts", token=world.operator).json()["items"]
    assert alerts[0]["kind"] == "rollout.paused"


def test_ticks_of_many_workers_at_once_take_one_step(world: World) -> None:
    world.enrol(40, OLD)
    rollout = world.rollout(world.register())
    world.live()
    world.clock.sleep(HOUR + 1)
    with ThreadPoolExecutor(6) as pool:
        moved = list(pool.map(lambda _: ticks.tick(rollout.id), range(6)))
    assert sum(moved) == 1
    found = world.look(rollout.id)
    assert (found.stage, found.version) == (1, 2)
    with transaction() as session:
        assert session.scalar(select(func.count()).select_from(StateDocument)) == 2


def test_a_look_that_says_nothing_new_is_not_stored_again(world: World) -> None:
    world.enrol(20, OLD)
    rollout = world.rollout(world.register())
    for _ in range(3):
        ticks.tick(rollout.id)
    with transaction() as session:
        assert session.scalar(select(func.count()).select_from(DecisionRow)) == 1
    world.live()
    ticks.tick(rollout.id)
    page = world.client.get(f"{ROLLOUTS}/{rollout.id}/decisions", token=world.operator).json()
    assert len(page["items"]) == 2
    newest = page["items"][0]
    assert newest["code_version"] == "verdict-3"
    assert newest["alpha_each"] < 0.05
    assert newest["inputs"]["strata"]["all"]["canary"] > 0


def test_silent_devices_are_counted_against_the_bundle(world: World) -> None:
    world.enrol(120, OLD)
    digest = world.register()
    rollout = world.rollout(digest, stages=[2_500, 10_000], silent_after_s=2 * HOUR)
    with transaction() as session:
        for device in world.devices:
            batch = world.batch(device, [world.event(device, digest, "trial")], [])
            feedback.receive(session, device.id, FeedbackBatch.model_validate(batch), world.clock.now())
    world.clock.sleep(3 * HOUR)
    ticks.tick_all()
    assert world.look(rollout.id).state is RolloutState.RUNNING
    with transaction() as session:
        past = datetime.now(UTC) - timedelta(hours=1)
        session.execute(text("UPDATE releases.exposures SET started_at = :past"), {"past": past})
    ticks.tick_all()
    found = world.look(rollout.id)
    assert found.state is RolloutState.ROLLED_BACK
    assert "silent_devices" in found.cause


def test_every_write_needs_the_scope(world: World) -> None:
    device = world.enrol(1, OLD)[0]
    for path in (
        ROLLOUTS,
        "/releases/v1/kill-switch",
        "/releases/v1/enrolment-tokens",
        "/releases/v1/bundles",
    ):
        assert world.client.post(path, token=device.token, json={}).status_code == 403
        assert world.client.post(path, json={}).status_code == 401


def test_two_starts_for_the_same_devices_at_once_leave_one_running(world: World) -> None:
    world.enrol(10, OLD)
    digests = [world.register() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(world.rollout, digests))
    states = [world.look(rollout.id).state for rollout in made]
    assert states.count(RolloutState.RUNNING) == 1
    assert states.count(RolloutState.ROLLED_BACK) == 3


def test_nothing_starts_while_the_fleet_is_stopped(world: World) -> None:
    world.enrol(4, OLD)
    digest = world.register()
    kill = {"killed": True, "reason": "smoke"}
    world.client.post("/releases/v1/kill-switch", token=world.operator, json=kill)
    answer = world.client.post(ROLLOUTS, token=world.service, json={"digest": digest, "auto_start": True})
    assert answer.status_code == 409
    assert "kill switch is on" in answer.json()["detail"]


def test_a_rollout_whose_tick_fails_does_not_hold_up_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.enrol(160, OLD)
    broken = world.rollout(world.register(), selector={"region": ["unknown"]})
    harmful = world.rollout(world.register())
    look = observed.evidence

    def evidence(session: Session, row: RolloutRow, *rest: Any) -> Evidence:
        if row.id == broken.id:
            raise ArithmeticError("a bug")
        return look(session, row, *rest)

    monkeypatch.setattr(observed, "evidence", evidence)
    state = world.state(world.devices[0])
    entry = next(entry for entry in state.rollouts if entry.id == harmful.id)
    with transaction() as session:
        for device in world.devices:
            if bucket(entry.salt, device.id) < entry.basis_points:
                event = world.event(device, entry.target.digest, "rolled_back", "crash")
                batch = FeedbackBatch.model_validate(world.batch(device, [event], []))
                feedback.receive(session, device.id, batch, world.clock.now())
    ticks.tick_all()
    assert world.look(broken.id).state is RolloutState.RUNNING
    assert world.look(harmful.id).state is RolloutState.ROLLED_BACK
