"""*Models*: from the alarm and its clusters over flow, MLflow run, build and gate to the release."""

from __future__ import annotations

import httpx

from contracts.wire import SearchRecord
from services.dashboard.search import search_figure
from tests.dashboard.conftest import enter
from tests.dashboard.twin import EVIL, Twin


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


def test_the_search_is_a_table_with_the_choice_first_and_a_plot_of_the_same_numbers(
    visitor: httpx.Client, twin: Twin
) -> None:
    text = enter(visitor, "viewer").get("/console/models/b-3").text
    told = SearchRecord.model_validate(twin.searches["b-3"])
    rows = text.split("Networks of the search")[1].split("<tbody>")[1].split("</tbody>")[0].split("<tr>")[1:]
    assert len(rows) == len(told.candidates) == 57
    (chosen,) = (one for one in told.candidates if one.chosen)
    assert chosen.name in rows[0]
    assert "chosen" in rows[0]
    assert f"{chosen.quality_db:.3f}" in rows[0]
    assert f"{chosen.weights:,}" in rows[0]
    assert sum("production" in row for row in rows) == 1
    figure = visitor.get("/fragments/search-figure/b-3").json()
    drawn = {(x, y) for trace in figure["data"] for x, y in zip(trace["x"], trace["y"], strict=True)}
    assert drawn == {(one.latency_ratio, one.quality_db) for one in told.candidates}
    assert figure["limit"] == {"axis": "x", "at": 1.04, "text": "limit 1.04"}
    assert [trace["name"] for trace in figure["data"]] == ["judged", "front", "chosen"]


def test_a_front_goes_from_fast_to_slow_and_gets_better(twin: Twin) -> None:
    figure = search_figure(SearchRecord.model_validate(twin.searches["b-3"]))
    (front,) = (trace for trace in figure["data"] if trace["name"] == "front")
    assert front["x"] == sorted(front["x"])
    assert front["y"] == sorted(front["y"])


def test_a_model_without_a_search_says_so_and_a_service_that_is_down_is_not_none(
    visitor: httpx.Client, twin: Twin
) -> None:
    text = enter(visitor, "viewer").get("/console/models/b-1").text
    assert "Nobody told of a search" in text
    assert "plotly.min.js" not in text
    assert visitor.get("/fragments/search-figure/b-1").json() == {
        "data": [],
        "empty": "No search was told with this build.",
    }
    twin.searches["b-1"] = {"search": EVIL}
    text = visitor.get("/console/models/b-1").text
    assert "does not understand" in text
    assert "Nobody told of a search" not in text
    assert "does not understand" in visitor.get("/fragments/search-figure/b-1").json()["empty"]
