"""From uploads to clusters and coverage on a real database, Redis and the application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, text

from contracts.clock import CLOCK_FILE_VARIABLE, set_pace
from contracts.features import pack_codes, segment_vector
from contracts.wire.curation import ClusterList, ClusterMap, CoverageState, CurationRun
from services.curation import runs, service, tasks, writing
from services.curation.limits import CurationLimits, CurationSettings
from services.curation.models import ClusterRow, Member, RejectedSegment, Run, Segment
from services.kit import streams
from services.kit.database import transaction
from services.kit.settings import Settings
from tests.support.http import ApiClient
from tests.support.messages import segment_json
from tests.support.platform import Tokens

NOW = 20_000 * 86_400.0 + 7_200
HOUR = int(NOW // 3600)
SETTINGS = CurationSettings()


@pytest.fixture(scope="module", autouse=True)
def standing_clock(platform: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The platform's clock stands near NOW."""
    clock = tmp_path_factory.mktemp("clock") / "clock.json"
    set_pace(clock, 1e-6, start=NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLOCK_FILE_VARIABLE, str(clock))
        yield


@pytest.fixture(autouse=True)
def empty_tables(platform: Settings) -> None:
    """Each test begins with an empty service."""
    with transaction() as session:
        session.execute(
            text("TRUNCATE curation.segments, curation.training_sets, curation.evaluation_sets, curation.rejected")
        )
        session.execute(text("TRUNCATE curation.runs CASCADE"))
    streams.connection().delete(tasks.STREAM)


def codes_near(level: int, seed: int) -> np.ndarray:
    """Feature codes (2, 6, 10, 16) around a level 0..15, with a little noise."""
    noise = np.random.default_rng(seed).integers(-1, 2, size=(2, 6, 10, 16))
    return np.clip(level + noise, 0, 15).astype(np.uint8)


def upload(name: str, level: int, seed: int, **changes: Any) -> bytes:
    codes = pack_codes(codes_near(level, seed))
    fields: dict[str, Any] = {"frames": 2, "hour": HOUR, "codes": codes, "score_mean": 1.0, **changes}
    document = segment_json(name, **fields)
    return json.dumps(document).encode()


def two_conditions() -> None:
    """Twenty segments around level 4, thirty around level 11."""
    for index in range(50):
        level = 4 if index < 20 else 11
        service.take_segment(upload(f"s{index:03d}", level, index, score_mean=float(index % 7)), NOW)


def cluster(client: ApiClient, tokens: Tokens) -> str:
    asked = client.post("/curation/v1/runs", token=tokens.operator)
    assert asked.status_code == 202
    assert asked.json()["state"] == "requested"
    assert service.run_next(NOW, SETTINGS) == asked.json()["id"]
    return str(asked.json()["id"])


def training(revision: str, levels: dict[str, int], parent: str | None = None) -> dict[str, Any]:
    """Training vectors: for each video a few segments around its level."""
    vectors = [
        {"video": video, "condition": "c", "vector": segment_vector(codes_near(level, 900 + 100 * index + n)).tolist()}
        for index, (video, level) in enumerate(levels.items())
        for n in range(20)
    ]
    return {"revision": revision, "parent": parent, "vectors": vectors}


def count(model: type) -> int:
    with transaction() as session:
        return session.scalar(select(func.count()).select_from(model)) or 0


def test_segments_become_clusters_that_the_api_shows(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    run_id = cluster(client, tokens)
    answer = client.get("/curation/v1/clusters", token=tokens.service).json()
    listed = ClusterList.model_validate(answer)
    assert listed.run_id == run_id
    assert sorted(item.members for item in listed.items) == [20, 30]
    assert listed.items[0].cohorts == {"npu-4t/meeting": listed.items[0].members}
    detail = client.get(f"/curation/v1/clusters/{listed.items[0].id}", token=tokens.service).json()
    scores = [member["score_mean"] for member in detail["listed"]]
    assert scores == sorted(scores, reverse=True)
    assert len(detail["member_vectors"]) == listed.items[0].members
    assert detail["medoid"] in detail["member_vectors"]
    assert sum(member["kept"] for member in detail["listed"]) in (10, 11)
    run = client.get(f"/curation/v1/runs/{run_id}", token=tokens.service).json()
    assert CurationRun.model_validate(run).clusters == 2
    assert (run["state"], run["segments"], run["noise"]) == ("done", 50, 0)


def test_clusters_of_a_cohort_are_those_with_members_of_it(client: ApiClient, tokens: Tokens) -> None:
    for index in range(50):
        level, scene = (4, "street") if index < 20 else (11, "office")
        tags = {"device_class": "npu-4t", "scenario": scene}
        service.take_segment(upload(f"s{index:03d}", level, index, tags=tags), NOW)
    cluster(client, tokens)
    street = client.get("/curation/v1/clusters", token=tokens.service, params={"cohort": "npu-4t/street"}).json()
    assert [item["cohorts"] for item in street["items"]] == [{"npu-4t/street": 20}]
    nobody = client.get("/curation/v1/clusters", token=tokens.service, params={"cohort": "npu-4t/' OR 1"}).json()
    assert nobody["items"] == []
    whole = client.get("/curation/v1/clusters", token=tokens.service).json()["items"]
    drawn = ClusterMap.model_validate(client.get("/curation/v1/cluster-map", token=tokens.service).json())
    assert [(one.id, one.members, list(one.centroid)) for one in drawn.items] == [
        (one["id"], one["members"], one["centroid"]) for one in whole
    ]
    assert drawn.complete
    picked = client.get("/curation/v1/cluster-map", token=tokens.service, params={"cohort": "npu-4t/street"}).json()
    assert [one["id"] for one in picked["items"]] == [one["id"] for one in street["items"]]


def test_the_clips_that_stand_in_for_a_cluster_are_the_nearest_and_say_how_many_they_reach(
    client: ApiClient, tokens: Tokens
) -> None:
    two_conditions()
    cluster(client, tokens)
    clusters = client.get("/curation/v1/clusters", token=tokens.service).json()["items"]
    low = next(item for item in clusters if item["members"] == 20)
    high = next(item for item in clusters if item["members"] == 30)
    path = "/curation/v1/clusters/{}/stand-ins"
    bare = client.get(path.format(low["id"]), token=tokens.service).json()
    assert (bare["revision"], bare["items"], bare["members"]) == ("", [], 0)
    client.post("/curation/v1/training-vectors", token=tokens.service, json=training("seed", {"a": 4, "b": 4}))
    near = client.get(path.format(low["id"]), token=tokens.service).json()
    assert (near["revision"], near["members"], near["further"]) == ("seed", 20, 0)
    assert {item["video"] for item in near["items"]} <= {"a", "b"}
    assert sum(item["members"] for item in near["items"]) == 20
    covered = client.get(f"/curation/v1/clusters/{low['id']}", token=tokens.service).json()["coverage"]["covered"]
    assert sum(item["reached"] for item in near["items"]) == covered
    assert all(item["nearest"] <= near["eps_cov"] for item in near["items"] if item["reached"])
    far = client.get(path.format(high["id"]), token=tokens.service).json()
    assert sum(item["reached"] for item in far["items"]) == 0
    client.post("/curation/v1/training-vectors", token=tokens.service, json=training("m2", {"c": 11}, parent="seed"))
    now = client.get(path.format(high["id"]), token=tokens.service).json()
    assert {(item["revision"], item["video"]) for item in now["items"]} == {("m2", "c")}
    assert client.get(path.format("nobody"), token=tokens.service).status_code == 404


def test_coverage_rises_when_the_missing_condition_is_trained_on(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    cluster(client, tokens)
    bare = client.get("/curation/v1/coverage", token=tokens.service).json()
    assert (bare["clusters"], bare["uncovered"], bare["before"]) == (2, 2, None)
    client.post("/curation/v1/training-vectors", token=tokens.service, json=training("seed", {"a": 4, "b": 4}))
    first = client.get("/curation/v1/coverage", token=tokens.service).json()
    assert first["uncovered"] == 1
    assert 0.3 < first["after"]["share"] <= 20 / 50
    more = training("m2", {"c": 11, "d": 11}, parent="seed")
    answer = client.post("/curation/v1/training-vectors", token=tokens.service, json=more)
    assert answer.status_code == 200
    after = client.get("/curation/v1/coverage", token=tokens.service).json()
    assert (after["before"]["revision"], after["after"]["revision"]) == ("seed", "m2")
    assert after["before"]["share"] == first["after"]["share"]
    assert after["after"]["share"] >= 0.9
    assert after["uncovered"] == 0
    assert after["after"]["eps_cov"] <= after["before"]["eps_cov"]
    states = {
        item["coverage"]["state"] for item in client.get("/curation/v1/clusters", token=tokens.service).json()["items"]
    }
    assert states == {CoverageState.COVERED}


def test_a_run_after_training_knows_before_and_after_too(client: ApiClient, tokens: Tokens) -> None:
    for body in (training("seed", {"a": 4, "b": 4}), training("m2", {"c": 11, "d": 11}, parent="seed")):
        client.post("/curation/v1/training-vectors", token=tokens.service, json=body)
    two_conditions()
    run_id = cluster(client, tokens)
    report = client.get("/curation/v1/coverage", token=tokens.service, params={"run_id": run_id}).json()
    assert report["before"]["share"] <= 0.4
    assert report["after"]["share"] >= 0.9


def test_posting_a_training_set_again_is_the_same_and_another_under_its_name_is_refused(
    client: ApiClient, tokens: Tokens
) -> None:
    body = training("seed", {"a": 4, "b": 4})
    first = client.post("/curation/v1/training-vectors", token=tokens.service, json=body).json()
    again = client.post("/curation/v1/training-vectors", token=tokens.service, json=body).json()
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    other = client.post("/curation/v1/training-vectors", token=tokens.service, json=training("seed", {"a": 5}))
    assert other.status_code == 409
    assert other.json()["type"] == "/problems/revision-conflict"


def test_lists_come_in_pages(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    cluster(client, tokens)
    for path in ("/curation/v1/segments", "/curation/v1/clusters"):
        seen, cursor = [], None
        while True:
            params = {"limit": 1 if "clusters" in path else 20} | ({"cursor": cursor} if cursor else {})
            page = client.get(path, token=tokens.service, params=params).json()
            seen += [item.get("segment_id") or item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert len(seen) == len(set(seen)) == (2 if "clusters" in path else 50)


def test_nothing_is_shown_before_the_first_run_and_unknown_names_are_404(client: ApiClient, tokens: Tokens) -> None:
    assert client.get("/curation/v1/clusters", token=tokens.service).json()["items"] == []
    assert client.get("/curation/v1/coverage", token=tokens.service).json()["created"] is None
    for path in ("/curation/v1/clusters/none-1", "/curation/v1/runs/none", "/curation/v1/coverage?run_id=none"):
        answer = client.get(path, token=tokens.service)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


def test_devices_and_strangers_may_not_look(client: ApiClient, tokens: Tokens) -> None:
    assert client.get("/curation/v1/clusters").status_code == 401
    assert client.get("/curation/v1/clusters", token=tokens.device("d1")).status_code == 403
    assert client.post("/curation/v1/runs", token=tokens.device("d1")).status_code == 403


def test_the_stream_is_consumed_once_and_bad_messages_are_counted_apart() -> None:
    good, broken = upload("s1", 4, 1), json.dumps(segment_json("s2", codes="????", frames=1)).encode()
    future = upload("s3", 4, 1, hour=HOUR + 48)
    for body in (good, broken, future, good):
        streams.publish(tasks.STREAM, {"id": "1", "cohort": "c", "embedding_id": "e1", "body": body})
    assert tasks.ingest_segments() == 4
    assert (count(Segment), count(RejectedSegment)) == (1, 2)
    with transaction() as session:
        assert {row.reason for row in session.scalars(select(RejectedSegment))} == {"malformed", "future"}
    assert streams.lag(tasks.STREAM, tasks.GROUP) == 0


def test_only_the_window_and_the_newest_embedding_are_clustered(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    for index in range(5):
        service.take_segment(upload(f"old{index}", 8, index, hour=HOUR - 24 * 8), NOW)
        service.take_segment(upload(f"other{index}", 8, index, embedding_id="e0", hour=HOUR - 2), NOW)
    cluster(client, tokens)
    with transaction() as session:
        run = session.scalars(select(Run)).one()
        assert (run.embedding_id, run.segments, run.other_embeddings) == ("e1", 50, 5)


def test_the_periodic_run_happens_once_a_period(client: ApiClient, tokens: Tokens) -> None:
    assert service.run_next(NOW, SETTINGS) is None, "nothing to cluster"
    two_conditions()
    assert service.run_next(NOW, SETTINGS) is not None
    assert service.run_next(NOW + 3_600, SETTINGS) is None
    assert service.run_next(NOW + 25 * 3_600, SETTINGS) is not None


def test_a_window_that_is_too_large_fails_its_run_with_the_remedy(
    client: ApiClient, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_conditions()
    monkeypatch.setattr(runs, "LIMITS", CurationLimits(distinct_points=10))
    run_id = cluster(client, tokens)
    run = client.get(f"/curation/v1/runs/{run_id}", token=tokens.service).json()
    assert run["state"] == "failed"
    assert "shorten the window" in run["error"]


def test_old_runs_go_with_everything_that_belongs_to_them(
    client: ApiClient, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "LIMITS", CurationLimits(runs_kept=2))
    two_conditions()
    for _ in range(4):
        cluster(client, tokens)
    assert (count(Run), count(ClusterRow), count(Member)) == (2, 4, 100)


def test_runs_with_too_many_members_go_but_never_the_newest(
    client: ApiClient, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_conditions()
    monkeypatch.setattr(writing, "LIMITS", CurationLimits(rows=7))
    for most, left in ((120, 2), (10, 1)):
        monkeypatch.setattr(runs, "LIMITS", CurationLimits(members_kept=most))
        for _ in range(3):
            newest = cluster(client, tokens)
        assert (count(Run), count(ClusterRow), count(Member)) == (left, 2 * left, 50 * left)
    assert client.get("/curation/v1/clusters", token=tokens.service).json()["run_id"] == newest


def test_coverage_that_two_transactions_missed_is_never_taken_for_covered_and_is_made_up_for(
    client: ApiClient, tokens: Tokens
) -> None:
    two_conditions()
    client.post("/curation/v1/training-vectors", token=tokens.service, json=training("seed", {"a": 4, "b": 4}))
    cluster(client, tokens)
    with transaction() as session:
        session.execute(text("DELETE FROM curation.coverage"))
    assert client.get("/curation/v1/coverage", token=tokens.service).json()["uncovered"] == 2
    assert service.run_next(NOW, SETTINGS) is None
    assert client.get("/curation/v1/coverage", token=tokens.service).json()["uncovered"] == 1
