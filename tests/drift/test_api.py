"""The drift API and its tasks on the real application, database and Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from contracts.clock import CLOCK_FILE_VARIABLE, set_pace
from contracts.wire.drift import CohortList, DriftAlarmList, DriftStanding, DriftState
from services.drift import tasks
from services.kit import streams
from services.kit.database import transaction
from services.kit.settings import Settings, settings
from tests.drift.reports import fleet_day, observer
from tests.support.http import ApiClient, LiveServer
from tests.support.platform import Tokens

FIRST = 20_000
COHORTS = ("npu-4t/mobile", "npu-4t/office", "npu-2t/office")


@pytest.fixture(scope="module", autouse=True)
def lived(
    platform: Settings, client: ApiClient, tokens: Tokens, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Four days of a fleet whose mobile cohort drifts from the third on, through stream, tasks and API."""
    clock = tmp_path_factory.mktemp("clock") / "clock.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLOCK_FILE_VARIABLE, str(clock))
        set_pace(clock, 1e-6, start=(FIRST + 0.5) * 86_400)
        body = observer().to_bytes()
        answer = client.post("/drift/v1/observers", token=tokens.service, content=body)
        assert answer.json() == {"embedding_id": "e1", "duplicate": False}
        for day in range(FIRST, FIRST + 4):
            set_pace(clock, 1e-6, start=(day + 0.5) * 86_400)
            _report(day)
        set_pace(clock, 1e-6, start=(FIRST + 4.5) * 86_400)
        yield
    with transaction() as session:
        session.execute(text("TRUNCATE drift.alarms, drift.thresholds, kit.outbox"))


def _report(day: int) -> None:
    for cohort in COHORTS:
        shift = 0.4 if cohort == COHORTS[0] and day >= FIRST + 2 else 0.0
        for body in fleet_day(cohort, day, 62, shift):
            streams.publish(tasks.STREAM, {"id": "1", "cohort": cohort, "embedding_id": "e1", "body": body})
    while tasks.ingest_reports():
        pass


def test_an_operator_judges_complete_days_and_reads_the_verdicts(client: ApiClient, tokens: Tokens) -> None:
    assert client.get("/drift/v1/cohorts", token=tokens.operator).json() == {"items": [], "next_cursor": None}
    run = client.post("/drift/v1/evaluations", token=tokens.operator).json()
    assert run["days"] == list(range(FIRST, FIRST + 4))
    assert len(run["alarms"]) == 1
    assert client.post("/drift/v1/evaluations", token=tokens.operator).json() == {"days": [], "alarms": []}
    assert tasks.evaluate_complete_days() == 0
    cohorts = CohortList.model_validate(client.get("/drift/v1/cohorts", token=tokens.operator).json())
    assert {item.cohort: item.alarmed for item in cohorts.items} == {
        COHORTS[0]: True,
        COHORTS[1]: False,
        COHORTS[2]: False,
    }
    alarms = DriftAlarmList.model_validate(client.get("/drift/v1/alarms", token=tokens.operator).json())
    assert alarms.items[0].cohorts == (COHORTS[0],)
    assert alarms.items[0].days == (FIRST + 2, FIRST + 3)


def test_the_series_has_every_cohort_day_in_order_and_in_pages(client: ApiClient, tokens: Tokens) -> None:
    client.post("/drift/v1/evaluations", token=tokens.operator)
    seen, cursor = [], None
    while True:
        params = {"limit": 5} | ({"cursor": cursor} if cursor else {})
        page = client.get("/drift/v1/series", token=tokens.operator, params=params).json()
        seen += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [(one["day"], one["cohort"]) for one in seen] == sorted(
        (day, cohort) for day in range(FIRST, FIRST + 4) for cohort in COHORTS
    )
    one = client.get("/drift/v1/series", token=tokens.operator, params={"cohort": COHORTS[0], "from_day": FIRST + 2})
    points = one.json()["items"]
    assert [point["state"] for point in points] == [DriftState.SEVERE, DriftState.SEVERE]
    assert all(point["reason"] and point["z"] > 3.5 and point["p"] < 2.4e-4 for point in points)
    empty = client.get("/drift/v1/series", token=tokens.operator, params={"embedding_id": "other"}).json()
    assert empty["items"] == []


@pytest.mark.parametrize(
    ("bounds", "names"),
    [
        ({"from_cohort": "npu-4t/a"}, {COHORTS[0], COHORTS[1]}),
        ({"to_cohort": "npu-2t/office"}, {COHORTS[2]}),
        ({"from_cohort": COHORTS[0], "to_cohort": COHORTS[0]}, {COHORTS[0]}),
        ({"from_cohort": "z"}, set()),
    ],
)
def test_the_series_of_a_page_of_cohorts_is_bounded_by_their_names(
    client: ApiClient, tokens: Tokens, bounds: dict[str, str], names: set[str]
) -> None:
    client.post("/drift/v1/evaluations", token=tokens.operator)
    items = client.get("/drift/v1/series", token=tokens.operator, params=bounds).json()["items"]
    assert {item["cohort"] for item in items} == names
    assert len(items) == 4 * len(names)


def test_drift_at_a_glance_is_what_the_list_of_cohorts_says_with_the_loudest_first(
    client: ApiClient, tokens: Tokens
) -> None:
    token = tokens.operator
    listed = CohortList.model_validate_json(client.get("/drift/v1/cohorts", token=token).content).items
    found = DriftStanding.model_validate_json(client.get("/drift/v1/standing", token=token).content)
    assert found.cohorts == len(listed) == len(COHORTS)
    assert found.alarmed == sum(one.alarmed for one in listed) == 1
    assert found.severe == sum(one.latest is not None and one.latest.state is DriftState.SEVERE for one in listed)
    assert found.loudest[0].cohort == COHORTS[0]
    plain = {"residual": None, "directions": ()}
    shown = {one.cohort: one.latest.model_copy(update=plain) for one in listed if one.latest is not None}
    assert {one.cohort: one.latest for one in found.loudest} == shown
    assert len(found.alarms) == 1
    pages = [client.get("/drift/v1/cohorts", token=token, params={"limit": 1}).json()]
    while pages[-1]["next_cursor"]:
        asked = {"limit": 1, "cursor": pages[-1]["next_cursor"]}
        pages.append(client.get("/drift/v1/cohorts", token=token, params=asked).json())
    assert [page["items"][0]["cohort"] for page in pages] == sorted(COHORTS)


def test_the_chart_gets_the_last_days_of_the_loudest_cohorts_and_alarms_are_picked_by_cohort(
    client: ApiClient, tokens: Tokens
) -> None:
    token = tokens.operator
    rows = client.get("/drift/v1/loudest", token=token, params={"days": 2, "cohorts": 1}).json()["items"]
    assert [(row["cohort"], row["day"]) for row in rows] == [(COHORTS[0], FIRST + 2), (COHORTS[0], FIRST + 3)]
    picked = {name: client.get("/drift/v1/alarms", token=token, params={"cohort": name}).json() for name in COHORTS}
    assert [len(picked[name]["items"]) for name in COHORTS] == [1, 0, 0]


def test_an_observer_is_registered_once_and_never_changed(client: ApiClient, tokens: Tokens) -> None:
    body = observer().to_bytes()
    again = client.post("/drift/v1/observers", token=tokens.service, content=body)
    assert again.json()["duplicate"] is True
    changed = observer()
    object.__setattr__(changed, "tau", 2.0)
    other = client.post("/drift/v1/observers", token=tokens.service, content=changed.to_bytes())
    assert other.status_code == 409
    assert "new embedding id" in other.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"no npz", b"PK\x03\x04" + bytes(100)])
def test_a_body_that_is_no_observer_is_refused(client: ApiClient, tokens: Tokens, body: bytes) -> None:
    answer = client.post("/drift/v1/observers", token=tokens.service, content=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_oversized_observer_is_refused_before_it_is_read(client: ApiClient, tokens: Tokens) -> None:
    answer = client.post("/drift/v1/observers", token=tokens.service, content=bytes(1_000_001))
    assert answer.status_code == 413


def test_devices_and_strangers_may_not_look(client: ApiClient, tokens: Tokens) -> None:
    assert client.get("/drift/v1/alarms").status_code == 401
    assert client.get("/drift/v1/alarms", token=tokens.device("d1")).status_code == 403
    assert client.post("/drift/v1/evaluations", token=tokens.device("d1")).status_code == 403


def test_thresholds_of_a_cohort_are_versioned_audited_and_used_by_the_next_verdict(
    client: ApiClient, tokens: Tokens
) -> None:
    """sagemaker-python-sdk#2628: a threshold that nobody can override."""
    client.post("/drift/v1/evaluations", token=tokens.operator)
    loose = {"cohorts": "npu-4t/*", "values": {"d_warn": 50.0, "d_severe": 60.0, "js_warn": 0.6}, "reason": "a trial"}
    first = client.post("/drift/v1/thresholds", token=tokens.operator, json=loose).json()
    own = {"cohorts": COHORTS[1], "values": {"min_devices": 2_000}, "reason": "too few to say"}
    second = client.post("/drift/v1/thresholds", token=tokens.operator, json=own).json()
    assert second["id"] > first["id"]
    listed = client.get("/drift/v1/thresholds", token=tokens.operator, params={"limit": 1}).json()
    assert [one["cohorts"] for one in listed["items"]] == [COHORTS[1]]
    assert listed["next_cursor"]
    with transaction() as session:
        acts = session.execute(text("SELECT subject FROM kit.audit WHERE action = 'drift.thresholds'")).scalars()
        assert {"cohorts:npu-4t/*", f"cohorts:{COHORTS[1]}"} <= set(acts)
        session.execute(text("DELETE FROM drift.evaluations WHERE day = :day"), {"day": FIRST + 3})
    client.post("/drift/v1/evaluations", token=tokens.operator)
    params = {"from_day": FIRST + 3}
    points = client.get("/drift/v1/series", token=tokens.operator, params=params).json()["items"]
    found = {one["cohort"]: (one["state"], one["thresholds"]) for one in points}
    assert found == {
        COHORTS[0]: ("stable", first["id"]),
        COHORTS[1]: ("insufficient_data", second["id"]),
        COHORTS[2]: ("stable", None),
    }


@pytest.mark.parametrize(
    "change",
    [
        {"cohorts": "npu-4t", "values": {}, "reason": "no scenario"},
        {"cohorts": "npu-4t/mobile", "values": {"d_warn": -1}, "reason": "negative"},
        {"cohorts": "npu-4t/mobile", "values": {"js_warn": 0.7}, "reason": "over ln 2"},
        {"cohorts": "npu-4t/mobile", "values": {"false_discovery_rate": 0.5}, "reason": "the day's, not a cohort's"},
        {"cohorts": "npu-4t/mobile", "values": {}, "reason": ""},
    ],
)
def test_thresholds_that_make_no_sense_are_refused(
    client: ApiClient, tokens: Tokens, change: dict[str, object]
) -> None:
    assert client.post("/drift/v1/thresholds", token=tokens.operator, json=change).status_code == 422


def test_reports_and_releases_of_drift_are_lists(client: ApiClient, tokens: Tokens) -> None:
    for path in ("/drift/v1/calibrations", "/drift/v1/rebases"):
        assert client.get(path, token=tokens.operator).json() == {"items": [], "next_cursor": None}
        assert client.get(path, token=tokens.device("d1")).status_code == 403


def test_tasks_write_the_weekly_report_and_notice_releases(live_server: LiveServer, tokens: Tokens) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_SERVICE_TOKEN", tokens.service)
        settings.cache_clear()
        assert tasks.notice_releases() == 0
        assert tasks.report_false_alarms() == 0
    settings.cache_clear()


def test_refused_reports_are_listed_by_reason(client: ApiClient, tokens: Tokens) -> None:
    future = fleet_day(COHORTS[0], FIRST + 20, 2)
    for body in future:
        streams.publish(tasks.STREAM, {"id": "1", "cohort": COHORTS[0], "embedding_id": "e1", "body": body})
    tasks.ingest_reports()
    listed = client.get("/drift/v1/rejected", token=tokens.operator).json()
    assert [(one["reason"], one["reports"]) for one in listed] == [("future", 2)]


def test_settings_are_listed_with_units_and_what_a_cohort_may_have(client: ApiClient, tokens: Tokens) -> None:
    items = client.get("/drift/v1/settings", token=tokens.operator).json()["items"]
    named = {item["name"]: item for item in items}
    assert named["z_threshold"]["value"] == 3.5
    assert named["z_threshold"]["by_cohort"]
    assert "nats" in named["js_severe"]["meaning"]
    assert not named["weekly_budget"]["by_cohort"]
