"""A cluster's database is migrated by one process at a time, and its secret's tokens become valid."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from embedded.postgres import Postgres
from services.kit.auth import authenticate
from services.kit.database import engine, transaction
from services.kit.settings import Settings, settings
from services.kit.storage import ObjectStore
from services.operations import bootstrap


def test_a_token_of_the_secret_is_adopted_once_and_works(platform: Settings) -> None:
    token = bootstrap.new_token()
    assert bootstrap.adopt("operator", token)
    assert not bootstrap.adopt("operator", token)
    with transaction() as session:
        assert str(authenticate(session, token)) == "operator:deployment"


@pytest.mark.parametrize("token", ["password", "el_1_2", "el_" + "0" * 16 + "_short"])
def test_a_weak_token_is_refused(platform: Settings, token: str) -> None:
    with pytest.raises(bootstrap.BootstrapError, match="new-token"):
        bootstrap.adopt("service", token)


def test_another_secret_under_a_known_id_is_refused(platform: Settings) -> None:
    token = bootstrap.new_token()
    bootstrap.adopt("service", token)
    with pytest.raises(bootstrap.BootstrapError, match="put a new one"):
        bootstrap.adopt("service", token[:-1] + ("A" if token[-1] != "A" else "B"))


def test_waiting_ends_with_what_is_missing(postgres_instance: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres_instance.add_database("empty")
    monkeypatch.setenv("EDGELOOP_DATABASE_URL", postgres_instance.url("empty"))
    settings.cache_clear()
    with pytest.raises(bootstrap.BootstrapError, match="revision none"):
        bootstrap.wait(seconds=0)
    engine().dispose()
    monkeypatch.undo()
    settings.cache_clear()


def test_two_migrations_at_once_end_in_one_history(postgres_instance: Postgres) -> None:
    postgres_instance.add_database("raced")
    root = Path(__file__).resolve().parents[2]
    environment = {"EDGELOOP_DATABASE_URL": postgres_instance.url("raced"), "PATH": "/usr/bin", "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "services.operations.bootstrap", "migrate"]

    def run(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(run, range(2)))
    assert [process.returncode for process in ended] == [0, 0], ended[0].stderr + ended[1].stderr
    assert all(bootstrap.head() in process.stderr for process in ended)


def test_keys_are_made_once_with_mode_600(tmp_path: Path) -> None:
    names = bootstrap.new_keys(tmp_path / "keys")
    assert names == ["root.pem", "snapshot.pem", "state.pem", "targets.pem", "timestamp.pem"]
    before = {name: (tmp_path / "keys" / name).read_bytes() for name in names}
    assert bootstrap.new_keys(tmp_path / "keys") == names
    assert {name: (tmp_path / "keys" / name).read_bytes() for name in names} == before
    assert all((tmp_path / "keys" / name).stat().st_mode & 0o777 == 0o600 for name in names)


def test_keys_of_the_object_store_come_from_the_settings_and_its_address_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, str]] = []

    class Bucket(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.path, self.headers.get("Authorization", "")))
            self.send_response(200)
            self.send_header("ETag", '"x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("EDGELOOP_S3_ACCESS_KEY", "the-access-key")
        monkeypatch.setenv("EDGELOOP_S3_SECRET_KEY", "the-secret-key")
        settings.cache_clear()
        ObjectStore("s3://edgeloop").put("claims/logs/one", b"one")
        server.shutdown()
    monkeypatch.undo()
    settings.cache_clear()
    ((path, authorization),) = seen
    assert path == "/edgeloop/claims/logs/one"
    assert "Credential=the-access-key/" in authorization
    assert "the-secret-key" not in authorization
