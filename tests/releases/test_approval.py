"""Four eyes: who may say yes, what waits for it, and what the audit trail keeps of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contracts.wire import Rollout, RolloutState
from services.releases import service
from tests.releases.conftest import OLD
from tests.releases.test_cli import run, state
from tests.releases.world import World
from tests.support.platform import Tokens

__all__ = ["state"]


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting of the platform: two people decide."""
    monkeypatch.setattr(service, "needs_second_person", lambda: True)


@pytest.fixture
def bob(tokens: Tokens) -> str:
    """A second operator; `world.operator` is alice."""
    return tokens.make("operator", "bob")


def draft(world: World, **options: Any) -> Rollout:
    world.enrol(20, OLD)
    return world.rollout(world.register(), token=world.operator, **options)


def test_without_the_setting_nothing_waits_and_a_second_opinion_is_still_possible(world: World, bob: str) -> None:
    made = draft(world, auto_start=False)
    approved = world.act(made.id, "approve", token=bob).json()
    assert approved["state"] == "approved", "its maker wanted a draft, so it does not start by itself"
    assert world.act(made.id, "start").json()["state"] == "running"
    assert world.rollout(world.register()).state is RolloutState.RUNNING


@pytest.mark.usefixtures("two")
def test_an_unattended_release_waits_for_a_person_and_then_starts(world: World, bob: str) -> None:
    world.enrol(20, OLD)
    made = world.rollout(world.register())
    assert made.state is RolloutState.DRAFT
    assert "approval" in made.cause
    alerts = world.client.get("/releases/v1/alerts", token=world.operator).json()["items"]
    assert (alerts[0]["kind"], alerts[0]["subject"]) == ("rollout.waiting", f"rollout:{made.id}")
    assert world.state(world.devices[0]).rollouts == ()
    answer = world.act(made.id, "start")
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/not-approved")
    started = world.act(made.id, "approve", token=bob).json()
    assert (started["state"], started["approved_by"], started["created_by"]) == (
        "running", "operator:bob", "service:loop",
    )  # fmt: skip
    assert len(world.state(world.devices[0]).rollouts) == 1


@pytest.mark.usefixtures("two")
def test_who_made_the_rollout_or_its_bundle_cannot_approve_it(world: World, tokens: Tokens, bob: str) -> None:
    made = draft(world)
    for token, words in (
        (world.operator, "operator:alice made the rollout"),
        (tokens.make("operator", "alice"), "operator:alice made the rollout"),
        (world.service, "a service cannot approve"),
    ):
        answer = world.act(made.id, "approve", token=token)
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/not-approved")
        assert words in answer.json()["detail"]
    digest = world.upload(bob)
    by_alice = world.rollout(digest, token=world.operator)
    assert "operator:bob made its bundle" in world.act(by_alice.id, "approve", token=bob).json()["detail"]
    assert world.look(by_alice.id).state is RolloutState.DRAFT


@pytest.mark.usefixtures("two")
def test_the_audit_trail_says_who_made_it_and_who_approved_it_and_why(world: World, bob: str) -> None:
    made = draft(world)
    world.act(made.id, "approve", token=bob)
    path = f"/releases/v1/audit?subject=rollout:{made.id}"
    trail = world.client.get(path, token=world.operator).json()["items"]
    assert [(one["action"], one["actor"]) for one in reversed(trail)] == [
        ("rollout.created", "operator:alice"),
        ("rollout.approved", "operator:bob"),
        ("rollout.started", "operator:bob"),
    ]
    assert trail[1]["detail"] == {"why": "a test", "created_by": "operator:alice"}


@pytest.mark.usefixtures("two")
def test_a_rejected_rollout_is_over_and_never_offered_again(world: World, bob: str) -> None:
    """A denied action is offered again with every poll (hawkBit 1667): here no is no."""
    made = draft(world)
    assert world.act(made.id, "reject", token=bob).json()["state"] == "killed"
    for verb in ("approve", "start", "reject"):
        assert world.act(made.id, verb, token=bob).status_code == 409
    assert world.state(world.devices[0]).rollouts == ()


def test_a_running_rollout_cannot_be_rejected(world: World) -> None:
    made = draft(world)
    answer = world.act(made.id, "reject")
    assert answer.status_code == 409
    assert "roll it back" in answer.json()["detail"]


@pytest.mark.usefixtures("two")
def test_of_two_who_approve_what_they_saw_one_wins(world: World, tokens: Tokens) -> None:
    made = draft(world)
    people = [tokens.make("operator", name) for name in ("bob", "carol", "dave")]
    headers = {"If-Match": f'"{made.version}"'}
    with ThreadPoolExecutor(3) as pool:
        codes = list(
            pool.map(lambda one: world.act(made.id, "approve", token=one, headers=headers).status_code, people)
        )
    assert sorted(codes) == [200, 412, 412]
    assert world.look(made.id).human_actions == 2


@pytest.mark.usefixtures("two")
def test_an_approval_of_what_has_changed_since_is_refused(world: World, bob: str) -> None:
    made = draft(world)
    answer = world.act(made.id, "approve", token=bob, headers={"If-Match": f'"{made.version + 1}"'})
    assert answer.status_code == 412


def test_a_revoked_bundle_takes_its_waiting_rollouts_with_it(world: World) -> None:
    made = draft(world, auto_start=False)
    path = f"/releases/v1/bundles/{made.digest}/revoke"
    assert world.client.post(path, token=world.operator, json={"reason": "broken"}).status_code == 200
    assert world.look(made.id).state is RolloutState.KILLED


def test_the_command_approves_and_shows_who_did(world: World, state: Any, bob: str) -> None:
    made = draft(world, auto_start=False)
    run(state, "approve", made.id, "-m", "own work", code=1)
    run(state, "approve", made.id, "--token", bob, "-m", "looked at it")
    assert "approved by operator:bob" in run(state, "show", made.id)
    other = draft(world, auto_start=False)
    assert "killed" in run(state, "reject", other.id, "--token", bob)


def test_release_notes_and_provenance_come_back_as_they_were_given(world: World, state: Any, tmp_path: Any) -> None:
    notes = "# 2.1\n\n- less noise in low light\n- **1.3 dB** better"
    digest = world.upload(world.operator, notes=notes)
    found = world.client.get(f"/releases/v1/bundles/{digest}", token=world.service).json()
    assert (found["notes"], found["created_by"], found["revoked"]) == (notes, "operator:alice", False)
    shown = run(state, "bundle", digest[:16])
    assert "less noise in low light" in shown
    for bad in ("x" * 4_001, "bell\x07", "\x1b[31mred"):
        assert world.try_upload(world.operator, notes=bad).status_code == 422
