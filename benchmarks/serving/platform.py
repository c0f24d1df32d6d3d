"""Starts and ends the platform of a bench; the bench's own process may use its database too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import statements
from benchmarks.serving.processes import ROOT, end, environment, migrate, wait_for
from benchmarks.serving.statements import StatementLog
from embedded.ports import HOST, free_port
from tests.support.servers import postgres_server, redis_server, server_folder

APPLICATION = "benchmarks.serving.application:create_app"
BEATS = "benchmarks.serving.beats"


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
        stack.enter_context(environment(variables))
        migrate()
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
        end(process)


@contextmanager
def _server(folder: Path, cpu: int | None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    words = ["-m", "uvicorn", APPLICATION, "--factory", "--host", HOST, "--port", str(port), "--no-access-log"]
    words += ["--log-level", "warning", "--backlog", "4096", "--timeout-keep-alive", "600"]
    own = _environment_of(statements.SERVER)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log, env=own, cwd=ROOT)
    try:
        if cpu is not None:
            os.sched_setaffinity(process.pid, {cpu})
        wait_for(f"http://{HOST}:{port}/healthz", process, folder / "server.log")
        yield process, f"http://{HOST}:{port}"
    finally:
        end(process)
