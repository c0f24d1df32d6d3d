"""Looking things up: devices by id, class and bundle, one device's history, the trail by who and what."""

from __future__ import annotations

import pytest

from services.releases import fleet
from services.releases.limits import SearchLimits
from tests.releases.conftest import OLD
from tests.releases.world import World

DEVICES = "/releases/v1/devices"


def ids(world: World, **query: str) -> list[str]:
    answer = world.client.get(DEVICES, token=world.operator, params={"limit": "200", **query})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_devices_are_found_by_the_beginning_of_their_id_by_class_and_by_bundle(world: World) -> None:
    world.enrol(30, OLD)
    everyone = ids(world)
    first = everyone[0]
    assert ids(world, q=first) == [first]
    assert ids(world, q=first[:2]) == [name for name in everyone if name.startswith(first[:2])]
    assert ids(world, q="%") == []
    assert ids(world, q="_" * 32) == []
    assert set(ids(world, running=OLD[:6])) <= set(everyone)
    assert ids(world, running="f" * 96) == []
    assert ids(world, device_class="no-such-class") == []
    assert world.client.get(DEVICES, token=world.operator, params={"running": "x'"}).status_code == 422


def test_devices_are_found_by_a_rule_over_their_tags(world: World) -> None:
    world.enrol(30, OLD)
    items = world.client.get(DEVICES, token=world.operator, params={"limit": "200"}).json()["items"]
    classes = {item["id"]: item["device_class"] for item in items}
    wanted = sorted(name for name, kind in classes.items() if kind == "npu-2t")
    assert ids(world, rule='model == "npu-2t"') == wanted
    assert ids(world, rule='not model == "npu-2t"') == sorted(set(classes) - set(wanted))
    assert ids(world, rule='model == "npu-2t"', q=wanted[0]) == wanted[:1]
    refused = world.client.get(DEVICES, token=world.operator, params={"rule": 'netwrk == "weak"'})
    assert refused.status_code == 422
    assert "network" in refused.json()["detail"]


def test_a_page_of_a_search_by_rule_looks_at_a_bounded_part_of_the_fleet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "SEARCH", SearchLimits(devices=7))
    world.enrol(30, OLD)
    query = {"limit": "200", "rule": 'model == "npu-2t"'}
    seen: list[str] = []
    pages, cursor = 0, None
    while pages == 0 or cursor is not None:
        asked = {**query, **({"cursor": cursor} if cursor else {})}
        answer = world.client.get(DEVICES, token=world.operator, params=asked).json()
        assert len(answer["items"]) <= 7
        seen += [item["id"] for item in answer["items"]]
        pages, cursor = pages + 1, answer["next_cursor"]
    assert pages >= 30 // 7
    assert seen == ids_of_class(world, "npu-2t")


def ids_of_class(world: World, name: str) -> list[str]:
    return ids(world, device_class=name)


def test_one_device_shows_the_rollouts_it_took_part_in_and_its_reports(world: World) -> None:
    world.enrol(40, OLD)
    rollout = world.rollout(world.register())
    world.run(rollout.id, bad_class="npu-2t")
    found = [world.client.get(f"{DEVICES}/{name}", token=world.operator).json() for name in ids(world)]
    tried = [device for device in found if device["trials"]]
    assert tried
    assert {trial["rollout_id"] for device in tried for trial in device["trials"]} == {rollout.id}
    assert any(device["reports"] for device in tried)
    assert world.client.get(f"{DEVICES}/nobody", token=world.operator).status_code == 404


def test_the_trail_is_filtered_by_who_and_by_what_was_done(world: World) -> None:
    world.enrolment_token()
    path, token = "/releases/v1/audit", world.operator
    made = world.client.get(path, token=token, params={"action": "enrolment-token."}).json()["items"]
    assert made
    assert {item["action"] for item in made} == {"enrolment-token.created"}
    who = made[0]["actor"]
    assert world.client.get(path, token=token, params={"actor": who, "action": "enrolment-token"}).json()["items"]
    assert world.client.get(path, token=token, params={"actor": "operator:nobody"}).json()["items"] == []
    assert world.client.get(path, token=token, params={"action": "%"}).json()["items"] == []
