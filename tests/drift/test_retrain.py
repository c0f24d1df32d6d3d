"""From an alarm to a flow run: outbox, curation's API over HTTP, Prefect's twin over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from contracts.clock import CLOCK_FILE_VARIABLE, set_pace
from contracts.wire.drift import AlarmAction
from services.curation import runs
from services.curation import service as curation_service
from services.curation.limits import CurationSettings
from services.drift import retrain, tasks
from services.drift.limits import DriftSettings
from services.drift.models import Alarm
from services.drift.prefect import FlowsUnavailable, PrefectFlows
from services.kit.clients import ServiceClient
from services.kit.database import transaction
from services.kit.models import OutboxRow
from services.kit.outbox import dispatch, enqueue
from services.kit.settings import settings
from tests.drift.prefect_twin import PrefectTwin
from tests.support.http import LiveServer
from tests.support.messages import segment_json
from tests.support.platform import Tokens

NOW = 20_000 * 86_400.0
HOUR = int(NOW // 3600)


@pytest.fixture(scope="module")
def twin() -> PrefectTwin:
    return PrefectTwin()


@pytest.fixture(scope="module")
def prefect_url(twin: PrefectTwin) -> Iterator[str]:
    with LiveServer(twin.app()) as server:
        yield f"{server.url}/api"


@pytest.fixture(scope="module", autouse=True)
def world(
    live_server: LiveServer, prefect_url: str, tokens: Tokens, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Settings that point at the live application and the twin, and a clock that stands near NOW."""
    clock = tmp_path_factory.mktemp("clock") / "clock.json"
    set_pace(clock, 1e-6, start=NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLOCK_FILE_VARIABLE, str(clock))
        patch.setenv("EDGELOOP_PREFECT_API_URL", prefect_url)
        patch.setenv("EDGELOOP_SERVICE_TOKEN", tokens.service)
        settings.cache_clear()
        yield
    settings.cache_clear()


@pytest.fixture(autouse=True)
def clean(twin: PrefectTwin) -> None:
    twin.runs.clear()
    twin.down = False
    with transaction() as session:
        session.execute(text("TRUNCATE drift.alarms, kit.outbox, curation.segments, curation.training_sets"))
        session.execute(text("TRUNCATE curation.runs CASCADE"))


def raise_alarm(name: str = "a1", created: float = NOW - 60, **changes: object) -> None:
    values: dict[str, object] = {
        "embedding_id": "e1",
        "cohorts": ["npu-4t/mobile"],
        "days": [19_998, 19_999],
        "z": 9.0,
        "d": 1.5,
        "state": "severe",
        "action": "pending",
        "reason": "",
        **changes,
    }
    with transaction() as session:
        session.add(Alarm(id=name, created=created, **values))
        if values["action"] == "pending":
            enqueue(session, "drift.alarm", name, {"alarm_id": name})


def hard_segments(count: int = 30) -> None:
    for index in range(count):
        curation_service.take_segment(_segment(f"s{index}"), NOW)


def _segment(name: str) -> bytes:
    return json.dumps(segment_json(name, hour=HOUR)).encode()


def cluster() -> None:
    with transaction() as session:
        runs.request_run(session, NOW)
    assert curation_service.run_next(NOW, CurationSettings()) is not None


def decide(name: str = "a1", now: float = NOW) -> retrain.Decision | None:
    chosen = settings()
    with (
        ServiceClient(chosen.base_url, chosen.service_token) as curation,
        PrefectFlows(chosen.prefect_api_url) as flows,
    ):
        return retrain.decide_alarm(name, now, curation, flows, DriftSettings(), chosen.retrain_deployment)


def alarm(name: str = "a1") -> Alarm:
    with transaction() as session:
        return session.get_one(Alarm, name)


def test_an_alarm_with_uncovered_hard_clusters_starts_one_flow_run(twin: PrefectTwin) -> None:
    raise_alarm()
    hard_segments()
    cluster()
    assert tasks.TOPIC == "drift.alarm"
    assert dispatch(("drift.alarm",)) == 1
    assert alarm().action == "retrain"
    assert list(twin.runs) == [alarm().flow_run_id]
    run = twin.runs[str(alarm().flow_run_id)]
    assert run["parameters"]["alarm_id"] == "a1"
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", run["parameters"]["traceparent"])
    assert run["idempotency_key"] == "drift-alarm-a1"


def test_an_alarm_waits_for_a_clustering_newer_than_itself_and_asks_for_one(twin: PrefectTwin) -> None:
    raise_alarm()
    hard_segments()
    with pytest.raises(retrain.StillWaiting, match="clustering"):
        decide()
    with pytest.raises(retrain.StillWaiting):
        decide()
    with transaction() as session:
        assert session.scalar(text("SELECT count(*) FROM curation.runs WHERE state = 'requested'")) == 1
    assert curation_service.run_next(NOW, CurationSettings()) is not None
    decision = decide()
    assert decision is not None
    assert decision.action is AlarmAction.RETRAIN
    assert len(twin.runs) == 1


def test_drift_without_hard_examples_is_benign(twin: PrefectTwin) -> None:
    raise_alarm()
    cluster()
    decision = decide()
    assert decision is not None
    assert (decision.action, decision.reason.split(":")[0]) == (AlarmAction.BENIGN, "benign")
    assert twin.runs == {}


def test_a_decision_is_made_once(twin: PrefectTwin) -> None:
    raise_alarm()
    hard_segments()
    cluster()
    assert decide() is not None
    assert decide() is None
    assert len(twin.runs) == 1


def test_a_crash_between_prefect_and_the_database_starts_nothing_twice(
    twin: PrefectTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_alarm()
    hard_segments()
    cluster()

    def power_cut(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(retrain, "_record", power_cut)
        with pytest.raises(RuntimeError, match="power cut"):
            decide()
    assert alarm().action == "pending"
    assert decide() is not None
    assert list(twin.runs) == [alarm().flow_run_id]


def test_while_prefect_is_down_the_alarm_waits_and_then_goes_on(twin: PrefectTwin) -> None:
    raise_alarm()
    hard_segments()
    cluster()
    twin.down = True
    assert dispatch(("drift.alarm",)) == 0
    with transaction() as session:
        waiting = session.query(OutboxRow).one()
        assert waiting.attempts == 1
        assert "Prefect answered 503" in str(waiting.last_error)
        waiting.available_at = datetime.now(UTC) - timedelta(seconds=1)
    assert alarm().action == "pending"
    twin.down = False
    assert dispatch(("drift.alarm",)) == 1
    assert alarm().action == "retrain"


def test_no_second_retraining_while_one_runs_and_none_within_the_cool_down(twin: PrefectTwin) -> None:
    raise_alarm("a1", created=NOW - 60)
    raise_alarm("a2", created=NOW - 60)
    raise_alarm("a3", created=NOW - 60)
    raise_alarm("a4", created=NOW - 60)
    hard_segments()
    cluster()
    decide("a1")
    second = decide("a2", NOW + 30 * 3600)
    assert second is not None
    assert (second.action, "running" in second.reason) == (AlarmAction.COOL_DOWN, True)
    next(iter(twin.runs.values()))["state_type"] = "COMPLETED"
    third = decide("a3", NOW + 3600)
    assert third is not None
    assert "cool-down" in third.reason
    fourth = decide("a4", NOW + 30 * 3600)
    assert fourth is not None
    assert fourth.action is AlarmAction.RETRAIN
    assert len(twin.runs) == 2


def test_a_run_that_failed_releases_the_cool_down_and_one_that_was_cancelled_does_not(twin: PrefectTwin) -> None:
    for name in ("a1", "a2", "a3"):
        raise_alarm(name, created=NOW - 60)
    hard_segments()
    cluster()
    decide("a1")
    run = next(iter(twin.runs.values()))
    run["state_type"] = "CANCELLED"
    second = decide("a2", NOW + 3600)
    assert second is not None
    assert second.action is AlarmAction.COOL_DOWN
    run["state_type"] = "CRASHED"
    third = decide("a3", NOW + 3600)
    assert third is not None
    assert third.action is AlarmAction.RETRAIN
    assert len(twin.runs) == 2


def test_drift_with_hard_examples_that_training_covers_and_no_fall_of_quality_is_benign(twin: PrefectTwin) -> None:
    raise_alarm(quality_fell=False)
    cluster()
    decision = decide()
    assert decision is not None
    assert (decision.action, "quality did not fall" in decision.reason) == (AlarmAction.BENIGN, True)
    assert twin.runs == {}


def test_a_fall_of_quality_without_any_example_is_said_and_starts_nothing(twin: PrefectTwin) -> None:
    raise_alarm(quality_fell=True)
    cluster()
    decision = decide()
    assert decision is not None
    assert decision.action is AlarmAction.NO_EXAMPLES
    assert twin.runs == {}


def test_a_run_that_prefect_left_running_for_ever_counts_as_ended(twin: PrefectTwin, prefect_url: str) -> None:
    with PrefectFlows(prefect_url) as flows:
        run_id = flows.start("retrain/retrain", {"alarm_id": "x"}, "k")
        twin.runs[run_id]["state_type"] = "RUNNING"
        assert not flows.ended(run_id)
        twin.runs[run_id]["created"] = (datetime.now(UTC) - timedelta(hours=7)).isoformat()
        assert flows.ended(run_id)
        assert flows.ended("0" * 8)


def test_an_absent_deployment_says_what_to_start(prefect_url: str) -> None:
    with PrefectFlows(prefect_url) as flows, pytest.raises(FlowsUnavailable, match="serve process"):
        flows.start("retrain/other", {}, "k")


def test_a_flow_engine_that_is_not_there_says_where_it_was_looked_for() -> None:
    with (
        PrefectFlows("http://127.0.0.1:9/api") as flows,
        pytest.raises(FlowsUnavailable, match=r"127\.0\.0\.1:9"),
    ):
        flows.start("retrain/retrain", {}, "k")
