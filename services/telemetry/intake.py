"""Accept messages once, durably, many in one transaction; each answer follows the commit that holds its row.

Every message of a batch is judged apart. One that is refused gets its reason and is counted, its neighbours are kept.
Should the database refuse a batch for one row's sake, the rows go in one by one. When the database is down, nobody
is told that anything was accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from contracts.clock import Clock, day_of, hour_of
from contracts.statistics import ReportError, decode_report
from contracts.statistics.drf1_headers import ReportHeader, headers_of
from contracts.wire import Accepted, SegmentUpload
from contracts.wire.base import Identifier
from services.kit.batching import Batcher
from services.kit.problems import MalformedPayload, Problem
from services.telemetry.limits import LIMITS
from services.telemetry.store import Key, ReportRow, RowsRefused, SegmentRow, Store

Row = TypeVar("Row", ReportRow, SegmentRow)
Keep: TypeAlias = Callable[[Sequence[Row], Counter[str], int], set[Key]]
NEW, DUPLICATE = Accepted(), Accepted(duplicate=True)

log = structlog.get_logger(__name__)

_identifier: TypeAdapter[str] = TypeAdapter(Identifier)


class BadReport(MalformedPayload):
    """The bytes are not an acceptable DRF1 report."""

    slug, title = "bad-report", "Not an acceptable drift report"


class BadSegment(MalformedPayload):
    """The segment is not of a time that is taken."""

    slug, title = "bad-segment", "Not an acceptable segment"


class Intake:
    """The two ways in, of one process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._reports: Batcher[bytes, Accepted] = Batcher("reports", self.take_reports, LIMITS.reports)
        self._segments: Batcher[SegmentUpload, Accepted] = Batcher("segments", self.take_segments, LIMITS.segments)

    async def report(self, body: bytes) -> Accepted:
        """Take a DRF1 report. Raises BadReport, TooManyRequests, Unavailable or DiskFull."""
        return await self._reports.submit(body)

    async def segment(self, upload: SegmentUpload) -> Accepted:
        """Take a segment. Raises BadSegment, TooManyRequests, Unavailable or DiskFull."""
        return await self._segments.submit(upload)

    def take_reports(self, bodies: Sequence[bytes]) -> Sequence[Accepted | Exception]:
        """One batch of reports: an answer or a problem for each, in order."""
        today = day_of(self._clock.now())
        refused: Counter[str] = Counter()
        headers = headers_of(bodies)
        rows = [_report(body, header, today, refused) for body, header in zip(bodies, headers, strict=True)]
        return _answers(rows, self._store.reports, refused, today)

    def take_segments(self, uploads: Sequence[SegmentUpload]) -> Sequence[Accepted | Exception]:
        """One batch of segments, likewise."""
        now = self._clock.now()
        refused: Counter[str] = Counter()
        rows = [_segment(upload, hour_of(now), refused) for upload in uploads]
        return _answers(rows, self._store.segments, refused, day_of(now))


def _report(body: bytes, header: ReportHeader | None, today: int, refused: Counter[str]) -> ReportRow | Problem:
    try:
        known = header or ReportHeader.of(decode_report(body))
        _identifier.validate_python(known.embedding_id)
        _check_day(known.day, today)
    except ReportError as error:
        refused[error.reason] += 1
        return BadReport(f"{error}; send the DRF1 bytes as the agent made them")
    except ValidationError:
        refused["embedding"] += 1
        return BadReport("embedding: the embedding id is not a plain identifier; update the agent")
    return ReportRow(known.day, known.pseudonym, body)


def _check_day(day: int, today: int) -> None:
    if day > today + LIMITS.ahead_days:
        raise ReportError("future", f"day {day} has not begun, today is {today}; set the device's clock")
    if day < today - LIMITS.late_days:
        raise ReportError("late", f"day {day} is more than {LIMITS.late_days} days before today, which is {today}")


def _segment(upload: SegmentUpload, hour: int, refused: Counter[str]) -> SegmentRow | Problem:
    if upload.hour > hour + 24 * LIMITS.ahead_days:
        refused["segment_future"] += 1
        return BadSegment(f"future: hour {upload.hour} has not begun, now is {hour}; set the device's clock")
    if upload.hour < hour - 24 * LIMITS.segment_late_days:
        refused["segment_late"] += 1
        return BadSegment(f"late: hour {upload.hour} is more than {LIMITS.segment_late_days} days ago")
    body = upload.model_dump_json().encode()
    return SegmentRow(upload.hour, upload.segment_id, upload.embedding_id, upload.tags.cohort, body)


def _answers(
    judged: Sequence[Row | Problem], keep: Keep[Row], refused: Counter[str], today: int
) -> list[Accepted | Exception]:
    """Keep the rows that were judged good, and answer everybody. The first of equal keys in a batch is the new one."""
    rows: dict[Key, Row] = {}
    for row in judged:
        if not isinstance(row, Problem):
            rows.setdefault(row.key, row)
    outcome = _kept(rows, keep, refused, today) if rows or refused else {}
    answers: list[Accepted | Exception] = []
    for row in judged:
        if isinstance(row, Problem):
            answers.append(row)
            continue
        answer = outcome[row.key]
        answers.append(answer)
        outcome[row.key] = DUPLICATE if isinstance(answer, Accepted) else answer
    return answers


def _kept(
    rows: Mapping[Key, Row], keep: Keep[Row], refused: Counter[str], today: int
) -> dict[Key, Accepted | Exception]:
    """What became of each row."""
    try:
        new = keep(list(rows.values()), refused, today)
        return {key: NEW if key in new else DUPLICATE for key in rows}
    except RowsRefused as error:
        if len(rows) > 1:
            apart = [_kept({key: row}, keep, Counter(), today) for key, row in rows.items()]
            return {key: answer for each in apart for key, answer in each.items()}
        log.warning("row_refused", error=str(error))
        return {key: MalformedPayload("the database does not take what this message holds") for key in rows}
    except Problem as problem:
        return dict.fromkeys(rows, problem)
