"""Token buckets: how often one subject may ask. Kept in Redis, so that every API process counts together.

When Redis is down each process counts for itself: being a little generous beats refusing durable writes.

`FleetBucket` is for millions of subjects that each ask rarely. A process lets a subject's first few requests pass on
its own account and refuses a flood on its own account, both without asking Redis; in between Redis decides. So the
usual device costs a look into a dictionary, and so does the thousandth request in a second of one that floods.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from services.kit.limits import RATE
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


class LocalBuckets:
    """Buckets in this process's memory, at most `RATE.subjects` of them."""

    def __init__(self, rate: Rate, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._now = rate, now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, subject: str) -> float:
        """Take one token: 0, or without taking one the seconds until there is one."""
        now, burst = self._now(), float(self._rate.burst)
        with self._lock:
            left, at = self._buckets.pop(subject, (burst, now))
            left = min(burst, left + (now - at) * self._rate.per_second)
            enough = left >= 1.0
            self._buckets[subject] = (left - 1.0 if enough else left, now)
            if len(self._buckets) > RATE.subjects:
                self._buckets.popitem(last=False)
        return 0.0 if enough else (1.0 - left) / self._rate.per_second


class TokenBucket:
    """Buckets named `name`, one a subject."""

    def __init__(self, name: str, rate: Rate) -> None:
        self._name = name
        self._rate = rate
        self._local = LocalBuckets(rate)

    def take(self, subject: str) -> None:
        """Take one token or raise TooManyRequests with the seconds to wait."""
        refuse_for(self._wait(subject), self._rate)

    def _wait(self, subject: str) -> float:
        key = f"rate:{self._name}:{subject}"
        try:
            rate = (str(self._rate.per_second), str(self._rate.burst))
            answer: Any = connection().eval(_TAKE, 1, key, *rate)  # Any: redis-py types answers as sync or async
        except redis.RedisError:
            return self._local.wait(subject)
        return float(answer)


class FleetBucket:
    """Buckets of a fleet: `rate` for each subject, of which the first `free` are each process's own to give."""

    def __init__(self, name: str, rate: Rate, free: Rate) -> None:
        self._rate = rate
        self._shared = TokenBucket(name, rate)
        self._mine, self._free = LocalBuckets(rate), LocalBuckets(free)

    async def take(self, subject: str) -> None:
        """Take one token or raise TooManyRequests with the seconds to wait."""
        refuse_for(self._mine.wait(subject), self._rate)
        if self._free.wait(subject) > 0:
            await asyncio.to_thread(self._shared.take, subject)


def refuse_for(wait: float, rate: Rate) -> None:
    """Raise TooManyRequests when there is something to wait for (seconds)."""
    if wait > 0:
        after = math.ceil(wait)
        raise TooManyRequests(f"more than {rate.burst} requests at once; wait {after} s", retry_after_s=after)
