"""What the bench measures on: the embedded platform with a fleet's tokens, a second server that discards, and orders.

Everything is started here and ends here; nothing else on the machine is touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import httpx
import psutil
import psycopg

from benchmarks.intake import fleet
from benchmarks.intake.load import Order, Result
from embedded.environment import ROOT, environment
from embedded.plan import answers
from embedded.ports import HOST, free_port
from embedded.supervisor import Platform

WITHOUT = ("prefect", "mlflow", "flows")
START_S = 120.0


class Bed:
    """A platform in a folder, started with or without its background work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def platform(self, *, working: bool) -> Iterator[Platform]:
        """The platform while it runs; `working` with worker and beat."""
        without = WITHOUT if working else (*WITHOUT, "worker", "beat")
        with Platform(self._folder / "state", free_port(), without=without) as platform:
            yield platform

    @contextmanager
    def discarding(self, platform: Platform) -> Iterator[tuple[int, int]]:
        """Port and pid of a server like the platform's own that keeps nothing."""
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "benchmarks.intake.discarding:create_app", "--factory"]
        command += ["--host", HOST, "--port", str(port), "--no-access-log", "--log-level", "warning"]
        with (self._folder / "discarding.log").open("wb") as log:
            variables = environment(platform.folder, platform.info, {})
            server = subprocess.Popen(command, env=variables, stdout=log, stderr=log, cwd=ROOT)
        try:
            deadline = time.monotonic() + START_S
            while not answers(f"http://{HOST}:{port}/healthz"):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "discarding.log").read_text()[-2_000:])
                time.sleep(0.1)
            yield port, server.pid
        finally:
            server.terminate()
            server.wait(30)


@contextmanager
def bed() -> Iterator[Bed]:
    """A bed in a temporary folder that PostgreSQL's own user may enter."""
    with tempfile.TemporaryDirectory(prefix="edgeloop-bench-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)  # noqa: S103  # PostgreSQL runs as another user under root
        yield Bed(Path(folder))


def database(platform: Platform) -> psycopg.Connection:
    """A connection to the platform's database; every statement commits."""
    return psycopg.connect(platform.info.database_url.replace("+psycopg", ""), autocommit=True)


def enrol(platform: Platform, devices: int) -> None:
    """Give devices 0 to `devices` their tokens, as rows; the release service would take minutes for so many."""
    columns = "id, secret_hash, kind, subject_id, scopes"
    with database(platform) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY kit.tokens ({columns}) FROM STDIN") as copy:
            for device in range(devices):
                secret = hashlib.sha256(fleet.token_secret(device).encode()).digest()
                copy.write_row((fleet.token_id(device), secret, "device", f"d{device}", ["telemetry:write"]))
        cursor.execute("ANALYZE kit.tokens")


def register(platform: Platform) -> None:
    """Make the embedding of the fleet known, so that its reports are folded."""
    answer = httpx.post(
        f"{platform.info.base_url}/drift/v1/observers",
        content=fleet.observer().to_bytes(),
        headers={"Authorization": f"Bearer {platform.info.service_token}"},
        timeout=30,
        trust_env=False,
    )
    answer.raise_for_status()


class Delivery:
    """An order that the load generator is working on, in its own process."""

    def __init__(self, order: Order) -> None:
        self.accepted = 0
        self._lines: list[str] = []
        command = [sys.executable, "-m", "benchmarks.intake.load"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, text=True, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)))
        self._process.stdin.close()
        self._output = ""
        self._readers = [threading.Thread(target=self._listen), threading.Thread(target=self._read)]
        for reader in self._readers:
            reader.start()

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self._process.poll() is None

    def result(self) -> Result:
        """Wait for the end. Raises RuntimeError with what the generator said when it failed."""
        self._process.wait()
        for reader in self._readers:
            reader.join()
        if self._process.returncode != 0:
            raise RuntimeError(f"the load generator failed: {''.join(self._lines)[-2_000:]}")
        return Result(**json.loads(self._output))

    def end(self) -> None:
        """Stop it, if it still runs."""
        if self.running:
            self._process.terminate()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            word, _, number = line.partition(" ")
            if word == "progress":
                self.accepted = int(number)
            else:
                self._lines = [*self._lines[-50:], line]

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._output = self._process.stdout.read()


def deliver(order: Order, progress: Callable[[int], None] = lambda accepted: None) -> Result:
    """Have an order delivered."""
    delivery = Delivery(order)
    try:
        while delivery.running:
            progress(delivery.accepted)
            time.sleep(0.2)
        return delivery.result()
    finally:
        delivery.end()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of those it started, ended children included."""
    total = 0.0
    process = psutil.Process(pid)
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        total += times.children_user + times.children_system if each is process else 0.0
    return total


def child_pid(platform: Platform, name: str) -> int:
    """Pid of a child of the platform."""
    return int(platform.children[name]["pid"])
