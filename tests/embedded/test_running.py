"""A running platform: whole, private, alone on its folder, and back after any child was killed."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contracts.clock import hour_of
from embedded.plan import CHILDREN, answers
from embedded.ports import free_port
from embedded.supervisor import Platform
from tests.embedded.conftest import edgeloop
from tests.support.messages import TAGS, segment_json


def eventually(condition: Callable[[], bool], seconds: float = 40.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


def query(platform: Platform, statement: str) -> list[tuple[object, ...]]:
    url = platform.info.database_url.replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchall()


@pytest.fixture(scope="module")
def device_token(running: Platform) -> str:
    """The token of a device that joined with the platform's enrolment token."""
    public = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    body = {"token": running.info.enrolment_token, "public_key": public, "tags": TAGS.model_dump()}
    answer = httpx.post(f"{running.info.base_url}/releases/v1/enrolments", json=body, trust_env=False)
    assert answer.is_success, answer.text
    return str(answer.json()["access_token"])


class Sender(threading.Thread):
    """Sends segments without pause, as devices do, and keeps what was acknowledged and what was refused."""

    def __init__(self, base_url: str, token: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self.refusals: list[httpx.Response] = []
        self._url, self._token = f"{base_url}/telemetry/v1/segments", token
        self._end = threading.Event()

    def run(self) -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {self._token}"}, timeout=20, trust_env=False) as http:
            while not self._end.wait(0.12):
                document = segment_json(f"s-{secrets.token_hex(8)}", hour=hour_of(time.time()))
                answer = http.post(self._url, json=document)
                if answer.status_code == 202:
                    self.acknowledged.append(document["segment_id"])
                else:
                    self.refusals.append(answer)

    def __enter__(self) -> Sender:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join(30)


@pytest.fixture
def sender(running: Platform, device_token: str) -> Iterator[Sender]:
    with Sender(running.info.base_url, device_token) as thread:
        yield thread


def test_every_child_runs_and_answers(running: Platform) -> None:
    assert set(running.children) == set(CHILDREN) - {"flows"}
    assert all(child["state"] == "running" for child in running.children.values())
    info = running.info
    urls = (f"{info.base_url}/readyz", f"{info.prefect_api_url}/health", f"{info.mlflow_url}/health")
    assert all(answers(url) for url in urls)


def test_secrets_are_readable_for_their_owner_only_and_are_in_no_argument(running: Platform, state: Path) -> None:
    for name in ("platform.json", "children.json", "redis/redis.conf"):
        assert (state / name).stat().st_mode & 0o777 == 0o600
    info = running.info
    hidden = (info.postgres_password, info.redis_password, info.operator_token, info.service_token)
    for child in psutil.Process().children(recursive=True):
        words = " ".join(child.cmdline())
        assert not any(secret in words for secret in hidden), words


def test_secrets_are_in_no_log(running: Platform, state: Path) -> None:
    info = running.info
    for log in (state / "logs").iterdir():
        text = log.read_text(errors="replace")
        assert info.operator_token not in text
        assert info.service_token not in text
        assert info.postgres_password not in text
        assert info.redis_password not in text


def test_a_second_up_on_the_same_folder_says_so(running: Platform, state: Path) -> None:
    done = edgeloop("up", "--state", str(state), "--port", str(free_port()))
    assert done.returncode == 1
    assert "already runs" in done.stderr
    assert "--state" in done.stderr


def test_a_port_in_use_is_said_with_the_remedy(running: Platform, tmp_path: Path) -> None:
    done = edgeloop("up", "--state", str(tmp_path / "other"), "--port", str(running.info.port))
    assert done.returncode == 1
    assert f"port {running.info.port}" in done.stderr
    assert "--port" in done.stderr


def test_status_lists_the_children(running: Platform, state: Path) -> None:
    done = edgeloop("status", "--state", str(state), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert document["children"].keys() == running.children.keys()


def test_killed_children_are_noticed_logged_and_started_again(running: Platform, said: list[str], state: Path) -> None:
    before = running.children
    killed = ("beat", "worker", "api")
    for name in killed:
        running.kill(name)
    for name in killed:
        running.wait_ready(name)
    after, log = running.children, (state / "logs" / "supervisor.log").read_text()
    for name in killed:
        assert after[name]["pid"] != before[name]["pid"]
        assert after[name]["restarts"] == before[name]["restarts"] + 1
        assert any(line.startswith(f"{name} was killed by signal 9") for line in said)
        assert f"{name} was killed by signal 9" in log


def stored(running: Platform) -> set[object]:
    return {row[0] for row in query(running, "SELECT segment_id FROM telemetry.segments")}


def waiting(running: Platform) -> int:
    """Segments that curation did not have when the durable mark moved last."""
    mark = "SELECT finished FROM telemetry.stream_marks WHERE stream = 'telemetry.segments'"
    rows = query(running, f"SELECT count(*) FROM telemetry.segments WHERE id > COALESCE(({mark}), 0)")
    return int(str(rows[0][0]))


def taken_over(running: Platform) -> set[object]:
    """What curation has of its own by now."""
    return {row[0] for row in query(running, "SELECT segment_id FROM curation.segments")}


def test_nothing_acknowledged_is_lost_when_postgresql_is_killed(running: Platform, sender: Sender) -> None:
    assert eventually(lambda: len(sender.acknowledged) >= 5)
    running.kill("postgres")
    time.sleep(1.0)
    running.wait_ready("postgres")
    before = len(sender.acknowledged)
    assert eventually(lambda: len(sender.acknowledged) >= before + 5)
    acknowledged = set(sender.acknowledged)
    assert all(answer.status_code == 503 for answer in sender.refusals), [a.text for a in sender.refusals]
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in sender.refusals)
    assert acknowledged <= stored(running)
    assert eventually(lambda: acknowledged <= taken_over(running)), "the loop did not go on"


def test_nothing_acknowledged_is_lost_when_redis_is_killed(running: Platform, sender: Sender) -> None:
    assert eventually(lambda: len(sender.acknowledged) >= 5)
    running.kill("redis")
    assert eventually(lambda: len(sender.acknowledged) >= 10)
    running.wait_ready("redis")
    acknowledged = set(sender.acknowledged)
    assert acknowledged <= stored(running)
    assert sender.refusals == []
    assert eventually(lambda: acknowledged <= taken_over(running)), "the loop did not go on"
    assert eventually(lambda: waiting(running) < 20)
