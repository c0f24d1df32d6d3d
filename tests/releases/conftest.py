"""Fixtures of the releases tests: the application, and a world with a clock that tests move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from services.kit.database import transaction
from services.kit.known_tokens import KNOWN
from services.kit.settings import Settings
from services.kit.streams import connection
from services.releases import service, state_document
from services.releases.routes import device
from tests.releases.world import ManualClock, World
from tests.support.http import ApiClient
from tests.support.platform import Tokens

OLD = "0" * 96
TABLES = (
    "layers, "
    "decisions, exposures, health, rollout_stages, rollouts, bundles, feedback_items, devices, "
    "enrolment_tokens, alerts, state_documents"
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock()
    monkeypatch.setattr(service, "clock", lambda: made)
    return made


@pytest.fixture
def empty(platform: Settings) -> None:
    """No device, no rollout, no baseline; the repository and its keys stay."""
    with transaction() as session:
        session.execute(text(", releases.".join(f"TRUNCATE releases.{TABLES}".split(", ")) + " CASCADE"))
        session.execute(text("UPDATE releases.control SET killed = false, baseline_digest = NULL"))
        session.execute(text("DELETE FROM kit.idempotent_answers"))
    connection().flushdb()
    device.STATE_CACHE.clear()
    KNOWN.clear()


@pytest.fixture
def world(
    empty: None,
    client: ApiClient,
    tokens: Tokens,
    clock: ManualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.setattr(state_document, "STATE", replace(state_document.STATE, memory_s=0.0))
    return World(client, tokens, clock, tmp_path)
