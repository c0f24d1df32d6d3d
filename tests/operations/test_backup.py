"""Dump, lose everything, restore: nothing that was acknowledged before the backup is lost, and the platform goes on."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from contracts.clock import SystemClock
from edgeloop.__main__ import app
from embedded.postgres import Postgres, binaries
from services.claims import schemas
from services.claims import service as claims
from services.kit import streams
from services.kit.auth import Subject, authenticate, issue_token
from services.kit.database import engine, transaction
from services.kit.settings import Settings, settings
from services.kit.storage import store
from services.operations.backup import PROGRAMS_VARIABLE
from services.operations.expiry import expiries
from services.releases.service import writable_repository
from services.telemetry.intake import Intake
from services.telemetry.relay import REPORTS
from services.telemetry.store import PostgresStore
from services.telemetry.tasks import publish_reports
from tests.support.messages import report_bytes

CLERK = Subject(kind="operator", id="clerk", scopes=frozenset({"audit:write"}), token_id="t")
RAW = b"raw log\n"
Change = Callable[[str, str], None]


@pytest.fixture
def environment(platform: Settings, monkeypatch: pytest.MonkeyPatch) -> Change:
    """Point this process elsewhere, for this test."""
    monkeypatch.setenv(PROGRAMS_VARIABLE, str(binaries()))

    def change(name: str, value: str) -> None:
        monkeypatch.setenv(name, value)
        settings.cache_clear()

    return change


def backup(*words: object) -> Result:
    with capture_logs():
        return CliRunner().invoke(app, ["backup", *map(str, words)])


def accept(count: int) -> list[bytes]:
    bodies = [report_bytes() for _ in range(count)]
    Intake(PostgresStore(), SystemClock()).take_reports(bodies)
    return bodies


def file_evidence() -> None:
    manifest = schemas.Manifest(
        id="kept",
        summary="s",
        measured_on="2026-11-30",
        devices=("d",),
        test_sets=(schemas.TestSet(name="t", bytes=1, md5="0" * 32, sha256="0" * 64),),
        scripts=(schemas.Script(name="s", version="1"),),
        logs=(schemas.Log(name="raw.log", bytes=len(RAW), sha256=hashlib.sha256(RAW).hexdigest()),),
    )
    with transaction() as session:
        claims.file_evidence(session, CLERK, manifest, {"raw.log": RAW})


def stored() -> Counter[bytes]:
    with transaction() as session:
        return Counter(bytes(row[0]) for row in session.execute(text("SELECT body FROM telemetry.reports")))


def test_nothing_acknowledged_before_the_backup_is_lost(
    platform: Settings, postgres_instance: Postgres, environment: Change, tmp_path: Path
) -> None:
    acknowledged = accept(40)
    publish_reports()
    file_evidence()
    with transaction() as session:
        writable_repository(session)
        token = issue_token(session, "operator", "alice")
    promised = dict(expiries())
    stop, also = (
        threading.Event(),
        threading.Thread(target=lambda: [accept(5) for _ in range(200) if not stop.is_set()]),
    )
    also.start()  # the platform is at work while the backup is made
    made = backup("make", tmp_path / "b", "--json")
    stop.set()
    also.join()
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["keys"] == 5

    postgres_instance.add_database("restored")  # and everything else is lost
    streams.connection().flushall()
    environment("EDGELOOP_DATABASE_URL", postgres_instance.url("restored"))
    environment("EDGELOOP_STATE_DIR", str(tmp_path / "new-state"))
    done = backup("restore", tmp_path / "b", "--json")
    assert done.exit_code == 0, done.output

    assert not Counter(acknowledged) - stored()
    assert dict(expiries()) == promised
    with transaction() as session:
        assert str(authenticate(session, token)) == "operator:alice"
        assert claims.verify(session, "kept").ok
        writable_repository(session).add_target("after.json", b"{}", {"kind": "test"})  # the keys came back too
    with pytest.raises(DBAPIError, match="written once"), transaction() as session:
        session.execute(text("DELETE FROM claims.evidence"))
    accept(1)
    while publish_reports():
        pass
    seen: list[bytes] = []
    while streams.consume(REPORTS.stream, REPORTS.group, lambda message: seen.append(message.fields["body"])):
        pass
    assert not Counter(acknowledged) - Counter(seen), "what Redis lost is published again"
    assert backup("restore", tmp_path / "b").exit_code == 1, "never into a database that is not empty"
    engine().dispose()


def test_a_changed_or_torn_backup_is_refused_before_anything_changes(
    platform: Settings, postgres_instance: Postgres, environment: Change, tmp_path: Path
) -> None:
    store().put("doctor/one", b"one")
    assert backup("make", tmp_path / "b").exit_code == 0
    assert backup("make", tmp_path / "b").exit_code == 1, "a backup is not overwritten"
    assert backup("verify", tmp_path / "b").exit_code == 0
    (tmp_path / "b" / "objects" / "doctor" / "one").write_bytes(b"two")
    broken = backup("verify", tmp_path / "b")
    assert broken.exit_code == 1
    assert "objects/doctor/one was changed" in broken.output
    postgres_instance.add_database("untouched")
    environment("EDGELOOP_DATABASE_URL", postgres_instance.url("untouched"))
    assert "take another backup" in backup("restore", tmp_path / "b").output
    with engine().connect() as opened:
        assert opened.scalar(text("SELECT count(*) FROM pg_namespace WHERE nspname = 'kit'")) == 0
    engine().dispose()


def test_a_dump_that_fails_leaves_nothing_behind(platform: Settings, environment: Change, tmp_path: Path) -> None:
    environment(PROGRAMS_VARIABLE, str(tmp_path))
    failed = backup("make", tmp_path / "b")
    assert failed.exit_code == 1
    assert "pg_dump is not on" in failed.output
    assert list(tmp_path.iterdir()) == []
