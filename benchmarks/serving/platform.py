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

from benchmarks.serving import statements
from benchmarks.serving.statements import StatementLog
from embedded.ports import HOST, free_port
from services.kit.database import engine
from services.kit.settings import Settings, settings
from tests.support.servers import postgres_server, redis_server, server_folder

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = "benchmarks.serving.application:create_app"
BEATS = "benchmarks.serving.beats"
START_S = 60.0


@dataclass(frozen=True)
class BenchPlatform:
    """Where it is, and its server's process."""

    url: str
    process: subprocess.Popen[bytes]
    statements: StatementLog


@contextmanager
def running_platform(
    *, server_cpu: int | None = None, log_level: str = "WARNING", log_statements: bool = False, worker: bool = False
) -> Iterator[BenchPlatform]:
    """A migrated platform. `server_cpu` binds the server process to one core.

    With `log_statements` PostgreSQL logs every statement for `BenchPlatform.statements`; with `worker` the releases'
    periodic tasks run in a process of their own.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(server_folder("bench"))
        options = statements.OPTIONS if log_statements else ()
        postgres, _ = stack.enter_context(postgres_server(folder, options=options))
        redis, _ = stack.enter_context(redis_server(folder))
        postgres.add_database("edgeloop")
        variables = {
            "EDGELOOP_DATABASE_URL": _as(statements.BENCH, postgres.url("edgeloop")),
            "EDGELOOP_REDIS_URL": redis.url(),
            "EDGELOOP_STATE_DIR": str(folder / "state"),
            "EDGELOOP_LOG_LEVEL": log_level,
        }
        stack.enter_context(_environment(variables))
        _migrate()
        process, url = stack.enter_context(_server(folder, server_cpu))
        if worker:
            stack.enter_context(_worker(folder))
        yield BenchPlatform(url, process, StatementLog(folder / "postgres.log"))


def _as(program: str, url: str) -> str:
    """The database's address with the name that a program's connections carry."""
    return f"{url.partition('?')[0]}?application_name={program}"


def _environment_of(program: str) -> dict[str, str]:
    address = _as(program, os.environ["EDGELOOP_DATABASE_URL"])
    return {**os.environ, "EDGELOOP_DATABASE_URL": address, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


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
def _worker(folder: Path) -> Iterator[None]:
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", BEATS], stdout=log, stderr=log, env=_environment_of(statements.WORKER), cwd=ROOT
        )
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the bench's worker ended: {(folder / 'worker.log').read_text()[-2000:]}")
    finally:
        _end(process)


@contextmanager
def _server(folder: Path, cpu: int | None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    words = ["-m", "uvicorn", APPLICATION, "--factory", "--host", HOST, "--port", str(port), "--no-access-log"]
    words += ["--log-level", "warning", "--backlog", "4096", "--timeout-keep-alive", "600"]
    environment = _environment_of(statements.SERVER)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log, env=environment, cwd=ROOT)
    try:
        if cpu is not None:
            os.sched_setaffinity(process.pid, {cpu})
        _wait(f"http://{HOST}:{port}/healthz", process, folder / "server.log")
        yield process, f"http://{HOST}:{port}"
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
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
