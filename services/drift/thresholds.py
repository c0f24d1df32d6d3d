"""Thresholds of single cohorts and device classes: every one can be set, each change is kept with who and why.

A cohort (`npu-4t/mobile`) goes before its device class (`npu-4t/*`), and both before the settings of the process. Rows
are only ever added; the newest of a name counts, and every verdict carries the id of the row it was judged by.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from services.drift.limits import DriftSettings
from services.drift.models import ThresholdRow
from services.drift.schemas import SettingList, SettingRecord, ThresholdChange, ThresholdValues


@dataclass(frozen=True)
class CohortThresholds:
    """The thresholds that hold for a cohort and the id of the row they come from, None for the process's."""

    limits: DriftSettings
    row: int | None


class ThresholdBook:
    """The newest rows of every name, read once."""

    def __init__(self, session: Session, settings: DriftSettings) -> None:
        newest = select(func.max(ThresholdRow.id)).group_by(ThresholdRow.cohorts)
        self._rows = {
            row.cohorts: row for row in session.scalars(select(ThresholdRow).where(ThresholdRow.id.in_(newest)))
        }
        self._settings = settings

    def of(self, cohort: str) -> CohortThresholds:
        """Return what holds for a cohort."""
        found = self._rows.get(cohort) or self._rows.get(f"{cohort.split('/', 1)[0]}/*")
        if found is None:
            return CohortThresholds(self._settings, None)
        return CohortThresholds(self._settings.model_copy(update=found.values), found.id)


def process_settings(limits: DriftSettings) -> SettingList:
    """The settings that hold where no cohort has its own, with their units."""
    shown = []
    for name, field in type(limits).model_fields.items():
        value, default = float(getattr(limits, name)), float(field.default)
        by_cohort = name in ThresholdValues.model_fields
        meaning = field.description or ""
        shown.append(SettingRecord(name=name, value=value, default=default, meaning=meaning, by_cohort=by_cohort))
    return SettingList(items=tuple(shown))


def change_thresholds(session: Session, change: ThresholdChange, author: str, now: float) -> ThresholdRow:
    """Add a row; no values at all means back to the process's settings."""
    values = change.values.model_dump(exclude_none=True)
    row = ThresholdRow(cohorts=change.cohorts, values=values, reason=change.reason, author=author, created=now)
    session.add(row)
    session.flush()
    return row
