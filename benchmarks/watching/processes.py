"""The platform that the console stands in front of: PostgreSQL, Redis, all APIs in one process, the console in another.

Both are `services.app` under uvicorn as in production, told apart by `EDGELOOP_SERVICES`. PostgreSQL has the settings
of the embedded platform but for durability, and logs every statement with the program that sent it.
"""

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
from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.settings import Settings, settings
from tests.support.servers import postgres_server, redis_server, server_folder

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = "services.app:create_app"
START_S, END_S = 60.0, 15.0


@dataclass(frozen=True)
class Watched:
    """Where console and APIs answer, and PostgreSQL's log."""

    console: str
    api: str
    log: StatementLog


@contextmanager
def database(prefect_url: str) -> Iterator[Path]:
    """A migrated, empty platform for this process and its children; gives the folder of its logs."""
    with ExitStack() as stack:
        folder = stack.enter_context(server_folder("console"))
        postgres, _ = stack.enter_context(postgres_server(folder, options=statements.OPTIONS))
        redis, _ = stack.enter_context(redis_server(folder))
        postgres.add_database("edgeloop")
        variables = {
            "EDGELOOP_DATABASE_URL": f"{postgres.url('edgeloop')}?application_name={statements.BENCH}",
            "EDGELOOP_REDIS_URL": redis.url(),
            "EDGELOOP_STATE_DIR": str(folder / "state"),
            "EDGELOOP_PREFECT_API_URL": prefect_url,
            "EDGELOOP_LOG_LEVEL": "WARNING",
        }
        stack.enter_context(_environment(variables))
        _migrate()
        yield folder


@contextmanager
def servers(folder: Path) -> Iterator[Watched]:
    """The APIs and the console."""
    with ExitStack() as stack:
        api = stack.enter_context(server(folder, "api", SERVICES, {}))
        console = stack.enter_context(server(folder, DASHBOARD, (DASHBOARD,), {"EDGELOOP_BASE_URL": api}))
        yield Watched(console, api, StatementLog(folder / "postgres.log"))


@contextmanager
def server(folder: Path, name: str, services: tuple[str, ...], variables: dict[str, str]) -> Iterator[str]:
    """One uvicorn process with these services; gives its address."""
    port, log = free_port(), folder / f"{name}.log"
    address = os.environ["EDGELOOP_DATABASE_URL"].partition("?")[0]
    environment = {
        **os.environ, **variables, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
        "EDGELOOP_SERVICES": ",".join(services), "EDGELOOP_DATABASE_URL": f"{address}?application_name={name}",
    }  # fmt: skip
    words = ["-m", "uvicorn", APPLICATION, "--factory", "--host", HOST, "--port", str(port), "--no-access-log"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, *words, "--log-level", "warning"], stdout=stream, stderr=stream, env=environment, cwd=ROOT
        )
    try:
        _wait(f"http://{HOST}:{port}/healthz", process, log)
        yield f"http://{HOST}:{port}"
    finally:
        _end(process)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
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


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"a server of the bench did not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)
