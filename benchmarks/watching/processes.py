"""The platform that the console stands in front of: PostgreSQL, Redis, all APIs in one process, the console in another.

Both are `services.app` under uvicorn as in production, told apart by `EDGELOOP_SERVICES`. PostgreSQL has the settings
of the embedded platform but for durability, and logs every statement with the program that sent it.
"""

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
from services.kit.discovery import DASHBOARD, SERVICES
from tests.support.servers import postgres_server, redis_server, server_folder

APPLICATION = "services.app:create_app"


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
        stack.enter_context(environment(variables))
        migrate()
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
    own = {
        **os.environ, **variables, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
        "EDGELOOP_SERVICES": ",".join(services), "EDGELOOP_DATABASE_URL": f"{address}?application_name={name}",
    }  # fmt: skip
    words = ["-m", "uvicorn", APPLICATION, "--factory", "--host", HOST, "--port", str(port), "--no-access-log"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, *words, "--log-level", "warning"], stdout=stream, stderr=stream, env=own, cwd=ROOT
        )
    try:
        wait_for(f"http://{HOST}:{port}/healthz", process, log)
        yield f"http://{HOST}:{port}"
    finally:
        end(process)
