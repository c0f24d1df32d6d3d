"""Spans: none and nothing imported without an endpoint; with one, each piece of work inside what caused it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from contracts.tracing import span, start_spans, start_trace, stop_spans, traceparent
from contracts.tracing.spans import ENDPOINTS
from services.kit import outbox
from services.kit.database import transaction
from services.kit.settings import Settings
from services.kit.tasks import task
from tests.support.http import ApiClient
from tests.support.platform import Tokens

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
collectors = pytest.importorskip("tests.support.collector")
QUIET = """
import sys
from contracts.tracing import span, start_spans
assert not start_spans("api")
with span("work", answer=42) as here:
    here.rename("other"); here.note(more=1)
assert span("a") is span("b")
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
FORKS = """
import os, sys
from contracts.tracing import span, start_spans, start_trace
assert start_spans("worker")
child = os.fork()
if child == 0:
    start_trace("00-" + "ab" * 16 + "-" + "cd" * 8 + "-01")
    with span("in the child"):
        pass
    sys.stdin.read()
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[collectors.Collector]:
    """A collector that this process sends to."""
    with collectors.Collector() as made:
        for name in ENDPOINTS:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(ENDPOINTS[1], made.url)
        assert start_spans("test")
        yield made
        stop_spans()


def test_without_an_endpoint_a_span_is_nothing_and_nothing_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_request_is_one_span_named_after_its_route(
    collector: collectors.Collector, client: ApiClient, tokens: Tokens
) -> None:
    answer = client.get("/builds/v1/builds/b-secret-name", token=tokens.operator)
    parent = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    client.get("/drift/v1/cohorts", token=tokens.operator, headers={"traceparent": parent})
    client.get("/healthz")
    stop_spans()
    (lost,) = collector.of(answer.headers["x-trace-id"]).values()
    assert (lost.name, lost.parent_id) == ("GET /builds/v1/builds/{build_id}", "")
    assert lost.service == "edgeloop-test"
    assert lost.attributes["http.response.status_code"] == "404"
    (found,) = collector.of("ab" * 16).values()
    assert (found.name, found.parent_id) == ("GET /drift/v1/cohorts", "cd" * 8)
    assert not [one for one in collector.spans if "healthz" in one.name]
    assert "b-secret-name" not in str(collector.spans)


def test_what_a_task_causes_lies_inside_it_through_outbox_and_request(
    collector: collectors.Collector, platform: Settings
) -> None:
    @outbox.handler("span.test")
    def deliver(_key: str, _payload: dict[str, object]) -> None:
        with span("inner"):
            pass

    @task(queue="kit", time_limit=10)
    def spanned_for_test() -> None:
        with transaction() as session:
            outbox.enqueue(session, "span.test", "k", {})

    trace = start_trace()
    spanned_for_test.push_request(traceparent=traceparent())
    spanned_for_test()
    spanned_for_test.pop_request()
    start_trace()
    assert outbox.dispatch(("span.test",)) == 1
    stop_spans()
    by_name = {one.name: one for one in collector.of(trace).values()}
    assert sorted(by_name) == ["inner", "outbox span.test", "task tests.operations.test_spans.spanned_for_test"]
    assert by_name["inner"].parent_id == by_name["outbox span.test"].span_id
    assert by_name["outbox span.test"].parent_id == by_name["task tests.operations.test_spans.spanned_for_test"].span_id


def test_a_failure_is_told_by_its_class_and_never_by_its_words(collector: collectors.Collector) -> None:
    trace = start_trace()
    with pytest.raises(ValueError, match="secret"), span("breaks"):
        raise ValueError("el_1_secret")
    stop_spans()
    (one,) = collector.of(trace).values()
    assert one.failed
    assert "secret" not in str(one)


def test_a_trace_that_its_maker_does_not_record_is_not_recorded_here(collector: collectors.Collector) -> None:
    trace = start_trace("00-" + "12" * 16 + "-" + "34" * 8 + "-00")
    with span("quiet"):
        assert traceparent().endswith("-00")
    stop_spans()
    assert collector.of(trace) == {}


def test_a_collector_that_is_gone_costs_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINTS[1], "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    assert start_spans("test")
    began = time.monotonic()
    for _ in range(5_000):
        with span("work"):
            pass
    assert time.monotonic() - began < 30
    stop_spans()


def test_a_child_of_a_pool_that_forks_sends_its_own_spans(collector: collectors.Collector) -> None:
    given = {**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    pool = subprocess.Popen([sys.executable, "-c", FORKS], env=given, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not collector.of("ab" * 16) and pool.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    _, said = pool.communicate(timeout=60)  # the child lives until its input ends
    assert pool.returncode == 0, said
    assert [(one.service, one.name) for one in collector.of("ab" * 16).values()] == [
        ("edgeloop-worker", "in the child")
    ]
