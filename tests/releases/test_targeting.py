"""Rules and layers on the platform: SQL answers as the device does, devices come and go, layers share nobody."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from scipy import stats
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from contracts.state import (
    BUCKETS,
    MAX_DOCUMENT_BYTES,
    MAX_REVOKED,
    MAX_ROLLOUTS,
    DeviceState,
    LayerSlice,
    RolloutEntry,
    Target,
    bucket,
    choose_target,
    sign_state,
)
from contracts.targeting import Rule, holds, render
from contracts.targeting.facts import TAGS, VERSION
from contracts.wire import RolloutState
from services.kit.database import transaction
from services.kit.settings import Settings
from services.releases import checks, observed, rollouts, ticks
from services.releases.domain.slices import first_gap, free_share, gaps
from services.releases.models import Device, RolloutRow
from services.releases.rule_sql import condition
from tests.contracts.rules import SAID, rules
from tests.releases.conftest import OLD
from tests.releases.world import HOUR, FakeDevice, World

ROLLOUTS = "/releases/v1/rollouts"


@pytest.fixture
def crowd(platform: Settings) -> Iterator[Session]:
    """Devices that say all there is to say, and some that say nothing of a tag, in a transaction that never ends."""
    with transaction() as session:
        session.execute(delete(Device))
        for index in range(240):
            said = {name: SAID[(index * step + step) % len(SAID)] for step, name in enumerate((*TAGS, VERSION), 3)}
            tags = {name: said[name] for place, name in enumerate(TAGS) if (index + place) % 5}
            device = Device(id=f"d{index}", public_key=f"k{index}", device_class="x", tags=tags, enrolled=0.0)
            device.agent_version = said[VERSION]
            session.add(device)
        session.flush()
        yield session
        session.rollback()


@settings(
    max_examples=150, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(rule=rules)
def test_the_database_means_whom_the_device_means(crowd: Session, rule: Rule) -> None:
    meant = set(crowd.scalars(select(Device.id).where(condition(rule))))
    said = {row.id: {**row.tags, VERSION: row.agent_version} for row in crowd.scalars(select(Device))}
    assert meant == {device for device, facts in said.items() if holds(rule, facts)}, render(rule)


def test_a_rule_reaches_whom_it_names_and_stands_in_the_document(world: World) -> None:
    good = world.enrol(30, OLD, network="good", scenario="meeting")
    world.enrol(30, OLD, network="weak", scenario="meeting")
    digest = world.register()
    rollout = world.rollout(digest, rule="network  != 'weak' and scenario in ('meeting')", stages=[10_000])
    assert rollout.rule == 'network != "weak" and scenario == "meeting"'
    assert sum(stage.targeted for stage in rollout.stages) == 30
    state = world.state(good[0])
    taking = {one.id for one in world.devices if choose_target(state, one.id, one.tags)}
    assert taking == {one.id for one in good}
    assert state.rollouts[0].selector == {"reads": ("rule",)}, "an older agent passes it over"


def test_a_completed_rule_stands_for_its_devices_and_never_becomes_everybodys_bundle(world: World) -> None:
    world.enrol(10, OLD, network="weak")
    digest = world.register()
    world.enrol(10, digest, network="good")
    done = world.rollout(digest, rule='network == "good"')
    assert done.state is RolloutState.COMPLETED
    state = world.state(world.devices[0])
    assert state.baseline is None
    assert [entry.rule for entry in state.rollouts] == ['network == "good"']


@pytest.mark.parametrize(
    ("body", "slug", "words"),
    [
        ({"rule": 'netwrk == "weak"'}, "bad-selector", "did you mean network?"),
        ({"rule": 'version >= "new"'}, "bad-selector", "character 12"),
        ({"rule": 'network == "mars"'}, "nobody-matches", 'the rule network == "mars" matches none'),
        ({"layer": "nowhere", "layer_share": 100}, "unknown-layer", "layers --add nowhere"),
        ({"layer": "nowhere"}, "bad-selector", "belong together"),
    ],
)
def test_a_start_that_means_nothing_or_nobody_is_refused_with_the_remedy(
    world: World, body: dict[str, Any], slug: str, words: str
) -> None:
    world.enrol(4, OLD)
    request = {"digest": world.register(), "auto_start": True, **body}
    answer = world.client.post(ROLLOUTS, token=world.operator, json=request)
    assert answer.json()["type"] == f"/problems/{slug}", answer.text
    assert words in answer.text.replace("\\", "")
    assert world.client.get(ROLLOUTS, token=world.service).json()["items"] == []


def test_a_device_whose_tags_change_joins_and_leaves_and_is_waited_for_no_more(world: World) -> None:
    world.enrol(60, OLD, network="good")
    digest = world.register()
    rollout = world.rollout(digest, rule='network == "good"', stages=[5_000, 10_000])
    state = world.state(world.devices[0])
    first, second, third = [one for one in world.devices if choose_target(state, one.id, one.tags)][:3]
    for device in (first, second, third):
        world.feedback(device, [world.event(device, digest, "trial")], [])
    world.feedback(third, [world.event(third, digest, "rolled_back", "crash")], [])
    for device in (first, third):
        retag(world, device, network="weak")
    assert choose_target(state, first.id, first.tags) is None, "it goes back to the baseline"
    stage = world.look(rollout.id).stages[0]
    assert (stage.installed, stage.failed, stage.moved) == (2, 1, 1), "who left before it failed is no more counted"
    world.clock.sleep(72 * HOUR)
    ticks.tick_all()
    assert waited_for(world, rollout.id) == 2, "the verdict waits for who stayed, and knows who failed"
    retag(world, first, network="good")
    stage = world.look(rollout.id).stages[0]
    assert (stage.installed, stage.failed, stage.moved) == (3, 1, 0)
    joined = world.enrol(20, OLD, network="weak")
    for device in joined:
        retag(world, device, network="good")
    state = world.state(first)
    assert any(choose_target(state, one.id, one.tags) for one in joined)


def test_who_changes_its_tags_does_not_take_its_failure_away(world: World) -> None:
    world.enrol(60, OLD, network="good")
    digest = world.register()
    rollout = world.rollout(digest, rule='network == "good"', stages=[5_000, 10_000])
    state = world.state(world.devices[0])
    first, second = [one for one in world.devices if choose_target(state, one.id, one.tags)][:2]
    for device in (first, second):
        world.feedback(device, [world.event(device, digest, "trial")], [])
        device.tags = device.tags.model_copy(update={"network": "weak"})
    world.feedback(first, [world.event(first, digest, "rolled_back", "crash")], [])
    retag(world, second, network="weak")
    world.feedback(second, [world.event(second, digest, "rolled_back", "crash")], [])
    stage = world.look(rollout.id).stages[0]
    assert (stage.failed, stage.moved) == (2, 0), "told with the new tags, and later"
    outsider = next(one for one in world.devices if not choose_target(state, one.id, one.tags))
    world.feedback(outsider, [world.event(outsider, digest, "rolled_back", "crash")], [])
    assert world.look(rollout.id).stages[0].failed == 2, "who never began counts for nothing"


def test_a_device_that_updates_its_own_software_joins(world: World) -> None:
    (device, *_) = world.enrol(12, OLD)
    digest = world.register()
    world.enrol(4, digest)
    with transaction() as session:
        for row in session.scalars(select(Device)):
            row.agent_version = "1.3"
        session.get_one(Device, device.id).agent_version = "1.4"
    rollout = world.rollout(digest, rule='version >= "1.4"')
    assert rollout.stages[-1].basis_points == 10_000
    other = world.devices[1]
    batch = {**world.batch(other, [], [world.report(other)]), "agent_version": "1.4.2"}
    assert world.client.post("/releases/v1/feedback", token=other.token, json=batch).status_code == 202
    with transaction() as session:
        assert session.get_one(Device, other.id).agent_version == "1.4.2"
        assert session.get_one(Device, device.id).agent_version == "1.4", "who says nothing keeps what was known"
    state = world.state(other)
    assert choose_target(state, "x", other.tags, "1.3") is None


def layer(world: World, name: str) -> None:
    answer = world.client.post("/releases/v1/layers", token=world.operator, json={"name": name})
    assert answer.status_code == 201, answer.text


def test_rollouts_of_one_layer_share_no_device_and_a_full_layer_says_who_holds_it(world: World) -> None:
    world.enrol(120, OLD)
    layer(world, "denoise")
    made = [
        world.rollout(world.register(), layer="denoise", layer_share=share, stages=[10_000]) for share in (4_000, 5_000)
    ]
    assert [one.layer_slice for one in made] == [(0, 4_000), (4_000, 9_000)]
    state = world.state(world.devices[0])
    counts = []
    for entry in state.rollouts:
        alone = state.model_copy(update={"rollouts": (entry,), "baseline": None})
        counts.append({one.id for one in world.devices if choose_target(alone, one.id, one.tags)})
    assert all(counts)
    assert not counts[0] & counts[1]
    body = {"digest": world.register(), "auto_start": True, "layer": "denoise", "layer_share": 2_000}
    full = world.client.post(ROLLOUTS, token=world.operator, json=body)
    assert full.json()["type"] == "/problems/layer-full"
    assert f"{made[0].id} holds 0-4000" in full.json()["detail"]
    assert "1000 of 10000 buckets free" in full.json()["detail"]
    listed = world.client.get("/releases/v1/layers", token=world.operator).json()["items"]
    assert [claim["rollout"] for claim in listed[0]["claims"]] == [one.id for one in made]
    assert world.act(made[0].id, "rollback").status_code == 200
    assert world.rollout(body["digest"], layer="denoise", layer_share=2_000).layer_slice == (0, 2_000)


def test_a_newer_rollout_for_the_same_devices_takes_over_their_slice(world: World) -> None:
    world.enrol(40, OLD)
    layer(world, "all")
    first = world.rollout(world.register(), layer="all", layer_share=10_000)
    second = world.rollout(world.register(), layer="all", layer_share=10_000)
    assert world.look(first.id).verdict == "superseded"
    assert second.layer_slice == (0, 10_000)


def test_the_same_layer_twice_is_one_layer_and_keeps_its_devices(world: World) -> None:
    layer(world, "twice")
    layer(world, "twice")
    assert len(world.client.get("/releases/v1/layers", token=world.operator).json()["items"]) == 1


def test_slices_of_a_layer_are_disjoint_and_even_and_layers_are_independent() -> None:
    """Chi-square against scipy over 100,000 devices; a layer's salt says nothing about another's."""
    ids = [f"device-{number}" for number in range(100_000)]
    parts = [LayerSlice(salt="l1", low=low, high=low + 1_000) for low in range(0, BUCKETS, 1_000)]
    owners = [[index for index, part in enumerate(parts) if part.holds(one)] for one in ids]
    assert all(len(own) == 1 for own in owners), "every device is in exactly one part"
    sizes = [sum(own[0] == index for own in owners) for index in range(len(parts))]
    assert stats.chisquare(sizes).pvalue > 0.001
    places = [bucket("l1", one) * 10 // BUCKETS for one in ids]
    others = [bucket("l2", one) * 10 // BUCKETS for one in ids]
    table = [[0] * 10 for _ in range(10)]
    for place, other in zip(places, others, strict=True):
        table[place][other] += 1
    assert stats.chi2_contingency(table).pvalue > 0.001
    stages = [bucket(secrets.token_hex(8), one) < 500 for one in ids]
    assert stats.binomtest(sum(stages), len(ids), 0.05).pvalue > 1e-6


def test_free_room_is_what_lies_between_the_slices() -> None:
    taken = [(4_000, 9_000), (0, 1_000)]
    assert list(gaps(taken)) == [(1_000, 4_000), (9_000, 10_000)]
    assert first_gap(taken, 2_000) == 1_000
    assert first_gap(taken, 3_001) is None
    assert free_share(taken) == 4_000
    assert first_gap([], BUCKETS) == 0


def retag(world: World, device: FakeDevice, **tags: str) -> None:
    device.tags = device.tags.model_copy(update=tags)
    assert world.feedback(device, [], [world.report(device)]).status_code == 202


def waited_for(world: World, rollout_id: str) -> int:
    with transaction() as session:
        row = session.get_one(RolloutRow, rollout_id)
        stages = rollouts.stages(session, rollout_id)
        return observed.evidence(session, row, stages, world.clock.now()).pooled.started


def test_a_rule_that_would_fill_the_document_is_refused_and_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices refuse a document beyond its size, and every bundle may yet have to be revoked in it."""
    world.enrol(10, OLD)
    digest = world.register()
    epoch = world.state(world.devices[0]).epoch
    monkeypatch.setattr(checks, "MAX_DOCUMENT_BYTES", checks.MAX_REVOKED * checks.REVOKED_BYTES + 100)
    answer = world.client.post(ROLLOUTS, token=world.operator, json={"digest": digest, "auto_start": True})
    assert answer.status_code == 409
    assert "fill the state document" in answer.json()["detail"]
    assert world.state(world.devices[0]).epoch == epoch
    assert world.client.get(ROLLOUTS, token=world.service).json()["items"] == []


def test_64_rollouts_with_the_longest_rules_and_every_revocation_fit_into_the_document() -> None:
    target = Target(
        path=f"bundles/{'a' * 96}.elb", digest="a" * 96, length=2**31, release_version="1" * 32, security_epoch=9
    )
    rule = " or ".join(['network == "a"'] * 28)
    entry = RolloutEntry(
        id="r-0123456789ab", target=target, salt="0" * 16, basis_points=10_000, rule=rule,
        layer=LayerSlice(salt="0" * 16, low=0, high=10_000), selector={"reads": ("layer", "rule")},
    )  # fmt: skip
    assert len(rule) >= 500
    state = DeviceState(
        epoch=2**40, issued=2**31, expires=2**31, revoked=("b" * 96,) * MAX_REVOKED, rollouts=(entry,) * MAX_ROLLOUTS,
        baseline=target,
    )  # fmt: skip
    document = sign_state(state, Ed25519PrivateKey.generate())
    assert len(document) <= MAX_DOCUMENT_BYTES
    bare = sign_state(state.model_copy(update={"revoked": ()}), Ed25519PrivateKey.generate())
    assert len(document) - len(bare) <= MAX_REVOKED * checks.REVOKED_BYTES
