"""The platform's own application with a store that keeps nothing: all work of the intake except the durable write.

`uvicorn benchmarks.intake.discarding:create_app --factory`. Same process layout, same routes, same token look-ups in
PostgreSQL, same buckets, same checks of every report, same batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fastapi import FastAPI

from contracts.clock import clock_from_environment
from services.app import create_app as create_platform
from services.telemetry.intake import Intake
from services.telemetry.store import Key, ReportRow, SegmentRow


class Discard:
    """Says that every row is new, and forgets it."""

    def reports(self, rows: Sequence[ReportRow], refused: Counter[str], today: int) -> set[Key]:
        """Nothing is kept."""
        return {row.key for row in rows}

    def segments(self, rows: Sequence[SegmentRow], refused: Counter[str], today: int) -> set[Key]:
        """Nothing is kept."""
        return {row.key for row in rows}


def create_app() -> FastAPI:
    """The application of the platform, discarding."""
    app = create_platform()
    app.state.intake = Intake(Discard(), clock_from_environment())
    return app
