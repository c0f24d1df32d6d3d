"""Token buckets: how often one subject may ask. Kept in Redis, so that every API process counts together.

When Redis is down each process counts for itself: being a little generous beats refusing durable writes.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

import redis

from services.kit.problems import TooManyRequests
from services.kit.streams import connection

_TAKE = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local state = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = math.min(burst, (tonumber(state[1]) or burst) + (now - (tonumber(state[2]) or now)) * rate)
local wait = 0
if left >= 1 then left = left - 1 else wait = (1 - left) / rate end
redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', tostring(now))
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate) + 1)
return tostring(wait)
"""


@dataclass(frozen=True)
class Rate:
    """`burst` requests at once, refilled at `per_second`."""

    per_second: float
    burst: int


class TokenBucket:
    """Buckets named `name`, one a subject."""

    def __init__(self, name: str, rate: Rate) -> None:
        self._name = name
        self._rate = rate
        self._local: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, subject: str) -> None:
        """Take one token or raise TooManyRequests with the seconds to wait."""
        wait = self._wait(subject)
        if wait > 0:
            after = math.ceil(wait)
            raise TooManyRequests(f"more than {self._rate.burst} requests at once; wait {after} s", retry_after_s=after)

    def _wait(self, subject: str) -> float:
        key = f"rate:{self._name}:{subject}"
        try:
            rate = (str(self._rate.per_second), str(self._rate.burst))
            answer: Any = connection().eval(_TAKE, 1, key, *rate)  # Any: redis-py types answers as sync or async
        except redis.RedisError:
            return self._wait_locally(subject)
        return float(answer)

    def _wait_locally(self, subject: str) -> float:
        now = time.monotonic()
        with self._lock:
            if len(self._local) > 100_000:
                self._local.clear()
            left, at = self._local.get(subject, (float(self._rate.burst), now))
            left = min(float(self._rate.burst), left + (now - at) * self._rate.per_second)
            enough = left >= 1.0
            self._local[subject] = (left - 1.0 if enough else left, now)
        return 0.0 if enough else (1.0 - left) / self._rate.per_second
