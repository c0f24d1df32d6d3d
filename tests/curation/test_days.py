"""Runs of the service that add a day to what the last one left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from services.curation import applying, runs, service, store, training, window, writing
from services.curation.limits import CurationLimits, CurationSettings
from services.curation.models import Run
from services.kit.database import transaction
from tests.curation.test_pipeline import (  # noqa: F401  # fixtures
    HOUR,
    NOW,
    empty_tables,
    standing_clock,
    two_conditions,
    upload,
)
from tests.curation.test_pipeline import training as training_body
from tests.support.http import ApiClient
from tests.support.platform import Tokens

SETTINGS = CurationSettings(eps=0.1)
DAY = 86_400.0


@pytest.fixture(autouse=True)
def scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scan do even fifty segments."""
    monkeypatch.setattr(runs, "LIMITS", CurationLimits(direct_points=0))


def run(now: float, settings: CurationSettings = SETTINGS) -> Run:
    with transaction() as session:
        runs.request_run(session, now)
    run_id = service.run_next(now, settings)
    with transaction() as session:
        return session.get_one(Run, run_id)


def a_day_later(first: int, count: int = 12) -> None:
    for index in range(first, first + count):
        service.take_segment(upload(f"s{index:03d}", 4 + index % 3, index, hour=HOUR + 24), NOW + DAY)


def summary(found: Run) -> tuple[Any, ...]:
    return found.segments, found.clusters, found.noise, found.kept, found.split, found.digest


def test_a_day_is_added_and_gives_what_clustering_all_anew_gives() -> None:
    two_conditions()
    base = run(NOW)
    assert (base.base_run, base.inserted) == (None, 0)
    a_day_later(25)  # ids already taken change nothing
    a_day_later(100)
    added = run(NOW + DAY)
    assert (added.base_run, added.inserted, added.eps_source) == (base.id, 12, "inherited")
    with transaction() as session:
        session.execute(text("TRUNCATE curation.runs CASCADE"))
    assert summary(run(NOW + DAY)) == summary(added)


def test_a_third_day_builds_on_the_second_and_names_the_full_run() -> None:
    two_conditions()
    base = run(NOW)
    a_day_later(100)
    second = run(NOW + DAY)
    a_day_later(200)
    third = run(NOW + 2 * DAY)
    assert (second.base_run, third.base_run, third.inserted) == (base.id, base.id, 12)


@pytest.mark.parametrize(
    "reason",
    [
        "a week has passed",
        "another eps",
        "eps from the data",
        "another min_samples",
        "a segment is gone",
        "nothing is left",
        "broken",
        "forged",
    ],
)
def test_everything_is_clustered_anew_where_adding_would_be_wrong(reason: str) -> None:
    two_conditions()
    base = run(NOW)
    a_day_later(100)
    now, settings = NOW + DAY, SETTINGS
    if reason == "a week has passed":
        now = NOW + 6.9 * DAY
        with transaction() as session:
            session.execute(text("UPDATE curation.runs SET created = created - 3600 * 24"))
    if reason == "another eps":
        settings = CurationSettings(eps=0.12)
    if reason == "eps from the data":
        settings = CurationSettings()
    if reason == "another min_samples":
        settings = CurationSettings(eps=0.1, min_samples=4)
    if reason == "a segment is gone":
        with transaction() as session:
            session.execute(text("DELETE FROM curation.segments WHERE segment_id = 's003'"))
    if reason == "nothing is left":
        store.forget(base.id)
    if reason == "broken":
        store.store().put(f"curation/known/{base.id}.npz", b"PK not an archive")
    if reason == "forged":
        known = store.recall_known(base.id, base.known)
        assert known is not None
        store.keep(base.id, replace(known, eps=0.3))
    found = run(now, settings)
    assert (found.state, found.base_run, found.inserted) == ("done", None, 0)


def test_only_the_newest_run_leaves_something_behind() -> None:
    two_conditions()
    first = run(NOW)
    a_day_later(100)
    second = run(NOW + DAY)
    assert store.recall_known(first.id, first.known) is None
    assert store.recall_known(second.id, second.known) is not None


def test_in_cells_by_processes_a_run_gives_the_same_plan() -> None:
    two_conditions()
    base = run(NOW)
    with transaction() as session:
        session.execute(text("TRUNCATE curation.runs CASCADE"))
    sharded = run(NOW, CurationSettings(eps=0.1, shards=3))
    assert summary(sharded) == summary(base)


def test_a_cluster_of_machines_that_does_not_answer_fails_the_run_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("services.curation.executors.import_module", missing)
    two_conditions()
    found = run(NOW, CurationSettings(shards=2, dask="tcp://nowhere:1"))
    assert found.state == "failed"
    assert "extra `scale`" in found.error


def few_a_statement(monkeypatch: pytest.MonkeyPatch, limits: CurationLimits) -> None:
    for module in (runs, window, writing, training, applying):
        monkeypatch.setattr(module, "LIMITS", limits)


def test_rows_read_and_written_a_few_at_a_time_are_the_same_rows(
    client: ApiClient, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    def everything() -> list[tuple[Any, ...]]:
        tables = "curation.members m JOIN curation.clusters c ON c.id = m.cluster_id"
        wanted = "SELECT c.label, c.cohorts::text, m.rank, m.segment_id, m.kept, m.vector"
        with transaction() as session:
            return [tuple(row) for row in session.execute(text(f"{wanted} FROM {tables} ORDER BY 1, 3"))]

    two_conditions()
    whole, rows = run(NOW), everything()
    with transaction() as session:
        session.execute(text("TRUNCATE curation.runs CASCADE"))
    few_a_statement(monkeypatch, CurationLimits(direct_points=0, rows=7, coverage_rows=1))
    client.post("/curation/v1/training-vectors", token=tokens.service, json=training_body("seed", {"a": 4, "b": 4}))
    parts = run(NOW)
    assert summary(parts) == summary(whole)
    assert everything() == rows
    assert len(rows) == whole.segments - whole.noise
    assert client.get("/curation/v1/coverage", token=tokens.service).json()["uncovered"] == 1
    path = f"/curation/v1/runs/{parts.id}/apply"
    with monkeypatch.context() as patch:
        patch.setattr("services.curation.api.curation_settings", lambda: SETTINGS)
        answer = client.post(path, token=tokens.operator, json={"digest": parts.digest})
    assert answer.json()["dropped"] == parts.segments - parts.kept


def test_a_window_of_more_than_fit_holds_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    two_conditions()
    for index in range(9):
        service.take_segment(upload(f"old{index}", 8, index, hour=HOUR - 5), NOW)
    few_a_statement(monkeypatch, CurationLimits(direct_points=0, rows=7, window_segments=52))
    with transaction() as session:
        found = window.read_window(session, "e1", HOUR - 24)
    assert len(found.ids) == 52
    assert [name for name in found.ids if name.startswith("old")] == ["old7", "old8"]
    assert found.ids == sorted(found.ids)
