"""What telemetry answers, and what it keeps."""

from __future__ import annotations

import secrets
import time

import pytest
from httpx import Response
from sqlalchemy import func, select
from structlog.testing import capture_logs

from contracts.clock import day_of
from services.kit.database import transaction
from services.telemetry.models import Report, Segment
from tests.support.http import ApiClient
from tests.support.messages import report_bytes, segment_json
from tests.support.platform import Tokens

REPORTS, SEGMENTS = "/telemetry/v1/reports", "/telemetry/v1/segments"
TODAY = day_of(time.time())
DRF1 = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def device(tokens: Tokens) -> str:
    return tokens.device(f"device-{secrets.token_hex(4)}")


def send_report(client: ApiClient, token: str, body: bytes) -> Response:
    return client.post(REPORTS, token=token, content=body, headers=DRF1)


def assert_problem(answer: Response, status: int, slug: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    document = answer.json()
    assert document["type"] == f"/problems/{slug}"
    assert document["status"] == status
    assert document["trace_id"] == answer.headers["x-trace-id"]


def rows_of(pseudonym: str) -> list[Report]:
    with transaction() as session:
        return list(session.scalars(select(Report).where(Report.pseudonym == bytes.fromhex(pseudonym))))


def test_a_report_is_stored_as_it_was_sent_before_the_answer(client: ApiClient, device: str) -> None:
    pseudonym = secrets.token_hex(16)
    body = report_bytes(pseudonym=pseudonym, day=TODAY - 1)
    answer = send_report(client, device, body)
    assert (answer.status_code, answer.json()) == (202, {"accepted": True, "duplicate": False})
    (row,) = rows_of(pseudonym)
    assert (row.body, row.day) == (body, TODAY - 1)


def test_a_replayed_report_is_a_duplicate_and_counts_once(client: ApiClient, device: str) -> None:
    pseudonym = secrets.token_hex(16)
    body = report_bytes(pseudonym=pseudonym)
    assert send_report(client, device, body).json()["duplicate"] is False
    assert send_report(client, device, body).json() == {"accepted": True, "duplicate": True}
    assert len(rows_of(pseudonym)) == 1


def test_another_report_under_a_taken_key_is_a_duplicate_and_the_first_one_stays(
    client: ApiClient, device: str
) -> None:
    pseudonym = secrets.token_hex(16)
    first, second = report_bytes(pseudonym=pseudonym, frames=300), report_bytes(pseudonym=pseudonym, frames=400)
    send_report(client, device, first)
    assert send_report(client, device, second).json()["duplicate"] is True
    assert rows_of(pseudonym)[0].body == first


def test_a_replayed_segment_is_a_duplicate_and_counts_once(client: ApiClient, device: str) -> None:
    document = segment_json("segment-one")
    assert client.post(SEGMENTS, token=device, json=document).json()["duplicate"] is False
    assert client.post(SEGMENTS, token=device, json=document).json()["duplicate"] is True
    with transaction() as session:
        assert session.scalar(select(func.count()).where(Segment.segment_id == "segment-one")) == 1


@pytest.mark.parametrize("token", [None, "", "el_0000000000000000_wrong", "nonsense", "el__", "el_" + "x" * 5000])
def test_a_wrong_token_is_refused(client: ApiClient, token: str | None) -> None:
    assert_problem(client.post(SEGMENTS, token=token, json=segment_json()), 401, "unauthorized")


def test_the_right_id_with_a_wrong_secret_is_refused(client: ApiClient, device: str) -> None:
    forged = device[:-1] + ("A" if device[-1] != "A" else "B")
    assert_problem(client.post(SEGMENTS, token=forged, json=segment_json()), 401, "unauthorized")


def test_an_expired_token_is_refused(client: ApiClient, tokens: Tokens) -> None:
    expired = tokens.make("device", "late", ttl_s=-1)
    assert_problem(client.post(SEGMENTS, token=expired, json=segment_json()), 401, "unauthorized")


def test_an_operator_may_not_pose_as_a_device(client: ApiClient, tokens: Tokens) -> None:
    reader = tokens.make("operator", "bob", ["telemetry:read"])
    assert_problem(client.post(SEGMENTS, token=reader, json=segment_json()), 403, "forbidden")


def test_an_oversized_report_is_refused_before_it_is_parsed(client: ApiClient, device: str) -> None:
    assert_problem(send_report(client, device, bytes(2_049)), 413, "too-large")


def test_an_oversized_segment_is_refused_before_it_is_parsed(client: ApiClient, device: str) -> None:
    not_even_json = b"{" + b" " * 50_001
    assert_problem(client.post(SEGMENTS, token=device, content=not_even_json), 413, "too-large")


@pytest.mark.parametrize("stated", ["50001", "99999999999999999999", "-1", "many"])
def test_a_stated_length_over_the_limit_is_refused_without_reading(client: ApiClient, device: str, stated: str) -> None:
    headers = {"Content-Length": stated, "Content-Type": "application/json"}
    assert_problem(client.post(SEGMENTS, token=device, content=b"{}", headers=headers), 413, "too-large")


def test_a_body_without_a_stated_length_is_cut_off_at_the_limit(client: ApiClient, device: str) -> None:
    async def endless() -> object:
        for _ in range(1000):
            yield b" " * 1000

    assert_problem(client.post(SEGMENTS, token=device, content=endless()), 413, "too-large")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign", "empty"])
def test_a_damaged_report_is_refused_with_the_reason(client: ApiClient, device: str, damage: str) -> None:
    body = bytearray(report_bytes())
    if damage == "truncated":
        body = body[:-10]
    elif damage == "flipped":
        body[500] ^= 1
    elif damage == "foreign":
        body[:4] = b"JUNK"
    else:
        body = bytearray()
    answer = send_report(client, device, bytes(body))
    assert_problem(answer, 422, "malformed-payload" if damage == "empty" else "bad-report")


def test_a_report_of_another_media_type_is_refused(client: ApiClient, device: str) -> None:
    answer = client.post(REPORTS, token=device, content=report_bytes(), headers={"Content-Type": "text/plain"})
    assert_problem(answer, 415, "wrong-media-type")


@pytest.mark.parametrize("day", [TODAY + 2, TODAY + 3_000, 4_000_000_000])
def test_a_report_from_the_future_is_refused_with_the_reason(client: ApiClient, device: str, day: int) -> None:
    answer = send_report(client, device, report_bytes(day=day))
    assert_problem(answer, 422, "bad-report")
    assert answer.json()["detail"].startswith("future: ")


@pytest.mark.parametrize("day", [0, TODAY - 8])
def test_a_report_that_comes_too_late_is_refused_with_the_reason(client: ApiClient, device: str, day: int) -> None:
    answer = send_report(client, device, report_bytes(day=day))
    assert_problem(answer, 422, "bad-report")
    assert answer.json()["detail"].startswith("late: ")


@pytest.mark.parametrize("day", [TODAY - 7, TODAY + 1])
def test_a_report_at_the_edge_of_what_is_taken_is_taken(client: ApiClient, device: str, day: int) -> None:
    assert send_report(client, device, report_bytes(day=day)).status_code == 202


@pytest.mark.parametrize(("hours", "reason"), [(48, "future"), (-24 * 29, "late")])
def test_a_segment_of_another_time_is_refused_with_the_reason(
    client: ApiClient, device: str, hours: int, reason: str
) -> None:
    answer = client.post(SEGMENTS, token=device, json=segment_json(hour=TODAY * 24 + hours))
    assert_problem(answer, 422, "bad-segment")
    assert answer.json()["detail"].startswith(f"{reason}: ")


def test_what_is_refused_is_counted_by_reason(client: ApiClient, device: str, tokens: Tokens) -> None:
    def counted() -> int:
        standing = client.get("/telemetry/v1/standing", token=tokens.operator).json()
        return int(standing["refused"].get("future", 0))

    before = counted()
    send_report(client, device, report_bytes(day=TODAY + 9))
    assert counted() == before + 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("height", 65), ("channels", 17), ("codes", "AAAA"), ("pseudonym", "device-1"), ("score_max", "NaN")],
)
def test_a_segment_outside_its_schema_is_refused_with_pointers(
    client: ApiClient, device: str, field: str, value: object
) -> None:
    answer = client.post(SEGMENTS, token=device, json=segment_json(**{field: value}))
    assert_problem(answer, 422, "malformed-payload")
    assert answer.json()["errors"]


def test_an_unknown_field_is_refused_because_it_could_carry_pixels(client: ApiClient, device: str) -> None:
    answer = client.post(SEGMENTS, token=device, json=segment_json(thumbnail="AAAA"))
    assert_problem(answer, 422, "malformed-payload")
    assert answer.json()["errors"][0]["pointer"] == "/thumbnail"


def test_a_device_that_floods_is_told_to_wait_and_the_others_are_not(
    client: ApiClient, device: str, tokens: Tokens
) -> None:
    answers = [client.post(SEGMENTS, token=device, json=segment_json("flood")) for _ in range(135)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert_problem(refused[0], 429, "too-many-requests")
    assert int(refused[0].headers["retry-after"]) >= 1
    other = tokens.device("quiet")
    assert client.post(SEGMENTS, token=other, json=segment_json()).status_code == 202


def test_every_accepted_report_has_a_trace_of_its_own(client: ApiClient, device: str) -> None:
    answers = [send_report(client, device, report_bytes()) for _ in range(3)]
    assert len({answer.headers["x-trace-id"] for answer in answers}) == 3
    assert all(answer.headers["content-type"] == "application/json" for answer in answers)


def test_the_log_has_a_line_for_what_is_refused_and_none_for_what_is_taken(client: ApiClient, device: str) -> None:
    with capture_logs() as lines:
        send_report(client, device, report_bytes())
        send_report(client, device, b"junk")
    assert [line["status"] for line in lines if line["event"] == "request"] == [422]
