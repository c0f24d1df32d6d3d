"""`edgeloop doctor` finds what is wrong with an installation, says what to do, and keeps secrets to itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs
from typer.testing import CliRunner

from edgeloop.__main__ import app
from services.kit import heartbeat
from services.kit.database import engine, transaction
from services.kit.settings import settings
from services.kit.storage import ObjectStore, store
from services.operations import doctor
from services.operations.doctor import CHECKS, State
from services.releases.service import writable_repository
from tests.support.http import LiveServer
from tests.support.platform import Tokens

Diagnosis = Callable[[], dict[str, Any]]


@pytest.fixture
def diagnose(live_server: LiveServer) -> Iterator[Diagnosis]:
    """Run the doctor; answers by check."""

    def run() -> dict[str, Any]:
        result = CliRunner().invoke(app, ["doctor", "--json"])
        document = json.loads(result.stdout)
        assert (result.exit_code == 0) == document["ok"], result.output
        return {check["check"]: check for check in document["checks"]}

    with capture_logs():
        yield run


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Change a setting for this test."""

    def change(name: str, value: str) -> None:
        monkeypatch.setenv(name, value)
        settings.cache_clear()

    yield change
    monkeypatch.undo()
    settings.cache_clear()


def test_a_platform_that_is_well_is_called_well(diagnose: Diagnosis) -> None:
    for kind in ("worker", "beat"):
        heartbeat.beat_once(kind, time.time())
    found = diagnose()
    assert set(found) == {check.name for check in CHECKS}
    well = {"database", "migrations", "redis", "object store", "api", "clocks", "tokens", "background", "backlog"}
    assert {name: found[name]["state"] for name in well} == dict.fromkeys(well, "ok")


def test_what_does_not_answer_is_named_with_its_remedy(
    diagnose: Diagnosis, changed: Callable[[str, str], None]
) -> None:
    changed("EDGELOOP_DATABASE_URL", "postgresql+psycopg://postgres:hunter2@127.0.0.1:1/none")
    changed("EDGELOOP_REDIS_URL", "redis://:hunter2@127.0.0.1:1/0")
    changed("EDGELOOP_BASE_URL", "http://127.0.0.1:1")
    found = diagnose()
    for name in ("database", "migrations", "redis", "api", "background"):
        assert found[name]["state"] == "failed", name
        assert found[name]["remedy"], name
    assert "EDGELOOP_DATABASE_URL" in found["database"]["remedy"]
    assert "hunter2" not in json.dumps(found)


def test_a_database_of_another_revision_is_named(diagnose: Diagnosis) -> None:
    with engine().begin() as opened:
        opened.execute(text("UPDATE kit.alembic_version SET version_num = '0001_kit'"))
    try:
        found = diagnose()["migrations"]
    finally:
        with engine().begin() as opened:
            opened.execute(text("UPDATE kit.alembic_version SET version_num = :now"), {"now": doctor.head()})
    assert found["state"] == "failed"
    assert "0001_kit" in found["detail"]
    assert "bootstrap migrate" in found["remedy"]


def test_no_worker_is_a_failure(diagnose: Diagnosis) -> None:
    from services.kit.streams import connection

    for key in connection().scan_iter(match=f"{heartbeat.PREFIX}*"):
        connection().delete(key)
    assert diagnose()["background"]["state"] == "failed"


def test_a_token_that_expires_soon_and_one_that_is_void_are_named(
    diagnose: Diagnosis, tokens: Tokens, changed: Callable[[str, str], None]
) -> None:
    tokens.make("operator", "carol", ttl_s=timedelta(days=2).total_seconds())
    changed("EDGELOOP_SERVICE_TOKEN", "el_0000000000000000_nothing")
    found = diagnose()
    assert found["tokens"]["state"] == "warning"
    assert "operator:carol" in found["tokens"]["detail"]
    assert found["service token"]["state"] == "failed"
    assert "nothing" not in json.dumps(found["service token"])


def test_expired_update_metadata_are_a_failure(diagnose: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnose()["update metadata"]["state"] == "skipped"
    with transaction() as session:
        writable_repository(session)
    assert diagnose()["update metadata"]["state"] in {"ok", "warning"}
    monkeypatch.setattr(doctor.time, "time", lambda: 4e9)
    assert doctor.update_metadata().state is State.FAILED


def test_a_clock_that_is_off_is_a_failure(diagnose: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_redis_time", lambda: time.time() + 120)
    found = doctor.clocks()
    assert found.state is State.FAILED
    assert found.detail.startswith("redis differs by +1")


def test_a_store_that_loses_bytes_is_a_failure(diagnose: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectStore, "get", lambda _self, _key: b"other")
    assert doctor.object_store().state is State.FAILED
    assert store() is store()


def test_a_stuck_message_and_a_full_disk_are_named(diagnose: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    with transaction() as session:
        session.execute(
            text(
                "INSERT INTO kit.outbox (topic, key, payload, created_at, last_error) "
                "VALUES ('drift.alarm', 'k', '{}', now() - interval '1 hour', 'Prefect away')"
            )
        )
    found = diagnose()["backlog"]
    assert found["state"] == "warning"
    assert "Prefect away" in found["detail"]
    full = type("Usage", (), {"free": 1 << 20, "total": 1 << 40})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _path: full)
    assert doctor.disk().state is State.FAILED
