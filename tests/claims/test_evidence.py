"""Evidence is complete, written once, kept three years, exported whole, and a change of it is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from edgeloop.__main__ import app as root
from services.claims import archive
from services.claims.limits import EVIDENCE
from services.claims.service import years_later
from services.kit.database import transaction
from services.kit.storage import store
from tests.support.http import ApiClient, LiveServer
from tests.support.platform import Tokens

Cli = Callable[..., Result]


@pytest.fixture
def cli(live_server: LiveServer, tokens: Tokens) -> Iterator[Cli]:
    """`edgeloop ...` against the live platform; the server's logs stay out of the way."""
    where = ["--url", live_server.url, "--token", tokens.operator]

    def run(*words: object) -> Result:
        return CliRunner().invoke(root, [*map(str, words), *where])

    with capture_logs():
        yield run


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    """Options of `evidence add` that name real files."""
    clips, log, script = tmp_path / "clips.tar", tmp_path / "raw.jsonl", tmp_path / "bench.py"
    clips.write_bytes(b"clips" * 1000)
    log.write_text('{"ms": 25}\n')
    script.write_text("print(25)\n")
    options = ["--summary", "latency", "--device", "X1, chip A, driver 1.3", "--measured", "2026-11-30"]
    return [*options, "--test-set", clips, "--script", script, "--log", log, "--value", "25 ms @ median, X1"]


def test_what_is_filed_is_listed_and_holds(cli: Cli, files: list[object]) -> None:
    made = cli("evidence", "add", "first", *files, "--json")
    assert made.exit_code == 0, made.output
    record = json.loads(made.stdout)
    assert record["manifest"]["test_sets"][0]["md5"] == hashlib.md5(b"clips" * 1000).hexdigest()  # noqa: S324
    kept = datetime.fromisoformat(record["keep_until"]) - datetime.fromisoformat(record["filed_at"])
    assert kept.days >= 3 * 365
    listed = json.loads(cli("evidence", "list", "--json").stdout)
    assert record in listed
    assert json.loads(cli("evidence", "verify", "first", "--json").stdout)["ok"]


def test_the_same_again_changes_nothing_and_another_under_its_id_is_refused(cli: Cli, files: list[object]) -> None:
    first = cli("evidence", "add", "once", *files, "--json")
    again = cli("evidence", "add", "once", *files, "--json")
    assert json.loads(first.stdout) == json.loads(again.stdout)
    other = cli("evidence", "add", "once", *files, "--device", "another")
    assert other.exit_code == 1
    assert "use a new id" in other.output


@pytest.mark.parametrize("missing", ["--device", "--test-set", "--script", "--log"])
def test_evidence_without_one_of_the_four_parts_is_refused(cli: Cli, files: list[object], missing: str) -> None:
    place = files.index(missing)
    assert cli("evidence", "add", "partial", *files[:place], *files[place + 2 :]).exit_code == 2


def test_the_api_refuses_an_incomplete_manifest_and_logs_that_do_not_match(client: ApiClient, tokens: Tokens) -> None:
    log = b"raw"
    manifest: dict[str, Any] = {
        "id": "bad",
        "summary": "s",
        "measured_on": "2026-11-30",
        "devices": ["d"],
        "test_sets": [{"name": "t", "bytes": 1, "md5": "0" * 32, "sha256": "0" * 64}],
        "scripts": [{"name": "s", "version": "1"}],
        "logs": [{"name": "raw.log", "bytes": 3, "sha256": hashlib.sha256(log).hexdigest()}],
    }

    def send(document: dict[str, Any], name: str, data: bytes) -> int:
        files = [("logs", (name, data, "text/plain"))]
        body = {"manifest": json.dumps(document)}
        return client.post("/claims/v1/evidence", token=tokens.operator, data=body, files=files).status_code

    assert send(manifest | {"devices": []}, "raw.log", log) == 422
    assert send(manifest, "other.log", log) == 422
    assert send(manifest, "raw.log", b"cut") == 422
    assert send(manifest | {"id": "../up"}, "raw.log", log) == 422
    assert send(manifest, "raw.log", log) == 201


@pytest.mark.parametrize(
    "statement", ["UPDATE claims.evidence SET digest = ''", "DELETE FROM claims.evidence", "TRUNCATE claims.evidence"]
)
def test_the_database_itself_refuses_to_change_or_drop_evidence(cli: Cli, files: list[object], statement: str) -> None:
    cli("evidence", "add", "kept", *files)
    with pytest.raises(DBAPIError, match=r"written once|never emptied"), transaction() as session:
        session.execute(text(statement))


def test_evidence_past_its_term_may_go(cli: Cli, files: list[object]) -> None:
    with transaction() as session:
        session.execute(
            text(
                "INSERT INTO claims.evidence VALUES ('old', '', '{}', 'x', now() - interval '4 years', "
                "now() - interval '1 day')"
            )
        )
        session.execute(text("DELETE FROM claims.evidence WHERE id = 'old'"))


def test_a_shorter_term_is_refused(live_server: LiveServer) -> None:
    values = "('short', '', '{}', 'x', now(), now() + interval '2 years')"
    with pytest.raises(DBAPIError, match="three_years"), transaction() as session:
        session.execute(text(f"INSERT INTO claims.evidence VALUES {values}"))


def test_three_years_from_a_leap_day_are_not_cut_short() -> None:
    leap = datetime(2028, 2, 29, 12, tzinfo=UTC)
    assert years_later(leap, EVIDENCE.keep_years) == datetime(2031, 3, 1, 12, tzinfo=UTC)


def test_a_changed_or_lost_log_is_noticed(cli: Cli, files: list[object]) -> None:
    changed = Path(str(files[files.index("--log") + 1]))
    changed.write_text("another log\n")
    record = json.loads(cli("evidence", "add", "watched", *files, "--json").stdout)
    key = f"claims/logs/{record['manifest']['logs'][0]['sha256']}"
    store().put(key, b"forged")
    broken = cli("evidence", "verify", "watched")
    assert broken.exit_code == 3
    assert "raw.jsonl hashes to" in broken.output
    store().delete(key)
    assert "is gone" in cli("evidence", "verify", "watched").output


def test_an_archive_holds_everything_and_a_change_in_it_is_noticed(
    cli: Cli, files: list[object], tmp_path: Path
) -> None:
    cli("evidence", "add", "packed", *files)
    out = tmp_path / "evidence.tar"
    assert cli("evidence", "export", out, "packed").exit_code == 0
    assert cli("evidence", "export", out, "packed").exit_code == 2, "an archive is not overwritten"
    assert archive.faults(out) == []
    whole = out.read_bytes()
    out.write_bytes(whole.replace(b'{"ms": 25}', b'{"ms": 20}'))
    assert CliRunner().invoke(root, ["evidence", "verify", "--archive", str(out)]).exit_code == 3
    out.write_bytes(whole[: len(whole) // 3])
    assert CliRunner().invoke(root, ["evidence", "verify", "--archive", str(out)]).exit_code in {1, 3}


def test_the_linter_follows_citations_into_archive_and_platform(cli: Cli, files: list[object], tmp_path: Path) -> None:
    cli("evidence", "add", "cited", *files)
    out, notes = tmp_path / "evidence.tar", tmp_path / "notes.md"
    cli("evidence", "export", out, "cited")
    notes.write_text("Measured on X1: 25 milliseconds a frame [evidence: cited].\n", encoding="utf-8")
    offline = CliRunner().invoke(root, ["claims", "lint", str(notes), "--archive", str(out), "--strict", "--json"])
    assert offline.exit_code == 0, offline.output
    assert json.loads(offline.stdout)["citations_followed"]
    assert cli("claims", "lint", notes, "--strict").exit_code == 0
    notes.write_text("Measured on X1: 20 ms a frame [evidence: cited].\n", encoding="utf-8")
    wrong = cli("claims", "lint", notes)
    assert wrong.exit_code == 1
    assert f"{notes}:1:17: error number-not-in-evidence" in wrong.output


def test_the_linter_refuses_what_is_no_text(tmp_path: Path) -> None:
    binary = tmp_path / "x.md"
    binary.write_bytes(b"\xff\xfe\x00")
    assert CliRunner().invoke(root, ["claims", "lint", str(binary)]).exit_code == 2
    assert CliRunner().invoke(root, ["claims", "lint", str(tmp_path / "none")]).exit_code == 2
