"""The durable end of the intake: a batch of rows in one transaction, each natural key once.

Rows go in ordered by key, so that two batches with the same keys wait for each other and never deadlock. Every writer
holds a shared lock of its table until it has committed; the relay takes it alone for a moment to learn up to which id
everything is settled (`relay.settled`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import text
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from services.kit.database import transaction
from services.kit.problems import dependency_problem
from services.telemetry import partitions
from services.telemetry.locks import writing

_REPORTS = """
INSERT INTO telemetry.reports (day, pseudonym, body)
SELECT day, pseudonym, body FROM unnest(%b::int[], %b::bytea[], %b::bytea[]) AS sent (day, pseudonym, body)
ON CONFLICT DO NOTHING RETURNING day, pseudonym
"""
_SEGMENTS = """
INSERT INTO telemetry.segments (hour, segment_id, embedding_id, cohort, body)
SELECT hour, segment_id, embedding_id, cohort, body
FROM unnest(%b::int[], %b::text[], %b::text[], %b::text[], %b::bytea[])
AS sent (hour, segment_id, embedding_id, cohort, body)
ON CONFLICT DO NOTHING RETURNING hour, segment_id
"""
_REFUSALS = text(
    "INSERT INTO telemetry.refusals (day, reason, count) VALUES (:day, :reason, :count) "
    "ON CONFLICT (day, reason) DO UPDATE SET count = telemetry.refusals.count + excluded.count"
)

Key = tuple[int, bytes] | tuple[int, str]


class RowsRefused(Exception):
    """The database refuses these rows for what is in them; nothing was kept."""


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A report on its way into the table."""

    day: int
    pseudonym: bytes
    body: bytes

    @property
    def key(self) -> tuple[int, bytes]:
        """The natural key."""
        return self.day, self.pseudonym


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A segment on its way into the table."""

    hour: int
    segment_id: str
    embedding_id: str
    cohort: str
    body: bytes

    @property
    def key(self) -> tuple[int, str]:
        """The natural key."""
        return self.hour, self.segment_id


class Store(Protocol):
    """Keeps rows whose keys are different; returns the keys that are new, after they are durable.

    Counts beside them what was refused `today`. Raises RowsRefused, or a Problem when it does not work at all.
    """

    def reports(self, rows: Sequence[ReportRow], refused: Counter[str], today: int) -> set[Key]:
        """Keep reports."""

    def segments(self, rows: Sequence[SegmentRow], refused: Counter[str], today: int) -> set[Key]:
        """Keep segments."""


class PostgresStore:
    """The tables `telemetry.reports` and `telemetry.segments`."""

    def __init__(self) -> None:
        self._days: dict[str, set[int]] = {}

    def reports(self, rows: Sequence[ReportRow], refused: Counter[str], today: int) -> set[Key]:
        """Keep reports in the partitions of their days."""
        sent = sorted(rows, key=lambda row: row.key)
        columns = ([row.day for row in sent], [row.pseudonym for row in sent], [row.body for row in sent])
        return self._keep(partitions.REPORTS, {row.day for row in sent}, _REPORTS, columns, refused, today)

    def segments(self, rows: Sequence[SegmentRow], refused: Counter[str], today: int) -> set[Key]:
        """Keep segments in the partitions of their days."""
        sent = sorted(rows, key=lambda row: row.key)
        columns = (
            [row.hour for row in sent],
            [row.segment_id for row in sent],
            [row.embedding_id for row in sent],
            [row.cohort for row in sent],
            [row.body for row in sent],
        )
        return self._keep(partitions.SEGMENTS, {row.hour // 24 for row in sent}, _SEGMENTS, columns, refused, today)

    def _keep(
        self,
        kind: partitions.Partitioned,
        days: set[int],
        statement: str,
        columns: Sequence[list[Any]],  # Any: one list of equal length for each column
        refused: Counter[str],
        today: int,
    ) -> set[Key]:
        try:
            self._need(kind, days)
            return _write(kind.table, statement, columns, refused, today)
        except (DataError, IntegrityError) as error:
            self._days.clear()  # a partition may have gone
            raise RowsRefused(type(error.orig).__name__) from error
        except SQLAlchemyError as error:
            raise dependency_problem(error, table=kind.table) from error

    def _need(self, kind: partitions.Partitioned, days: set[int]) -> None:
        """Make sure that the days have a partition; remembers those it saw (a day that is taken is never dropped)."""
        known = self._days.setdefault(kind.table, set())
        if not days <= known:
            partitions.ensure(kind, days - known)
            known |= days
        if len(known) > 1_000:
            known.clear()


def _write(table: str, statement: str, columns: Sequence[list[Any]], refused: Counter[str], today: int) -> set[Key]:
    with transaction() as session:
        new: set[Key] = set()
        if columns[0]:
            writing(session, table)
            found = session.connection().exec_driver_sql(statement, tuple(columns))
            new = {tuple(row) for row in found}  # the two columns of the key
        for reason in sorted(refused):
            session.execute(_REFUSALS, {"day": today, "reason": reason, "count": refused[reason]})
        return new
