"""What models are judged by never gets into training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from services.curation.domain.leakage import leakage
from services.kit.database import transaction
from services.kit.settings import Settings
from tests.curation.test_pipeline import codes_near, empty_tables, segment_vector, standing_clock, training  # noqa: F401
from tests.support.http import ApiClient
from tests.support.platform import Tokens


@pytest.fixture(autouse=True, scope="module")
def nothing_left(platform: Settings) -> Iterator[None]:
    """No evaluation set outlives these tests, where it could refuse another's training set."""
    yield
    with transaction() as session:
        session.execute(text("TRUNCATE curation.evaluation_sets"))


def held_out(client: ApiClient, tokens: Tokens, clips: list[str], rows: list[list[float]], **more: Any) -> Any:
    vectors = [{"clip": clip, "vector": row} for clip, row in zip(clips, rows, strict=True)]
    body = {"revision": "held-1", "vectors": vectors, **more}
    return client.post("/curation/v1/evaluation-vectors", token=tokens.service, json=body)


def test_a_training_set_that_holds_an_evaluation_clip_is_refused_with_its_places(
    client: ApiClient, tokens: Tokens
) -> None:
    body = training("seed", {"a": 4, "b": 4})
    assert held_out(client, tokens, ["b"], [body["vectors"][25]["vector"]]).status_code == 200
    answer = client.post("/curation/v1/training-vectors", token=tokens.service, json=body)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/training-leak")
    assert "/vectors/25" in [error["pointer"] for error in answer.json()["errors"]]
    assert "take those clips out" in answer.json()["detail"]
    assert client.get("/curation/v1/coverage", token=tokens.service).json()["after"] is None
    without = {**body, "vectors": body["vectors"][:20]}
    assert client.post("/curation/v1/training-vectors", token=tokens.service, json=without).status_code == 200


def test_near_vectors_of_other_clips_are_counted_and_not_refused(client: ApiClient, tokens: Tokens) -> None:
    body = training("seed", {"a": 4})
    held_out(client, tokens, ["z"], [body["vectors"][3]["vector"]])
    answer = client.post("/curation/v1/training-vectors", token=tokens.service, json=body)
    assert (answer.status_code, answer.json()["near_evaluation"]) == (200, 1)


def test_a_scene_is_told_apart_from_its_video(client: ApiClient, tokens: Tokens) -> None:
    body = training("seed", {"bikes": 4})
    held_out(client, tokens, ["bikes-07"], [body["vectors"][0]["vector"]])
    for vector in body["vectors"]:
        vector["clip"] = "bikes-01"
    assert client.post("/curation/v1/training-vectors", token=tokens.service, json=body).status_code == 200
    body["revision"] = "seed2"
    body["vectors"][0]["clip"] = "bikes-07"
    assert client.post("/curation/v1/training-vectors", token=tokens.service, json=body).status_code == 409


def test_evaluation_sets_of_another_embedding_are_not_compared(client: ApiClient, tokens: Tokens) -> None:
    body = training("seed", {"a": 4})
    held_out(client, tokens, ["a"], [body["vectors"][0]["vector"]], embedding_id="e0")
    body["embedding_id"] = "e1"
    assert client.post("/curation/v1/training-vectors", token=tokens.service, json=body).status_code == 200


def test_posting_an_evaluation_set_again_is_the_same_and_another_under_its_name_is_refused(
    client: ApiClient, tokens: Tokens
) -> None:
    row = [0.5] * 32
    first, again = (held_out(client, tokens, ["a"], [row]).json() for _ in range(2))
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert held_out(client, tokens, ["b"], [row]).status_code == 409


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(0, 20), st.floats(0.1, 2.0))
def test_leaks_are_what_comparing_all_pairs_finds(seed: int, count: int, held: int, eps: float) -> None:
    rng = np.random.default_rng(seed)
    rows, others = rng.normal(size=(count, 2)).astype(np.float32), rng.normal(size=(held, 2)).astype(np.float32)
    mine, theirs = (rng.choice(["a", "b", "c"], size).tolist() for size in (count, held))
    found = leakage(rows, mine, others, theirs, eps)
    gap = np.linalg.norm(rows[:, None].astype(float) - others[None], axis=-1)
    same = np.array(mine)[:, None] == np.array(theirs)[None] if count and held else np.zeros((count, held), bool)
    near = gap <= eps
    wanted = (near & same).any(axis=1) if held else np.zeros(count, bool)
    assert [leak.row for leak in found.leaks] == np.flatnonzero(wanted).tolist()
    assert found.near_others == int(np.count_nonzero(~wanted & near.any(axis=1))) if held else found.near_others == 0
    for leak in found.leaks:
        assert leak.distance == pytest.approx(gap[leak.row][same[leak.row]].min(), abs=1e-6)
