"""Input that means nothing is counted apart with a reason, and never mixed in."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from sqlalchemy import select

from services.curation import service
from services.curation.models import RejectedSegment, Segment
from services.kit.database import transaction
from tests.curation.test_pipeline import (  # noqa: F401  # fixtures
    HOUR,
    NOW,
    cluster,
    count,
    empty_tables,
    standing_clock,
    training,
    two_conditions,
    upload,
)
from tests.support.http import ApiClient
from tests.support.messages import segment_json
from tests.support.platform import Tokens


def reasons() -> list[str]:
    with transaction() as session:
        return sorted(session.scalars(select(RejectedSegment.reason)))


def test_a_segment_without_any_feature_is_counted_apart() -> None:
    size = 2 * 6 * 10 * 16 // 2
    blind = segment_json("blind", frames=2, hour=HOUR, codes=base64.b64encode(bytes(size)).decode())
    service.take_segment(json.dumps(blind).encode(), NOW)
    assert (count(Segment), reasons()) == (0, ["zero-vector"])


def test_the_same_id_with_other_content_is_counted_apart_and_the_first_stays() -> None:
    service.take_segment(upload("s1", 4, 1, score_mean=1.0), NOW)
    service.take_segment(upload("s1", 11, 2, score_mean=9.0), NOW)
    assert reasons() == ["other-content"]
    with transaction() as session:
        assert session.get_one(Segment, "s1").score_mean == 1.0


def test_the_same_message_twice_is_one_segment_and_nothing_is_counted_apart() -> None:
    body = upload("s1", 4, 1)
    for _ in range(3):
        service.take_segment(body, NOW)
    assert (count(Segment), reasons()) == (1, [])


@pytest.mark.parametrize("field", ["score_mean", "score_max", "motion"])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_counted_apart(field: str, value: str) -> None:
    body = upload("s1", 4, 1, **{field: 12.25}).replace(b"12.25", value.encode())
    assert value.encode() in body
    service.take_segment(body, NOW)
    assert (count(Segment), reasons()) == (0, ["malformed"])


def test_another_embedders_segments_are_never_in_a_cluster_and_are_counted(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    for index in range(7):
        service.take_segment(upload(f"x{index}", 4, index, embedding_id="e9", hour=HOUR - 1), NOW)
    run = client.get(f"/curation/v1/runs/{cluster(client, tokens)}", token=tokens.service).json()
    assert (run["embedding_id"], run["segments"], run["other_embeddings"]) == ("e1", 50, 7)


def test_another_embedders_training_vectors_cover_nothing_and_are_counted(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    cluster(client, tokens)
    foreign = {**training("seed", {"a": 4, "b": 4}), "embedding_id": "e9"}
    assert client.post("/curation/v1/training-vectors", token=tokens.service, json=foreign).status_code == 200
    report = client.get("/curation/v1/coverage", token=tokens.service).json()
    assert (report["uncovered"], report["after"]["revision"], report["other_training_sets"]) == (2, "", 1)
    ours = {**training("seed-2", {"a": 4, "b": 4}, parent="seed"), "embedding_id": "e1"}
    client.post("/curation/v1/training-vectors", token=tokens.service, json=ours)
    after = client.get("/curation/v1/coverage", token=tokens.service).json()
    assert (after["uncovered"], after["after"]["revision"]) == (1, "seed-2")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "null", '"x"'])
@pytest.mark.parametrize("path", ["training-vectors", "evaluation-vectors"])
def test_vectors_that_are_not_finite_are_refused_with_their_place(
    client: ApiClient, tokens: Tokens, path: str, value: str
) -> None:
    row = ", ".join(["0.5"] * 31 + [value])
    named = '"video": "a", "condition": "c"' if path == "training-vectors" else '"clip": "a"'
    body = f'{{"revision": "seed", "vectors": [{{{named}, "vector": [{row}]}}]}}'
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/curation/v1/{path}", token=tokens.service, content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_training_vectors_of_zeros_are_left_out_and_counted(client: ApiClient, tokens: Tokens) -> None:
    body: dict[str, Any] = training("seed", {"a": 4, "b": 4})
    body["vectors"][0]["vector"] = body["vectors"][5]["vector"] = [0.0] * 32
    answer = client.post("/curation/v1/training-vectors", token=tokens.service, json=body).json()
    assert (answer["vectors"], answer["left_out"]) == (38, {"zero-vector": 2})
    again = client.post("/curation/v1/training-vectors", token=tokens.service, json=body).json()
    assert (again["duplicate"], again["vectors"]) == (True, 38)


def test_a_training_set_of_zeros_only_covers_nothing(client: ApiClient, tokens: Tokens) -> None:
    two_conditions()
    cluster(client, tokens)
    body: dict[str, Any] = training("seed", {"a": 4})
    for vector in body["vectors"]:
        vector["vector"] = [0.0] * 32
    answer = client.post("/curation/v1/training-vectors", token=tokens.service, json=body).json()
    assert (answer["vectors"], answer["left_out"]) == (0, {"zero-vector": 20})
    assert client.get("/curation/v1/coverage", token=tokens.service).json()["uncovered"] == 2
