"""How fast a download may go, and whether it may go on at all."""

from __future__ import annotations

import time
from collections.abc import Callable

from edge_agent.errors import Withdrawn

Going = Callable[[], None]
"""Called often during a download; raises Cancelled when it is to stop."""


def always() -> None:
    """Let a download go on."""


class Cap:
    """A bandwidth cap over all downloads of a device; 0 bytes a second is no cap. For one thread."""

    def __init__(
        self,
        bytes_per_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._monotonic, self._sleep = bytes_per_s, monotonic, sleep
        self._free_at = float("-inf")

    def took(self, count: int, going: Going = always) -> None:
        """Wait until `count` more bytes fit under the cap; `going` is asked while waiting."""
        if not self._rate:
            return
        self._free_at = max(self._free_at, self._monotonic()) + count / self._rate
        while (left := self._free_at - self._monotonic()) > 0:
            going()
            self._sleep(min(left, 0.5))


class StillWanted:
    """Asks `wanted` now and then, and stops the download when the answer is no."""

    def __init__(
        self, wanted: Callable[[], bool], every_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wanted, self._every, self._monotonic = wanted, every_s, monotonic
        self._next = monotonic() + every_s
        self._stopped = False

    def __call__(self) -> None:
        if not self._stopped and self._monotonic() >= self._next:
            self._next = self._monotonic() + self._every
            self._stopped = not self._wanted()
        if self._stopped:
            raise Withdrawn("the platform does not want this bundle here any more")
