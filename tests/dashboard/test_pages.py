"""What the page shows, and to whom."""

from __future__ import annotations

import re

import httpx
import pytest

from services.dashboard.api import FRAGMENTS
from tests.dashboard.twin import EVIL, Twin

PAGES = ("/", "/console/rollouts/r-2", "/console/builds/b-2", "/console/rollouts/r-2/pause", "/console/kill-switch")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_without_session_leads_to_the_login_and_back(visitor: httpx.Client, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/login?next={path}"


def test_a_fragment_without_session_is_401(visitor: httpx.Client) -> None:
    assert visitor.get("/fragments/fleet").status_code == 401


def test_a_wrong_token_is_told_so_and_opens_nothing(visitor: httpx.Client) -> None:
    answer = visitor.post("/login", data={"token": "el_0_wrong"})
    assert answer.status_code == 401
    assert "unknown, expired or revoked" in answer.text
    assert "set-cookie" not in answer.headers


def test_the_login_returns_to_a_page_of_this_site_only(visitor: httpx.Client) -> None:
    for foreign in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        assert "evil" not in visitor.get("/login", params={"next": foreign}).text


@pytest.mark.parametrize("path", [*PAGES, "/login"])
def test_every_page_forbids_inline_and_foreign_content(operator: httpx.Client, path: str) -> None:
    answer = operator.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son[a-z]+=|<style", answer.text)
    assert not re.search(r"(src|href|action)=\"(https?:)?//", answer.text)


def test_the_overview_shows_every_part_of_the_loop(operator: httpx.Client) -> None:
    text = operator.get("/").text
    for words in ("240 devices", "2 of 5 drift", "1 covered by training", "running at 25 %", "no person needed"):
        assert words in text
    for words in ("2026.11.3", "47 of 60 confirmed, 1 failed", "6.4 sigma", "production", "0.91 MB"):
        assert words in text


def test_an_alarm_says_where_the_mean_went_and_what_changed_outside(operator: httpx.Client) -> None:
    text = operator.get("/fragments/drift").text
    assert "direction 4 (-0.61 sd), direction 9 (+0.40 sd)" in text
    assert "outside -0.12" in text


@pytest.mark.parametrize("name", FRAGMENTS)
def test_every_panel_can_be_asked_for_alone(operator: httpx.Client, name: str) -> None:
    answer = operator.get(f"/fragments/{name}")
    assert answer.status_code == 200
    assert "<html" not in answer.text


def test_an_unknown_panel_is_404(operator: httpx.Client) -> None:
    assert operator.get("/fragments/secrets").status_code == 404


def test_what_services_say_is_escaped(operator: httpx.Client) -> None:
    for path in ("/", "/console/builds/b-2"):
        assert EVIL not in operator.get(path).text
    assert "&lt;script&gt;alert(1)" in operator.get("/console/builds/b-2").text


def test_a_failed_check_names_value_limit_and_cause(operator: httpx.Client) -> None:
    text = operator.get("/console/builds/b-2").text
    for words in ("quantisation.drop@npu-4t/360x640/normal", "9.31", "0.15", "calibration"):
        assert words in text


def test_one_service_that_is_down_costs_its_own_panel_only(operator: httpx.Client, twin: Twin) -> None:
    twin.down.add("/drift")
    answer = operator.get("/")
    assert answer.status_code == 200
    assert "the database does not answer" in answer.text
    assert "1 of 5 sources do not answer" in answer.text
    assert "240 devices" in answer.text


def test_a_source_that_is_down_never_counts_as_good(operator: httpx.Client, twin: Twin) -> None:
    twin.down.add("/releases")
    loop = operator.get("/fragments/loop").text
    assert loop.count('class="station unknown"') == 6  # fleet, release and verdict, in two pictures
    assert "station good" not in loop.split("Fleet</text>")[0]


def test_a_platform_without_anything_says_what_to_do_next(operator: httpx.Client, twin: Twin) -> None:
    empty = Twin()
    for name in ("rollouts", "devices", "days", "alarms", "alerts", "clusters", "builds"):
        setattr(twin, name, getattr(empty, name))
    text = operator.get("/").text
    for words in ("No device yet", "No rollout yet", "No build yet", "No alarm", "No cluster"):
        assert words in text


def test_a_stopped_fleet_is_said_before_anything_else(operator: httpx.Client, twin: Twin) -> None:
    assert "The kill switch is on" not in operator.get("/").text
    twin.killed = True
    assert "The kill switch is on" in operator.get("/fragments/loop").text


def test_only_the_newest_look_of_each_metric_is_shown(operator: httpx.Client, twin: Twin) -> None:
    rollout = twin.rollouts["r-2"]
    older = rollout.metrics[0].model_copy(update={"at": 1.0, "verdict": "harm", "estimate": 777.0})
    twin.rollouts["r-2"] = rollout.model_copy(update={"metrics": (older, *rollout.metrics)})
    assert "+777" not in operator.get("/console/rollouts/r-2").text
    worse = older.model_copy(update={"at": 9e12})
    twin.rollouts["r-2"] = rollout.model_copy(update={"metrics": (*rollout.metrics, worse)})
    text = operator.get("/fragments/rollouts/r-2").text
    assert text.index("+777") < text.index("fidelity")


def test_a_rollout_page_says_whom_it_is_for_and_who_approved_it(operator: httpx.Client, twin: Twin) -> None:
    change = {
        "selector": {},
        "rule": 'network != "weak"',
        "layer": "denoise",
        "layer_slice": (0, 2_500),
        "created_by": "service:flows",
        "approved_by": "operator:bob",
    }
    twin.rollouts["r-2"] = twin.rollouts["r-2"].model_copy(update=change)
    text = operator.get("/console/rollouts/r-2").text
    assert "every device" not in text
    assert "<code>network != &#34;weak&#34;</code>; layer denoise, 25 %" in text
    assert "service:flows, approved by operator:bob" in text


def test_a_rollout_that_does_not_exist_is_404_in_words(operator: httpx.Client) -> None:
    answer = operator.get("/console/rollouts/r-99")
    assert answer.status_code == 404
    assert "rollout r-99 is unknown" in answer.text


def test_the_chart_is_data_without_code(operator: httpx.Client) -> None:
    figure = operator.get("/fragments/drift-figure").json()
    assert len(figure["data"]) == 5
    assert figure["data"][0]["name"] == "npu-4t/indoor-night"
    assert figure["limit"] == {"axis": "y", "at": 3.5, "text": "alarm at 3.5 sigma"}


def test_static_files_are_kept_for_a_year_under_their_hash_and_packed(operator: httpx.Client) -> None:
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', operator.get("/").text)
    assert any("plotly.min.js" in address for address in addresses)
    for address in set(addresses):
        answer = operator.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip"


def test_a_file_that_is_not_on_the_list_is_404(operator: httpx.Client) -> None:
    assert operator.get("/static/x/..%2Fapi.py").status_code == 404
    assert operator.get("/static/x/api.py").status_code == 404
