"""What an embedded platform consists of: every child, its command, and when it is ready.

postgres, redis, prefect             at once
mlflow, (prepare)                    when PostgreSQL is there
api, worker, beat                    when the database is migrated and the tokens exist
flows                                when Prefect and the API answer
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx

from embedded.child import ChildSpec
from embedded.environment import environment
from embedded.ports import HOST
from embedded.postgres import Postgres, clear_stale_lock, run_as
from embedded.redis import Redis
from embedded.state import PlatformInfo, StateFolder

CHILDREN = ("postgres", "redis", "prefect", "mlflow", "api", "worker", "beat", "flows")
OPTIONAL = frozenset({"prefect", "mlflow", "flows", "worker", "beat"})
STOP_ORDER = (("flows", "beat"), ("worker",), ("api", "prefect", "mlflow"), ("redis",), ("postgres",))
QUEUES = "kit,telemetry,curation,drift,builds,releases"
WORKER_THREADS = 8


class Plan:
    """The children of one platform, for one run."""

    def __init__(self, folder: StateFolder, info: PlatformInfo, more: Mapping[str, str]) -> None:
        self.folder = folder
        self.info = info
        self.postgres = Postgres(folder.root / "postgres", info.postgres_port, info.postgres_password)
        self.redis = Redis(folder.root / "redis", info.redis_port, info.redis_password)
        self._more = dict(more)

    def environment(self) -> dict[str, str]:
        """The children's environment, with the tokens known so far."""
        return environment(self.folder, self.info, self._more)

    def spec(self, name: str) -> ChildSpec:
        """What to run for the child `name`."""
        made: ChildSpec = getattr(self, f"_{name}")()
        return made

    def _postgres(self) -> ChildSpec:
        return ChildSpec(
            "postgres",
            self.postgres.command(),
            {},
            self.postgres.ready,
            stop_signal=signal.SIGINT,
            run_as=run_as(),
            before=lambda: clear_stale_lock(self.postgres.data),
        )

    def _redis(self) -> ChildSpec:
        return ChildSpec("redis", self.redis.command(), {}, self.redis.ready, before=self.redis.create)

    def _prefect(self) -> ChildSpec:
        # On SQLite in PREFECT_HOME: Prefect's tables on PostgreSQL need pg_trgm, which the wheel's server lacks.
        command = [*_module("prefect"), "server", "start", "--host", HOST, "--port", str(self.info.prefect_port)]
        health = f"{self.info.prefect_api_url}/health"
        return ChildSpec("prefect", command, self.environment(), lambda: answers(health))

    def _mlflow(self) -> ChildSpec:
        store = self.postgres.url("mlflow")
        artifacts = self.folder.root / "mlflow" / "artifacts"
        artifacts.mkdir(parents=True, exist_ok=True)
        # The store's url holds a password, so it travels in the environment, not in the arguments.
        more = {"MLFLOW_BACKEND_STORE_URI": store, "_MLFLOW_SERVER_FILE_STORE": store}
        command = [*_module("mlflow"), "server", "--host", HOST, "--port", str(self.info.mlflow_port), "--workers", "1"]
        command += ["--artifacts-destination", artifacts.as_uri()]
        health = f"{self.info.mlflow_url}/health"
        return ChildSpec("mlflow", command, {**self.environment(), **more}, lambda: answers(health))

    def _api(self) -> ChildSpec:
        command = [*_module("uvicorn"), "services.app:create_app", "--factory", "--host", HOST]
        command += ["--port", str(self.info.port), "--no-access-log", "--log-level", "warning"]
        command += ["--timeout-graceful-shutdown", "5"]
        ready = f"{self.info.base_url}/healthz"
        return ChildSpec("api", command, self.environment(), lambda: answers(ready))

    def _worker(self) -> ChildSpec:
        mark = self.folder.root / "celery" / "worker.ready"
        command = [*_module("celery"), "-A", "services.worker", "worker", "--pool", "threads", "-Q", QUEUES]
        command += ["--concurrency", str(WORKER_THREADS), "--without-gossip", "--without-mingle", "-n", "embedded@%h"]
        return self._with_mark("worker", command, mark)

    def _beat(self) -> ChildSpec:
        mark = self.folder.root / "celery" / "beat.ready"
        schedule = self.folder.root / "celery" / "schedule"
        command = [*_module("celery"), "-A", "services.worker", "beat", "--pidfile=", "--schedule", str(schedule)]
        return self._with_mark("beat", command, mark, schedule)

    def _flows(self) -> ChildSpec:
        mark = self.folder.root / "prefect" / "flows.ready"
        return self._with_mark("flows", [sys.executable, "-m", "flows.serve"], mark)

    def _with_mark(self, name: str, command: list[str], mark: Path, *stale: Path) -> ChildSpec:
        """A child that says it is ready by making the file of EDGELOOP_READY_FILE."""
        mark.parent.mkdir(parents=True, exist_ok=True)

        def clear() -> None:
            for path in (mark, *stale):
                path.unlink(missing_ok=True)

        variables = {**self.environment(), "EDGELOOP_READY_FILE": str(mark)}
        return ChildSpec(name, command, variables, mark.exists, before=clear)


def has_flows() -> bool:
    """Whether this installation has the flows' server."""
    try:
        return importlib.util.find_spec("flows.serve") is not None
    except ModuleNotFoundError:
        return False


def answers(url: str) -> bool:
    """Whether a GET of `url` is answered with success."""
    try:
        return httpx.get(url, timeout=2.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", name]
