"""What the builds API refuses, and how it says so."""

from __future__ import annotations

import json

import onnx
import pytest

from services.builds.limits import BODY_LIMITS, UPLOADS
from services.builds.models import BuildRow, EvaluationSetRow
from services.kit.database import transaction
from tests.builds import support
from tests.builds.conftest import Studio
from tests.support.platform import Tokens


def _count(kind: type[BuildRow] | type[EvaluationSetRow]) -> int:
    with transaction() as session:
        return session.query(kind).count()


@pytest.mark.parametrize("part", ["model", "quality", "observer"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_damaged_part_is_422_and_named(studio: Studio, part: str, damage: str) -> None:
    good = getattr(studio, part)
    data = {
        "truncated": good[: len(good) // 2],
        "flipped": good[:20] + bytes([good[20] ^ 0xFF]) * 40 + good[60:],
        "empty": b"",
        "foreign": b"\x89PNG\r\n\x1a\n" + bytes(500),
    }[damage]
    before = _count(BuildRow)
    answer = studio.send(**{part: data})
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["type"] == "/problems/damaged-part"
    assert problem["errors"][0]["pointer"] == f"/{part}"
    assert "export it again" in problem["detail"]
    assert _count(BuildRow) == before


def test_a_model_with_an_edge_from_nowhere_is_422(studio: Studio) -> None:
    proto = onnx.load_model_from_string(studio.model)
    proto.graph.node[3].input[0] = "nowhere"
    answer = studio.send(model=proto.SerializeToString())
    assert answer.status_code == 422
    assert "nowhere" in answer.json()["detail"]


def test_a_model_whose_weights_lie_in_another_file_is_422(studio: Studio) -> None:
    proto = onnx.load_model_from_string(studio.model)
    tensor = proto.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    answer = studio.send(model=proto.SerializeToString())
    assert answer.status_code == 422
    assert "weights inside" in answer.json()["detail"]


def test_a_missing_part_is_422(studio: Studio) -> None:
    answer = studio.client.post(
        "/builds/v1/builds", token=studio.token, files={"model": studio.model}, data={"meta": "{}"}
    )
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {"/quality", "/observer"}


@pytest.mark.parametrize(
    ("meta", "pointer"),
    [
        ({"targets": ["npu-9t"]}, "/meta/targets"),
        ({"profiles": []}, "/meta/profiles"),
        ({"name": "no spaces please"}, "/meta/name"),
        ({"surprise": 1}, "/meta/surprise"),
        ({"evaluation_sets": ["e-unknown"]}, "/meta/evaluation_sets"),
        ({"float_psnr": {"norml": 30.0}}, "/meta/float_psnr"),
        ({"parent_build": "b-unknown"}, "/meta/parent_build"),
    ],
)
def test_a_wrong_meta_is_422_and_points_there(studio: Studio, meta: dict[str, object], pointer: str) -> None:
    answer = studio.send(meta)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_a_meta_that_is_no_json_is_422(studio: Studio) -> None:
    files = {"model": studio.model, "quality": studio.quality, "observer": studio.observer}
    answer = studio.client.post("/builds/v1/builds", token=studio.token, files=files, data={"meta": "{oops"})
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/bad-build-request"


def test_a_part_over_its_own_bound_is_413(studio: Studio) -> None:
    answer = studio.send(observer=bytes(UPLOADS.observer_bytes + 1))
    assert answer.status_code == 413
    assert "observer" in answer.json()["detail"]


def test_a_body_over_the_whole_bound_is_413_before_it_is_read(studio: Studio) -> None:
    headers = {"Content-Length": str(BODY_LIMITS["/v1/builds"] + 1), "Content-Type": "multipart/form-data; boundary=x"}
    answer = studio.client.post("/builds/v1/builds", token=studio.token, headers=headers, content=b"--x")
    assert answer.status_code == 413


def test_a_damaged_evaluation_set_is_422(studio: Studio) -> None:
    before = _count(EvaluationSetRow)
    answer = studio.client.post(
        "/builds/v1/evaluation-sets", token=studio.token, content=support.evaluation_npz()[:1000]
    )
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/damaged-evaluation-set"
    assert _count(EvaluationSetRow) == before


def test_the_same_evaluation_set_again_is_the_same_set(studio: Studio) -> None:
    data = support.evaluation_npz("normal-two")
    assert studio.add_set(data) == studio.add_set(data)


ROUTES = [
    ("GET", "/builds/v1/builds", "builds:read"),
    ("GET", "/builds/v1/builds/b-1", "builds:read"),
    ("GET", "/builds/v1/builds/b-1/bundle", "builds:read"),
    ("GET", "/builds/v1/builds/b-1/evidence", "builds:read"),
    ("GET", "/builds/v1/evaluation-sets", "builds:read"),
    ("POST", "/builds/v1/builds/b-1/production", "builds:write"),
    ("POST", "/builds/v1/evaluation-sets", "builds:write"),
    ("POST", "/builds/v1/builds", "builds:write"),
]


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
def test_every_route_wants_a_token_with_its_scope(
    studio: Studio, tokens: Tokens, method: str, path: str, scope: str
) -> None:
    whole = {"files": {"model": b"x", "quality": b"x", "observer": b"x"}, "data": {"meta": "{}"}}
    options = (
        whole if path == "/builds/v1/builds" and method == "POST" else {"content": b"x"} if method == "POST" else {}
    )
    assert studio.client.request(method, path, **options).status_code == 401
    assert studio.client.request(method, path, token="el_00_wrong", **options).status_code == 401
    other = "builds:read" if scope == "builds:write" else "drift:read"
    narrow = tokens.make("operator", "bob", [other])
    refused = studio.client.request(method, path, token=narrow, **options)
    assert refused.status_code == 403
    assert scope in refused.json()["detail"]
    assert studio.client.request(method, path, token=tokens.device("d-1"), **options).status_code == 403


def test_an_unknown_build_is_404(studio: Studio) -> None:
    answer = studio.client.get("/builds/v1/builds/b-unknown", token=studio.token)
    assert answer.status_code == 404
    assert answer.json()["type"] == "/problems/no-such-build"


def test_a_build_that_waits_has_no_bundle_yet(studio: Studio) -> None:
    build_id = studio.send().json()["id"]
    answer = studio.client.get(f"/builds/v1/builds/{build_id}/bundle", token=studio.token)
    assert answer.status_code == 409
    assert "until it is finished" in answer.json()["detail"]


def test_the_location_leads_to_the_build(studio: Studio) -> None:
    answer = studio.send()
    assert answer.status_code == 202
    seen = studio.client.get(answer.headers["location"], token=studio.token).json()
    assert seen == answer.json()
    assert seen["state"] == "queued"


def test_a_repeated_key_starts_nothing_new(studio: Studio) -> None:
    headers = {"Idempotency-Key": "retrain-1"}
    first, before = studio.send(headers=headers), _count(BuildRow)
    again = studio.send(headers=headers)
    assert again.status_code == 202
    assert again.json() == first.json()
    assert _count(BuildRow) == before
    other = studio.send({"name": "other"}, headers=headers)
    assert other.status_code == 422
    assert other.json()["type"] == "/problems/idempotency-key-reused"


def test_builds_are_listed_newest_first_by_pages(studio: Studio) -> None:
    sent = [studio.send({"name": f"page-{number}"}).json()["id"] for number in range(3)]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"?limit=2{f'&cursor={cursor}' if cursor else ''}"
        page = studio.client.get(f"/builds/v1/builds{query}", token=studio.token).json()
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(set(seen)) == _count(BuildRow)
    assert seen[:3] == sent[::-1]


def test_the_list_can_be_narrowed_to_a_state(studio: Studio) -> None:
    studio.send()
    items = studio.client.get("/builds/v1/builds?state=queued&limit=200", token=studio.token).json()["items"]
    assert items
    assert {item["state"] for item in items} == {"queued"}
    assert studio.client.get("/builds/v1/builds?state=lost", token=studio.token).status_code == 422


def test_without_named_sets_the_newest_of_each_condition_and_size_is_taken(studio: Studio) -> None:
    old = studio.add_set(support.evaluation_npz("again"))
    new = studio.add_set(support.model_set(studio.model, "again", frames=2))
    build_id = studio.send().json()["id"]
    with transaction() as session:
        row = session.get(BuildRow, build_id)
        assert row is not None
        chosen = json.dumps(row.request["evaluation_sets"])
    assert new in chosen
    assert old not in chosen


def _network(name: str, **what: object) -> dict[str, object]:
    return {"name": name, "quality_db": 35.5, "latency_ratio": 0.9, "weights": 18_016, **what}


SEARCHED = {
    "latency_limit": 1.04,
    "judged": 57,
    "space": 1_728,
    "candidates": [_network("16: 2x8 0", production=True), _network("16: 2x16 0", chosen=True, front=True)],
}


def test_the_search_of_a_build_is_given_back_as_it_was_told(studio: Studio) -> None:
    build = studio.send({"search": SEARCHED}).json()
    assert "search" not in build, "lists stay small"
    found = studio.client.get(f"/builds/v1/builds/{build['id']}/search", token=studio.token).json()
    assert found["build_id"] == build["id"]
    assert found["search"]["judged"] == 57
    assert [one["name"] for one in found["search"]["candidates"]] == ["16: 2x8 0", "16: 2x16 0"]
    assert found["search"]["candidates"][1] == {**_network("16: 2x16 0", chosen=True, front=True), "production": False}
    untold = studio.send().json()["id"]
    none = studio.client.get(f"/builds/v1/builds/{untold}/search", token=studio.token).json()
    assert none == {"build_id": untold, "search": None}
    assert studio.client.get("/builds/v1/builds/b-none/search", token=studio.token).status_code == 404
    assert studio.client.get(f"/builds/v1/builds/{untold}/search").status_code == 401


@pytest.mark.parametrize(
    "damage",
    [
        {"candidates": []},
        {"candidates": [_network("a")]},
        {"candidates": [_network("a", chosen=True), _network("b", chosen=True)]},
        {"candidates": [_network("a", chosen=True), _network("a")]},
        {"candidates": [_network("<script>", chosen=True)]},
        {"candidates": [_network("a", chosen=True, latency_ratio=0)]},
        {"candidates": [_network("a", chosen=True, quality_db="NaN")]},
        {"candidates": [_network("a", chosen=True, weights=-1)]},
        {"candidates": [_network(f"n{number}", chosen=number == 0) for number in range(301)]},
        {"judged": 1},
        {"latency_limit": 0},
    ],
)
def test_a_search_that_makes_no_sense_is_422_and_keeps_no_build(studio: Studio, damage: dict[str, object]) -> None:
    before = _count(BuildRow)
    answer = studio.send({"search": {**SEARCHED, **damage}})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/meta/search")
    assert _count(BuildRow) == before
