"""Gives the application its intake: the one place where store and clock of telemetry are chosen."""

from __future__ import annotations

from fastapi import FastAPI

from contracts.clock import clock_from_environment
from services.telemetry.intake import Intake
from services.telemetry.store import PostgresStore


def mount(app: FastAPI) -> None:
    """Set `app.state.intake`."""
    app.state.intake = Intake(PostgresStore(), clock_from_environment())
