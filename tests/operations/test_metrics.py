"""What Prometheus reads: requests, tasks and the platform's own state, on a port of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from embedded.ports import free_port
from services.kit import heartbeat, metrics, outbox, streams, tracing
from services.kit.database import transaction
from services.kit.models import OutboxRow
from services.kit.settings import Settings, settings
from services.kit.tasks import celery_app, task
from services.operations.exporter import PlatformCollector
from services.operations.readings import READINGS
from tests.support.http import ApiClient
from tests.support.platform import Tokens

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"


@pytest.fixture
def port(platform: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    number = free_port()
    monkeypatch.setenv("EDGELOOP_METRICS_PORT", str(number))
    settings.cache_clear()
    yield number
    monkeypatch.undo()
    settings.cache_clear()


def scrape() -> dict[str, dict[tuple[str, ...], float]]:
    """Every sample that the exporter gives, by name and label values."""
    registry = CollectorRegistry()
    registry.register(PlatformCollector())
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_the_public_application_has_no_metrics(client: ApiClient, tokens: Tokens) -> None:
    assert client.get("/metrics", token=tokens.operator).status_code == 404


def test_a_request_is_counted_under_its_route_and_never_under_its_path(client: ApiClient, port: int) -> None:
    assert metrics.serve("api") == port
    client.get("/builds/v1/builds/secret-name")
    client.get("/no/such/path-of-an-attacker")
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    assert 'route="/v1/builds/{build_id}",service="builds",status="401"' in text
    assert 'route="other",service="",status="404"' in text
    assert "secret-name" not in text
    assert "attacker" not in text
    assert 'edgeloop_build_info{process="api"' in text


def test_a_metrics_port_that_is_taken_costs_the_metrics_only(client: ApiClient, port: int) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert metrics.serve("api") == 0


def test_the_exporter_reads_the_platform(platform: Settings, tokens: Tokens) -> None:
    with transaction() as session:
        outbox.enqueue(session, "nobody.listens", "k1", {})
    celery_app.send_task("nobody.runs", queue="builds")
    heartbeat.beat_once("worker", 0.0)
    found = scrape()
    assert found["edgeloop_exporter_failed_readings"][()] == 0
    assert found["edgeloop_outbox_waiting_messages"][("nobody.listens",)] == 1
    assert found["edgeloop_queue_waiting_tasks"][("builds",)] == 1
    assert found["edgeloop_background_processes"] == {("beat",): 0, ("worker",): 1}
    assert found["edgeloop_database_bytes"][()] > 0
    assert ("drift", "telemetry.reports") in found["edgeloop_stream_lag_messages"]


def test_a_source_that_is_down_costs_its_readings_only(platform: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELOOP_REDIS_URL", "redis://127.0.0.1:1/0")
        settings.cache_clear()
        found = scrape()
    settings.cache_clear()
    assert found["edgeloop_exporter_failed_readings"][()] == 4
    assert found["edgeloop_database_bytes"][()] > 0


def test_every_metric_is_documented_and_no_other_is() -> None:
    ours = {reading.name + ("_total" if reading.counter else "") for reading in READINGS}
    ours |= {"edgeloop_exporter_failed_readings", "edgeloop_build_info"}
    for metric in vars(metrics).values():
        if hasattr(metric, "describe") and getattr(metric, "_name", "").startswith("edgeloop"):
            ours.add(metric._name + {"counter": "_total"}.get(metric._type, ""))
    assert ours | agent_metrics() == set(re.findall(r"^\| `(edgeloop_[a-z_]+)`", REFERENCE.read_text(), re.MULTILINE))


def agent_metrics() -> set[str]:
    from edge_agent.exposition import METRICS

    return {metric.name for metric in METRICS}


def test_a_task_is_counted_and_goes_on_with_the_trace_of_its_sender(platform: Settings) -> None:
    seen: list[str] = []

    @task(queue="kit", time_limit=10)
    def traced_for_test() -> None:
        seen.append(tracing.current_trace_id())

    name = "tests.operations.test_metrics.traced_for_test"
    before = metrics.TASK_RUNS.labels(name, "succeeded")._value.get()
    trace = tracing.start_trace()
    traced_for_test.push_request(traceparent=tracing.traceparent())
    tracing.start_trace()
    traced_for_test()
    traced_for_test.pop_request()
    assert metrics.TASK_RUNS.labels(name, "succeeded")._value.get() == before + 1
    assert seen == [trace]
    carried: dict[str, str] = {}
    from services.kit.tasks import carry_trace

    tracing.start_trace(f"00-{trace}-00f067aa0ba902b7-01")
    carry_trace(headers=carried)
    assert trace in carried["traceparent"]


def test_a_trace_goes_through_outbox_and_stream(platform: Settings) -> None:
    seen: list[str] = []

    @outbox.handler("trace.test")
    def deliver(key: str, payload: dict[str, object]) -> None:
        seen.append(tracing.current_trace_id())
        streams.publish("trace.stream", {"key": key})

    trace = tracing.start_trace()
    with transaction() as session:
        outbox.enqueue(session, "trace.test", "k", {})
    with transaction() as session:
        assert trace in session.query(OutboxRow).filter_by(topic="trace.test").one().traceparent
    tracing.start_trace()
    assert outbox.dispatch(("trace.test",)) == 1
    tracing.start_trace()
    streams.consume("trace.stream", "test", lambda message: seen.append(tracing.current_trace_id()))
    assert seen == [trace, trace]


def test_a_device_writes_its_state_for_a_node_exporter() -> None:
    from edge_agent.exposition import exposition

    report = {"running": '1.2"3', "waiting": 4, "last": {"frames": 90, "killed": False, "slot_state": "confirmed"}}
    text = exposition(report)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["edgeloop_agent_info"].samples[0].labels["version"] == '1.2"3'
    assert families["edgeloop_agent_frames"].samples[0].value == 90
    assert families["edgeloop_agent_outbox_messages"].samples[0].value == 4
    assert "edgeloop_agent_confirmed" not in families, "what is unknown is not written as zero"
