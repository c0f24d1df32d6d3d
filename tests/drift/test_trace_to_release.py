"""One trace from an alarm to the rollout that answers it, as a collector sees it. An upload has a trace of its own.

Thousands of uploads make one alarm, so there is no one trace through them: the alarm's evaluation begins the trace
that Prefect, the flow, the build, the gate and the release go on with.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from celery.signals import before_task_publish

from contracts.tracing import span, start_spans, start_trace, stop_spans
from contracts.tracing.spans import ENDPOINTS
from contracts.wire import BuildRequest, BundleRegistration, RolloutRequest
from flows.platform import Platform
from services.builds.tasks import compile_build, gate_build
from services.kit.outbox import dispatch
from tests.builds import support
from tests.drift.prefect_twin import PrefectTwin
from tests.drift.test_retrain import clean, cluster, hard_segments, prefect_url, raise_alarm, twin, world
from tests.support.http import LiveServer
from tests.support.messages import segment_json
from tests.support.models import quality_qdq, vsr_qdq
from tests.support.platform import Tokens

__all__ = ["clean", "prefect_url", "twin", "world"]
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
collectors = pytest.importorskip("tests.support.collector")
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[collectors.Collector]:
    with collectors.Collector() as made:
        monkeypatch.setenv(ENDPOINTS[1], made.url)
        assert start_spans("test")
        yield made
        stop_spans()


@pytest.fixture
def sent() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Tasks that were sent to the broker, with their headers."""
    found: list[tuple[str, dict[str, Any]]] = []

    def note(sender: str, headers: dict[str, Any], **_: Any) -> None:
        found.append((sender, headers))

    before_task_publish.connect(note)
    yield found
    before_task_publish.disconnect(note)


def _work(sent: list[tuple[str, dict[str, Any]]], build_id: str) -> None:
    """Do what the builds' worker would, task by task, with the headers that came over the broker."""
    for made in (compile_build, gate_build):
        dispatch(("builds.work",))
        name, headers = sent[-1]
        assert name == made.name
        made.push_request(traceparent=headers["traceparent"])
        made(build_id)
        made.pop_request()


def test_an_alarm_its_flow_its_build_and_its_rollout_are_one_trace(
    collector: collectors.Collector,
    sent: list[tuple[str, dict[str, Any]]],
    live_server: LiveServer,
    twin: PrefectTwin,
    tokens: Tokens,
) -> None:
    upload = httpx.post(
        f"{live_server.url}/telemetry/v1/segments",
        json=segment_json("s-traced", hour=int(time.time() // 3_600)),
        headers={"Authorization": f"Bearer {tokens.device('d-1')}"},
        trust_env=False,
    )
    assert upload.status_code == 202, upload.text
    trace = start_trace()
    with span("task drift.evaluate", "consumer"):
        raise_alarm()
    hard_segments()
    cluster()
    start_trace()
    assert dispatch(("drift.alarm",)) == 1
    (run,) = twin.runs.values()

    start_trace(run["parameters"]["traceparent"])
    platform = Platform(live_server.url, tokens.service)
    with span("flow retrain", "consumer"):
        model = vsr_qdq(channels=8, mid=8, blocks=1)
        with span("step build"):
            platform.post_evaluation_set(support.model_set(model))
            request = BuildRequest(name="vsr", release_version="2-a1", targets=("npu-4t",), profiles=((48, 64),))
            build = platform.post_build(request, model, quality_qdq(), support.observer_npz(), "build-a1")
        _work(sent, build.id)
        start_trace(run["parameters"]["traceparent"])
        ended = platform.build(build.id)
        assert ended.state == "passed", ended.message
        with span("step release"):
            platform.register_bundle(BundleRegistration(build_id=build.id))
            rollout = platform.start_rollout(RolloutRequest(digest=ended.digest, reason="retrained"), "rollout-a1")
    platform.close()
    live_server.settle()
    stop_spans()

    assert rollout.id
    spans = collector.of(trace)
    names = {one.name for one in spans.values()}
    assert names >= {
        "task drift.evaluate",
        "outbox drift.alarm",
        "flow retrain",
        "step build",
        "POST /builds/v1/builds",
        "outbox builds.work",
        "task builds.compile_build",
        "task builds.gate_build",
        "step release",
        "POST /releases/v1/bundles",
        "POST /releases/v1/rollouts",
    }
    roots = [one.name for one in spans.values() if one.parent_id not in spans]
    assert roots == ["task drift.evaluate"], "everything lies inside what caused it"
    assert not [one for one in spans.values() if one.failed]
    (taken,) = collector.of(upload.headers["x-trace-id"]).values()
    assert (taken.name, taken.parent_id) == ("POST /telemetry/v1/segments", "")
