"""When devices were last heard: polls go to a buffer and reach Redis in batches, never the database.

Losing the buffer loses nothing but a few seconds of "last seen".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import redis

from services.kit.streams import connection
from services.releases.limits import DEVICE

SEEN_KEY = "releases:seen"


class LastSeen:
    """Buffer of one process."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._heard: dict[str, float] = {}
        self._flushed = monotonic()

    def touch(self, device_id: str, at: float) -> bool:
        """Note a poll, without I/O; True when it is time to `flush`."""
        with self._lock:
            self._heard[device_id] = at
            due = self._monotonic() - self._flushed >= DEVICE.flush_s
            if due:
                self._flushed = self._monotonic()
            return due

    def flush(self) -> None:
        """Write the buffer out."""
        with self._lock:
            batch, self._heard = self._heard, {}
        if batch:
            _write(batch)

    def of(self, device_ids: Iterable[str]) -> dict[str, float]:
        """Last polls of these devices, from the buffer and from Redis; unknown ones are left out."""
        ids = list(device_ids)
        found = _read(ids)
        with self._lock:
            found.update({device: self._heard[device] for device in ids if device in self._heard})
        return found


def _write(batch: dict[str, float]) -> None:
    fields: dict[Any, Any] = {device: repr(at) for device, at in batch.items()}  # Any: redis-py's own types
    try:
        connection().hset(SEEN_KEY, mapping=fields)
        connection().expire(SEEN_KEY, DEVICE.seen_kept_s)
    except redis.RedisError:
        return


def _read(ids: list[str]) -> dict[str, float]:
    if not ids:
        return {}
    try:
        values: Any = connection().hmget(SEEN_KEY, ids)  # Any: redis-py types answers as sync or async
    except redis.RedisError:
        return {}
    return {device: float(value) for device, value in zip(ids, values, strict=True) if value is not None}
