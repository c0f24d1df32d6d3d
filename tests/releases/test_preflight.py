"""The look ahead says what a start would do, writes nothing, and agrees with the start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import func, select

from contracts.wire.releases import RolloutState
from services.kit.database import transaction
from services.kit.models import AuditEntry
from services.releases import preflight, rollouts
from services.releases.models import RolloutRow, StageRow
from tests.releases.conftest import OLD
from tests.releases.test_cli import run, state
from tests.releases.world import World

__all__ = ["state"]
PATH = "/releases/v1/rollout-preflights"


def ahead(world: World, digest: str, token: str | None = None, **options: Any) -> dict[str, Any]:
    answer = world.client.post(PATH, token=token or world.operator, json={"digest": digest, **options})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_it_counts_who_matches_who_runs_it_already_and_who_is_left_out_and_why(world: World) -> None:
    digest = world.register()
    world.enrol(20, OLD, region="eu")
    world.enrol(6, digest, region="eu")
    world.enrol(4, "", region="eu")
    world.enrol(10, OLD, region="us")
    found = ahead(world, digest, selector={"region": ["eu"]})
    assert (found["enrolled"], found["matching"], found["already"]) == (40, 30, 6)
    assert (found["on_another_bundle"], found["on_no_bundle"]) == (20, 4)
    assert found["by_class"] == {"npu-2t": 15, "npu-4t": 15}
    assert found["excluded"] == {"region is none of eu": 10}
    assert found["obstacles"] == []
    assert found["stages"][-1] == {"basis_points": 10_000, "devices": 30}


def test_it_says_who_the_rule_the_layer_the_class_and_silence_leave_out(world: World) -> None:
    digest = world.register()
    world.enrol(20, OLD, network="good")
    world.enrol(6, OLD, network="weak")
    world.enrol(5, OLD, network="good", device_class="npu-8t")
    world.client.post("/releases/v1/layers", token=world.operator, json={"name": "a"})
    holder = world.rollout(world.register(), rule='device_class != "npu-8t"', layer="a", layer_share=5_000)
    found = ahead(world, digest, rule='network == "good" and version < "9"', layer="a", layer_share=5_000)
    excluded = found["excluded"]
    assert excluded['the rule wants network == "good"'] == 6
    held = excluded[f"layer a: held by {holder.id}"]
    foreign = excluded["the bundle has no program for npu-8t"]
    assert found["matching"] + held == 25
    assert 0 < foreign <= 5
    assert "5 of class npu-8t" in found["obstacles"][0] or f"{foreign} of class npu-8t" in found["obstacles"][0]
    assert found["silent"] == 0
    world.clock.sleep(72 * 3_600)
    world.live()
    world.clock.sleep(72 * 3_600)
    for device in world.devices[:4]:
        world.feedback(device, [], [world.report(device)])
    later = ahead(world, digest, rule='network == "good"')
    assert later["silent"] == 25 - 4, "who reported is not silent"
    world.state(world.devices[5])
    again = ahead(world, digest, rule='network == "good"')
    assert again["silent"] == 25 - 5, "neither is who polled"


def test_a_full_layer_is_an_obstacle(world: World) -> None:
    world.enrol(20, OLD)
    world.client.post("/releases/v1/layers", token=world.operator, json={"name": "b"})
    world.rollout(world.register(), rule='device_class == "npu-2t"', layer="b", layer_share=9_000)
    found = ahead(world, world.register(), layer="b", layer_share=2_000)
    assert "1000 of 10000 buckets free" in found["obstacles"][0]


def test_it_writes_nothing(world: World) -> None:
    world.enrol(10, OLD)
    digest = world.register()

    def counts() -> list[int | None]:
        with transaction() as session:
            return [session.scalar(select(func.count()).select_from(one)) for one in (RolloutRow, StageRow, AuditEntry)]

    before = counts()
    ahead(world, digest)
    assert counts() == before


def test_its_obstacles_are_the_refusals_of_the_start(world: World) -> None:
    world.enrol(10, OLD)
    foreign = world.register(targets=("npu-8t",))
    (words,) = ahead(world, foreign)["obstacles"]
    answer = world.client.post(
        "/releases/v1/rollouts", token=world.operator, json={"digest": foreign, "auto_start": True}
    )
    assert answer.json()["detail"] == words
    nobody = ahead(world, world.register(), selector={"region": ["mars"]})
    assert "matches none" in nobody["obstacles"][0]
    assert nobody["stages"] == []
    world.client.post("/releases/v1/kill-switch", token=world.operator, json={"killed": True, "reason": "smoke"})
    assert any("kill switch is on" in one for one in ahead(world, world.register())["obstacles"])


def test_it_names_the_rollout_that_would_be_superseded(world: World) -> None:
    world.enrol(10, OLD)
    running = world.rollout(world.register())
    assert ahead(world, world.register())["supersedes"] == running.id
    assert world.look(running.id).state is RolloutState.RUNNING


def test_a_clean_answer_is_a_start_that_works(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start draws a salt of its own, which moves the widened stages a little; here both draw the same."""
    drawn = SimpleNamespace(token_hex=lambda size: "5a" * size)
    monkeypatch.setattr(preflight, "secrets", drawn)
    monkeypatch.setattr(rollouts, "secrets", drawn)
    world.enrol(60, OLD)
    digest = world.register()
    found = ahead(world, digest)
    assert found["obstacles"] == []
    started = world.rollout(digest)
    assert [stage.basis_points for stage in started.stages] == [stage["basis_points"] for stage in found["stages"]]
    assert sum(stage.targeted for stage in started.stages[:1]) > 0


def test_the_command_shows_it_and_leaves_with_one_when_the_start_is_forbidden(world: World, state: Any) -> None:
    digest = world.register()
    assert "matches none" in run(state, "start", digest, "--check", code=1)
    world.enrol(10, OLD)
    assert "10 of 10 devices match" in run(state, "start", digest, "--check")
    run(state, "start", "r-123", "--check", code=2)
