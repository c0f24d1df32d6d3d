"""Real PostgreSQL and Redis for tests: started once a session, ended with it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from embedded.ports import free_port
from embedded.postgres import Postgres, clear_stale_lock, own, run_as
from embedded.redis import Redis

PASSWORD = "test-only"
DATABASE_ALONE = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")


class Server:
    """A child that can be killed and started again on the same data, for tests of failure."""

    def __init__(
        self, command: list[str], ready: Callable[[], bool], log: Path, as_user: bool, before: Callable[[], None]
    ) -> None:
        self._command, self._ready, self._log, self._as_user, self._before = command, ready, log, as_user, before
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._before()
        extra = run_as() if self._as_user else {}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd="/", **extra)
        deadline = time.monotonic() + 60
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self._command[0]} did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """`kill -9`, as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it in order."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def postgres_server(
    folder: Path, *, durable: bool = False, options: Sequence[str] = ()
) -> Iterator[tuple[Postgres, Server]]:
    """A fresh PostgreSQL in `folder`; not durable by default, for speed. `options` of its command line are added."""
    postgres = Postgres(folder / "postgres", free_port(), PASSWORD)
    postgres.create()
    command = [*postgres.command(), "-c", "max_connections=200", *(() if durable else DATABASE_ALONE), *options]
    server = Server(command, postgres.ready, folder / "postgres.log", True, lambda: clear_stale_lock(postgres.data))
    try:
        yield postgres, server
    finally:
        server.stop()


@contextmanager
def redis_server(folder: Path) -> Iterator[tuple[Redis, Server]]:
    """A fresh Redis in `folder`."""
    redis = Redis(folder / "redis", free_port(), PASSWORD)
    redis.create()
    server = Server(redis.command(), redis.ready, folder / "redis.log", False, lambda: None)
    try:
        yield redis, server
    finally:
        server.stop()


@contextmanager
def server_folder(name: str) -> Iterator[Path]:
    """A temporary folder that PostgreSQL's own user may enter."""
    with tempfile.TemporaryDirectory(prefix=f"edgeloop-{name}-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)  # noqa: S103  # PostgreSQL runs as another user under root
        yield Path(folder)


__all__ = ["Server", "own", "postgres_server", "redis_server", "server_folder"]
