"""A plan is applied exactly as it was read, once, and never against the platform's own guards."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from services.curation import ingest
from services.curation.domain.digest import plan_digest
from services.curation.limits import CurationSettings
from services.kit.audit import entries
from services.kit.database import transaction
from tests.curation.test_pipeline import (  # noqa: F401  # fixtures
    HOUR,
    NOW,
    SETTINGS,
    cluster,
    empty_tables,
    standing_clock,
    two_conditions,
    upload,
)
from tests.support.http import ApiClient
from tests.support.platform import Tokens


def planned(client: ApiClient, tokens: Tokens) -> dict[str, Any]:
    run_id = cluster(client, tokens)
    run: dict[str, Any] = client.get(f"/curation/v1/runs/{run_id}", token=tokens.operator).json()
    return run


def applied(client: ApiClient, tokens: Tokens, run: dict[str, Any], digest: str | None = None) -> Any:
    body = {"digest": digest or run["digest"]}
    return client.post(f"/curation/v1/runs/{run['id']}/apply", token=tokens.operator, json=body)


def dropped() -> set[str]:
    with transaction() as session:
        rows = session.execute(text("SELECT segment_id FROM curation.segments WHERE dropped_by IS NOT NULL"))
        return {row[0] for row in rows}


def test_applying_drops_exactly_what_the_plan_does_not_keep(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run = planned(client, tokens)
    assert dropped() == set()
    answer = applied(client, tokens, run)
    assert answer.status_code == 200
    done = answer.json()
    assert done["dropped"] == run["segments"] - run["kept"] == len(dropped()) > 0
    kept = {
        member["segment_id"]
        for item in client.get("/curation/v1/clusters", token=tokens.service).json()["items"]
        for member in client.get(f"/curation/v1/clusters/{item['id']}", token=tokens.service).json()["listed"]
        if member["kept"]
    }
    assert not kept & dropped()
    listed = client.get("/curation/v1/segments", token=tokens.service, params={"limit": 200}).json()["items"]
    assert {item["segment_id"] for item in listed if item["dropped"]} == dropped()


def test_applying_again_changes_nothing_and_is_written_down_once(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run = planned(client, tokens)
    first, again = applied(client, tokens, run), applied(client, tokens, run)
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    with transaction() as session:
        acts = [one for one in entries(session, subject=f"curation-run:{run['id']}") if one.action == "curation.apply"]
    assert len(acts) == 1
    assert acts[0].detail == {"digest": run["digest"], "kept": run["kept"], "dropped": first.json()["dropped"]}


def test_another_digest_is_refused_and_nothing_is_dropped(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    answer = applied(client, tokens, planned(client, tokens), "0" * 64)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/plan-mismatch")
    assert dropped() == set()


def test_a_plan_that_was_changed_behind_its_digest_is_refused(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run = planned(client, tokens)
    with transaction() as session:
        session.execute(text("UPDATE curation.members SET kept = false"))
    answer = applied(client, tokens, run)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/plan-mismatch")
    assert dropped() == set()


def test_a_plan_that_a_newer_run_has_overtaken_is_stale(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    old = planned(client, tokens)
    with transaction() as session:
        session.execute(text("UPDATE curation.runs SET created = created - 60"))
    planned(client, tokens)
    answer = applied(client, tokens, old)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/plan-stale")
    assert "is newer" in answer.json()["detail"]
    assert dropped() == set()


def test_a_plan_of_yesterday_is_stale(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run = planned(client, tokens)
    with transaction() as session:
        session.execute(text("UPDATE curation.runs SET created = created - 25 * 3600"))
    answer = applied(client, tokens, run)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/plan-stale")


def test_a_run_without_a_plan_cannot_be_applied(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run = client.post("/curation/v1/runs", token=tokens.operator).json()
    answer = applied(client, tokens, run, "0" * 64)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/plan-not-ready")
    missing = client.post("/curation/v1/runs/none/apply", token=tokens.operator, json={"digest": "0" * 64})
    assert missing.status_code == 404


def test_a_plan_that_would_wipe_out_a_device_class_is_refused_by_the_settings_of_now(
    client: ApiClient, tokens: Tokens
) -> None:
    two_conditions()
    run = planned(client, tokens)
    strict = CurationSettings(most_dropped=0.2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.curation.api.curation_settings", lambda: strict)
        answer = applied(client, tokens, run)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/would-wipe-out")
    assert "npu-4t" in answer.json()["detail"]
    assert dropped() == set()


def test_who_may_only_read_may_not_apply(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run = planned(client, tokens)
    path, body = f"/curation/v1/runs/{run['id']}/apply", {"digest": run["digest"]}
    assert client.post(path, json=body).status_code == 401
    assert client.post(path, token=tokens.device("d1"), json=body).status_code == 403


def test_applying_changes_no_label_of_the_next_plan_and_a_later_plan_may_keep_again(
    client: ApiClient, tokens: Tokens
) -> None:
    two_conditions()
    first = planned(client, tokens)
    applied(client, tokens, first)
    with transaction() as session:
        session.execute(text("UPDATE curation.runs SET created = created - 60"))
        session.execute(text("UPDATE curation.segments SET dropped_by = 'older' WHERE segment_id = 's006'"))
    second = planned(client, tokens)
    assert (second["digest"], second["segments"]) == (first["digest"], first["segments"])
    assert "s006" in dropped()
    applied(client, tokens, second)
    assert len(dropped()) == second["dropped"] or len(dropped()) == second["segments"] - second["kept"]
    with transaction() as session:
        stale = session.scalar(text("SELECT count(*) FROM curation.segments WHERE dropped_by = 'older'"))
    assert stale == 0


def test_dropped_segments_leave_with_the_window_and_kept_ones_stay(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run = planned(client, tokens)
    gone = applied(client, tokens, run).json()["dropped"]
    for days, left in ((13, 50), (15, 50 - gone), (31, 0)):
        with transaction() as session:
            ingest.sweep(session, NOW + days * 86_400, SETTINGS)
            assert session.scalar(text("SELECT count(*) FROM curation.segments")) == left


def test_the_digest_tells_every_choice_apart_and_no_order() -> None:
    plan = [("a", 0, True), ("b", 0, False), ("c", 1, True)]
    assert plan_digest(plan) == plan_digest(reversed(plan))
    others = ([("a", 0, True), ("b", 0, True), ("c", 1, True)], [("a", 0, True), ("b", 1, False), ("c", 1, True)])
    assert len({plan_digest(plan), *(plan_digest(other) for other in others)}) == 3
