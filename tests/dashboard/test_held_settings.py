"""*Settings* beyond drift: what gate, rollouts, hard examples and retention go by, with units and history."""

from __future__ import annotations

import httpx

from services.dashboard.held_settings import SERVICES, shown
from tests.dashboard.conftest import enter
from tests.dashboard.twin import EVIL, Twin
from tests.support.http import ApiClient
from tests.support.platform import Tokens


def test_every_setting_has_its_value_its_unit_and_who_sets_it(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/settings").text
    gate = text.split("<h2>Gate</h2>")[1].split("</section>")[0]
    assert "quantisation_drop_db" in gate
    assert "dB PSNR" in gate
    assert "the release" in gate
    eyes = text.split("EDGELOOP_FOUR_EYES")[0].rsplit("<tr>", 1)[1]
    assert "on" in eyes
    assert '<span class="tag">set</span>' in eyes
    assert "not set" in text.split("EDGELOOP_CURATION_EPS")[0].rsplit("<tr>", 1)[1]
    assert EVIL not in text


def test_the_history_says_what_changed_and_which_build_was_judged_first(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/settings").text
    rows = text.split("History of gate")[1].split("<tbody>")[1].split("</tbody>")[0].split("<tr>")[1:]
    assert len(rows) == 2
    assert "build b-3" in rows[0]
    assert "0.2 → 0.15" in rows[0]
    assert "size_bytes" not in rows[0]
    assert "the first that is known" in rows[1]


def test_a_service_that_is_down_costs_its_own_part(visitor: httpx.Client, twin: Twin) -> None:
    twin.down.add("/releases")
    text = enter(visitor, "viewer").get("/console/settings").text
    assert text.count("the database does not answer") == 1
    assert "quantisation_drop_db" in text
    assert "kept_days" in text


def test_values_read_like_values() -> None:
    assert [shown(value) for value in (2e6, 0.15, 1.0, True, False, None, "auto")] == [
        "2,000,000",
        "0.15",
        "1",
        "on",
        "off",
        "",
        "auto",
    ]


def test_every_service_tells_what_it_goes_by_and_only_to_readers(client: ApiClient, tokens: Tokens) -> None:
    told = {}
    for service in SERVICES:
        path = f"/{service}/v1/held-settings"
        assert client.get(path).status_code == 401
        assert client.get(path, token=tokens.device("d-1")).status_code == 403
        for section in client.get(path, token=tokens.operator).json()["sections"]:
            told[section["name"]] = {item["name"]: item for item in section["items"]}
            assert all(item["unit"] or item["meaning"] for item in section["items"]), section["name"]
    assert told["gate"]["quantisation_drop_db"]["value"] == 0.15
    assert told["intake and retention"]["kept_days"]["value"] == 30
    assert told["rollouts: defaults"]["stages"]["value"] == "500, 2500, 10000"
    assert told["rollouts: verdict"]["alpha"]["value"] == 0.05
    assert told["rollouts: agreement and sealing"]["four_eyes"]["variable"] == "EDGELOOP_FOUR_EYES"
    assert told["hard examples: clusters and coverage"]["covered_share"]["value"] == 0.95
