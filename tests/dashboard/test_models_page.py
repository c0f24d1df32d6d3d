"""*Models*: from the alarm and its clusters over flow, MLflow run, build and gate to the release."""

from __future__ import annotations

import httpx

from tests.dashboard.conftest import enter
from tests.dashboard.twin import Twin


def test_models_are_listed_with_where_they_stand(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/models").text
    assert 'href="/console/models/b-3"' in text
    assert "5f0c2f" in text
    assert "production" in text


def test_one_model_shows_its_way_from_data_to_devices(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/models/b-3").text
    rail = text.split('class="lineage"')[1].split("</ol>")[0]
    steps = [rail.index(word) for word in ("al-1", "run-42", "5f0c2f", "2 of 2", "2026.11.3", "r-2")]
    assert steps == sorted(steps)
    assert 'href="/console/flows/run-42"' not in text  # a run's key is no id of Prefect
    assert 'href="/console/rollouts/r-2"' in text
    assert 'href="/console/bundles/b-3"' in text
    assert "corpus" in text
    assert "d" * 64 in text


def test_a_run_that_is_named_after_an_alarm_leads_to_it_its_cohorts_and_its_flow(
    visitor: httpx.Client, twin: Twin
) -> None:
    long = "0123456789abcdef0123456789abcdef"
    twin.alarms = [twin.alarms[0].model_copy(update={"id": long, "flow_run_id": "7d0e"})]
    lineage = {"run": f"alarm-{long[:20]}"}
    twin.builds["b-1"] = twin.builds["b-1"].model_copy(update={"lineage": lineage, "digest": ""})
    rail = enter(visitor, "viewer").get("/console/models/b-1").text.split('class="lineage"')[1].split("</ol>")[0]
    assert long in rail
    assert 'href="/console/drift/npu-4t/indoor-night"' in rail
    assert 'href="/console/clusters?cohort=npu-2t/indoor-night"' in rail
    assert 'href="/console/flows/7d0e"' in rail
    twin.down.add("/drift")
    text = visitor.get("/console/models/b-1").text
    assert "the database does not answer" in text
    assert "not told" in text


def test_int8_stands_beside_fp32_per_evaluation_set(visitor: httpx.Client) -> None:
    text = enter(visitor, "viewer").get("/console/models/b-2").text
    table = text.split("INT8 against")[1]
    assert "9.310" in table
    assert "0.150" in table
    assert "quantisation.drop" in table
    none = visitor.get("/console/models/b-3").text
    assert "The gate compared nothing with FP32" in none


def test_a_step_that_is_unknown_or_down_is_said_and_not_shown_as_done(visitor: httpx.Client, twin: Twin) -> None:
    enter(visitor, "viewer")
    twin.builds["b-1"] = twin.builds["b-1"].model_copy(update={"lineage": {}, "digest": "c" * 96})
    rail = visitor.get("/console/models/b-1").text.split('class="lineage"')[1].split("</ol>")[0]
    assert rail.count("not told") >= 2
    assert "not released" in rail
    twin.down.add("/releases")
    text = visitor.get("/console/models/b-3").text
    assert "the database does not answer" in text
    assert "not released" not in text
    assert visitor.get("/console/models/nobody").status_code == 404
    twin.down = {"/builds"}
    assert "the database does not answer" in visitor.get("/console/models").text
