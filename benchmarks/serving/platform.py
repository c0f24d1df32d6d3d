"""Starts and ends the platform of a bench; the bench's own process may use its database too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from alembic import command
from alembic.config import Config

from embedded.ports import HOST, free_port
from services.kit.database import engine
from services.kit.settings import Settings, settings
from tests.support.servers import postgres_server, redis_server, server_folder

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = "benchmarks.serving.application:create_app"
START_S = 60.0


@dataclass(frozen=True)
class BenchPlatform:
    """Where it is, and its server's process."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def running_platform(*, server_cpu: int | None = None, log_level: str = "WARNING") -> Iterator[BenchPlatform]:
    """A migrated platform. `server_cpu` binds the server process to one core."""
    with ExitStack() as stack:
        folder = stack.enter_context(server_folder("bench"))
        postgres, _ = stack.enter_context(postgres_server(folder))
        redis, _ = stack.enter_context(redis_server(folder))
        postgres.add_database("edgeloop")
        variables = {
            "EDGELOOP_DATABASE_URL": postgres.url("edgeloop"),
            "EDGELOOP_REDIS_URL": redis.url(),
            "EDGELOOP_STATE_DIR": str(folder / "state"),
            "EDGELOOP_LOG_LEVEL": log_level,
        }
        stack.enter_context(_environment(variables))
        _migrate()
        yield stack.enter_context(_server(folder, server_cpu))


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """The variables for this process and its children, and its settings read from them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    settings.cache_clear()
    try:
        yield
    finally:
        engine().dispose()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
        settings.cache_clear()


def _migrate() -> None:
    configuration = Config(str(ROOT / "alembic.ini"))
    with engine(Settings()).connect() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "head")


@contextmanager
def _server(folder: Path, cpu: int | None) -> Iterator[BenchPlatform]:
    port = free_port()
    words = ["-m", "uvicorn", APPLICATION, "--factory", "--host", HOST, "--port", str(port), "--no-access-log"]
    words += ["--log-level", "warning", "--backlog", "4096", "--timeout-keep-alive", "600"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log, env=environment, cwd=ROOT)
    try:
        if cpu is not None:
            os.sched_setaffinity(process.pid, {cpu})
        _wait(f"http://{HOST}:{port}/healthz", process, folder / "server.log")
        yield BenchPlatform(f"http://{HOST}:{port}", process)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the bench's server did not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)
