"""`edgeloop diagnostics`: a key pair, and packages that it opens."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

from typer.testing import CliRunner

from contracts.diagnostics import close_package
from services.releases.diagnostics_cli import app

BODY = {"format": "f", "device_id": "d1", "trace": {"traceEvents": [1, 2, 3]}}


def test_a_pair_is_made_and_a_package_opened(tmp_path: Path) -> None:
    run, key, file, trace = CliRunner(), tmp_path / "d.key", tmp_path / "d.elg", tmp_path / "trace.json"
    made = run.invoke(app, ["keygen", "--out", str(key)])
    assert made.exit_code == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().strip() not in made.output
    file.write_bytes(close_package(BODY, base64.b64decode(made.output.strip())))
    shown = run.invoke(app, ["open", str(file), "--key", str(key), "--trace", str(trace), "--json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.output)["device_id"] == "d1"
    assert json.loads(trace.read_text()) == BODY["trace"]
    assert "3 events" in run.invoke(app, ["open", str(file), "--key", str(key)]).output
    assert run.invoke(app, ["keygen", "--out", str(key)]).exit_code == 1


def test_another_key_a_readable_key_and_damage_are_told(tmp_path: Path) -> None:
    run, key, other, file = CliRunner(), tmp_path / "d.key", tmp_path / "o.key", tmp_path / "d.elg"
    public = run.invoke(app, ["keygen", "--out", str(key)]).output.strip()
    run.invoke(app, ["keygen", "--out", str(other)])
    file.write_bytes(close_package({"format": "f"}, base64.b64decode(public)))
    assert run.invoke(app, ["open", str(file), "--key", str(other)]).exit_code == 1
    assert run.invoke(app, ["open", str(file), "--key", str(key), "--trace", str(tmp_path / "t")]).exit_code == 1
    key.chmod(0o644)
    assert run.invoke(app, ["open", str(file), "--key", str(key)]).exit_code == 1
