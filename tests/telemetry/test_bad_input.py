"""Hostile reports: refused with a reason, counted, never a 5xx, never a lost neighbour, never much memory."""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.clock import SystemClock, day_of
from contracts.statistics import ReportError, decode_report
from contracts.statistics.drf1 import MAC_BYTES
from contracts.statistics.drf1_headers import ReportHeader, headers_of
from contracts.wire import Accepted
from services.kit import ratelimit
from services.kit.database import transaction
from services.kit.problems import TooManyRequests
from services.kit.ratelimit import FleetBucket
from services.kit.settings import Settings
from services.telemetry import partitions, refusals
from services.telemetry.intake import Intake
from services.telemetry.limits import LIMITS
from services.telemetry.store import Key, PostgresStore, ReportRow, RowsRefused, SegmentRow
from tests.support.http import ApiClient
from tests.support.messages import report_bytes
from tests.support.platform import Tokens

DAY, FRAMES, CLIPPED, SCORE, EMBEDDING, DEVICE_CLASS, MEAN, VARIANCE, COVARIANCE, HISTOGRAM = (
    40, 44, 48, 52, 24, 60, 116, 628, 884, 1696,
)  # fmt: skip  # offsets of docs/reference/drf1.md
TODAY = day_of(time.time())


def changed(offset: int, value: bytes) -> bytes:
    """A report with other bytes at an offset, and a checksum that fits."""
    data = bytearray(report_bytes())
    data[offset : offset + len(value)] = value
    body = bytes(data[: -MAC_BYTES - 4])
    return body + struct.pack("<I", zlib.crc32(body)) + bytes(MAC_BYTES)


HOSTILE = {
    "size": b"short",
    "foreign": b"JUNK" + report_bytes()[4:],
    "checksum": report_bytes()[:500] + b"\xff" + report_bytes()[501:],
    "tags": changed(DEVICE_CLASS, b"\xff\xfe"),
    "embedding": changed(EMBEDDING, b"../../etc/passwd"),
    "empty": changed(FRAMES, struct.pack("<I", 0)),
    "not_finite": changed(MEAN, struct.pack("<e", float("nan"))),
    "zero_variance": changed(VARIANCE, bytes(256)),
    "counts": changed(HISTOGRAM, struct.pack("<H", 7)),
    "future": report_bytes(day=TODAY + 2),
    "late": report_bytes(day=TODAY - 30),
}
MORE = {
    "infinite score": changed(SCORE, struct.pack("<f", float("inf"))),
    "infinite covariance": changed(COVARIANCE, struct.pack("<e", float("-inf"))),
    "more clipped than frames": changed(CLIPPED, struct.pack("<i", -1)),
    "negative count": changed(HISTOGRAM, struct.pack("<h", -300)),
    "negative frames": changed(FRAMES, struct.pack("<i", -300)),
    "a day of 2^32 - 1": changed(DAY, b"\xff" * 4),
    "nothing": b"",
}


@pytest.fixture
def intake(platform: Settings) -> Intake:
    return Intake(PostgresStore(), SystemClock())


@pytest.mark.parametrize("reason", HOSTILE)
def test_each_kind_of_bad_report_is_refused_with_its_reason_and_counted(intake: Intake, reason: str) -> None:
    with transaction() as session:
        before = refusals.by_reason(session).get(reason, 0)
    (answer,) = intake.take_reports([HOSTILE[reason]])
    assert str(answer).startswith(f"{reason}: ")
    with transaction() as session:
        assert refusals.by_reason(session)[reason] == before + 1


@pytest.mark.parametrize("body", [*HOSTILE.values(), *MORE.values()], ids=[*HOSTILE, *MORE])
def test_a_bad_report_over_http_is_the_senders_fault(client: ApiClient, tokens: Tokens, body: bytes) -> None:
    headers = {"Content-Type": "application/octet-stream"}
    token = tokens.device(secrets.token_hex(4))
    answer = client.post("/telemetry/v1/reports", token=token, content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_bad_reports_cost_their_neighbours_in_the_batch_nothing(intake: Intake) -> None:
    good = [report_bytes() for _ in range(len(HOSTILE) + 1)]
    mixed = [body for pair in zip(good, HOSTILE.values(), strict=False) for body in pair] + good[-1:]
    answers = intake.take_reports(mixed)
    taken = [body for body, answer in zip(mixed, answers, strict=True) if isinstance(answer, Accepted)]
    assert taken == good
    assert all(answer == Accepted(duplicate=True) for answer in intake.take_reports(good))


def test_the_same_report_many_times_in_one_batch_is_new_once(intake: Intake) -> None:
    body = report_bytes()
    answers = intake.take_reports([body] * 5)
    assert answers == [Accepted(), *[Accepted(duplicate=True)] * 4]


class Picky:
    """A store whose database does not take one row."""

    def __init__(self, poison: bytes) -> None:
        self.poison, self.kept = poison, list[bytes]()

    def reports(self, rows: Sequence[ReportRow], refused: Counter[str], today: int) -> set[Key]:
        if any(row.body == self.poison for row in rows):
            raise RowsRefused("DataError")
        self.kept += [row.body for row in rows]
        return {row.key for row in rows}

    def segments(self, rows: Sequence[SegmentRow], refused: Counter[str], today: int) -> set[Key]:
        raise NotImplementedError


def test_a_row_that_the_database_does_not_take_is_refused_alone() -> None:
    bodies = [report_bytes() for _ in range(5)]
    store = Picky(bodies[2])
    answers = Intake(store, SystemClock()).take_reports(bodies)
    assert [isinstance(answer, Accepted) for answer in answers] == [True, True, False, True, True]
    assert getattr(answers[2], "status", None) == 422
    assert sorted(store.kept) == sorted([*bodies[:2], *bodies[3:]])


def test_a_partition_that_vanished_is_made_again_and_nothing_is_lost(intake: Intake) -> None:
    intake.take_reports([report_bytes()])
    partitions.drop_before(partitions.REPORTS, 10**9, 10**18)
    answers = intake.take_reports([report_bytes(), report_bytes()])
    assert answers == [Accepted(), Accepted()]


GOOD = report_bytes()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(4, len(GOOD) - MAC_BYTES - 5), st.integers(0, 255)), max_size=4), st.booleans())
def test_the_quick_check_of_a_batch_accepts_nothing_that_the_full_one_refuses(
    changes: list[tuple[int, int]], sealed: bool
) -> None:
    data = bytearray(GOOD)
    for offset, value in changes:
        data[offset] = value
    if sealed:
        data[-MAC_BYTES - 4 : -MAC_BYTES] = struct.pack("<I", zlib.crc32(data[: -MAC_BYTES - 4]))
    (quick,) = headers_of([bytes(data)])
    try:
        full = ReportHeader.of(decode_report(bytes(data)))
    except ReportError:
        assert quick is None
    else:
        assert quick in {None, full}


def test_the_quick_check_knows_every_ordinary_report() -> None:
    bodies = [report_bytes(frames=frames) for frames in (1, 300, 65_535)]
    assert headers_of(bodies) == [ReportHeader.of(decode_report(body)) for body in bodies]
    assert headers_of([]) == []


def test_a_token_that_floods_costs_one_bucket_no_query_and_no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million in a minute are 167,000 in a second; here 200,000 are refused, and memory stays where it was."""
    asked: list[str] = []

    class Counting:
        def eval(self, _script: str, _keys: int, key: str, *_rest: str) -> bytes:
            asked.append(key)
            return b"0"

    monkeypatch.setattr(ratelimit, "connection", Counting)
    bucket = FleetBucket("flood", LIMITS.device, LIMITS.free)

    async def flood(times: int) -> int:
        refused = 0
        for _ in range(times):
            try:
                await bucket.take("one-token")
            except TooManyRequests as problem:
                refused += int(problem.headers["Retry-After"]) >= 1
        return refused

    assert asyncio.run(flood(1_000)) >= 800
    tracemalloc.start()
    refused = asyncio.run(flood(200_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused > 190_000
    assert peak < 1_000_000
    assert len(asked) < 2_000
    assert len(bucket._mine) == 1


def test_of_ten_million_reports_in_a_minute_from_one_token_720_pass() -> None:
    """By arithmetic a burst of 120 and 10 a second, however many are sent; here one every tenth of a millisecond."""
    now, step, asked = 0.0, 1e-4, 600_000
    buckets = ratelimit.LocalBuckets(LIMITS.device, lambda: now)
    passed = 0
    for turn in range(asked):
        now = turn * step
        passed += buckets.wait("one-token") == 0.0
    assert 718 <= passed <= 720 == LIMITS.device.burst + int(60 * LIMITS.device.per_second)


def test_the_buckets_of_a_process_are_bounded_however_many_tokens_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratelimit, "RATE", type(ratelimit.RATE)(subjects=100))
    buckets = ratelimit.LocalBuckets(LIMITS.device)
    for number in range(5_000):
        buckets.wait(str(number))
    assert len(buckets) == 100


def test_a_quiet_device_asks_redis_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_redis() -> None:
        raise AssertionError("a first report must not need Redis")

    monkeypatch.setattr(ratelimit, "connection", no_redis)
    asyncio.run(FleetBucket("quiet", LIMITS.device, LIMITS.free).take("device"))


def test_a_flood_is_refused_before_its_bodies_are_looked_at(
    client: ApiClient, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, headers = tokens.device("flooding"), {"Content-Type": "application/octet-stream"}
    answers = [client.post("/telemetry/v1/reports", token=token, content=b"x", headers=headers) for _ in range(140)]
    assert {answer.status_code for answer in answers} == {422, 429}
    assert answers[-1].status_code == 429
