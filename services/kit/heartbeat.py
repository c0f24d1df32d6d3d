"""Signs of life: each background process refreshes a key in Redis that expires by itself.

Nothing depends on them but people: `edgeloop doctor` and the exporter count the processes that are alive. A process
that hangs as a whole stops refreshing; one whose Redis is down is not alive for this purpose.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import redis
import structlog

from services.kit.streams import connection

PREFIX = "edgeloop:alive:"
EVERY_S = 10.0
LIFE_S = 45

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Alive:
    """A background process that lives: its kind (`worker`, `beat`), where it runs and since when (Unix time)."""

    kind: str
    host: str
    pid: int
    since: float
    seen: float


def start(kind: str) -> threading.Thread:
    """Refresh this process's key from a thread of its own until the process ends."""
    since = time.time()
    thread = threading.Thread(target=_run, args=(kind, since), name="edgeloop-heartbeat", daemon=True)
    thread.start()
    return thread


def beat_once(kind: str, since: float) -> None:
    """Refresh the key now."""
    host, pid = socket.gethostname(), os.getpid()
    document = {"kind": kind, "host": host, "pid": pid, "since": since, "seen": time.time()}
    connection().set(f"{PREFIX}{kind}:{host}:{pid}", json.dumps(document), ex=LIFE_S)


def alive() -> list[Alive]:
    """Every background process that refreshed its key lately."""
    client: Any = connection()  # Any: redis-py types answers as sync or async
    found = []
    for key in client.scan_iter(match=f"{PREFIX}*", count=200):
        kept = client.get(key)
        if kept is not None:
            found.append(Alive(**json.loads(kept)))
    return sorted(found, key=lambda process: (process.kind, process.host, process.pid))


def _run(kind: str, since: float) -> None:
    while True:
        try:
            beat_once(kind, since)
        except redis.RedisError as error:
            log.warning("heartbeat_failed", kind=kind, error=type(error).__name__)
        time.sleep(EVERY_S)
