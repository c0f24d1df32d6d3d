"""The event loop of light devices: each has its own phase and jitter, none waits for another."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_agent.rest import rest_s
from edge_agent.simulated.device import LightDevice

SETTLE_S = 0.2


@dataclass(frozen=True)
class Rhythm:
    """Seconds from one turn of a device to the next, and the share by which each may differ."""

    poll_s: float = 30.0
    jitter: float = 0.1


class LightFleet:
    """Devices that live until `stop` is called."""

    def __init__(self, devices: Sequence[LightDevice], rhythm: Rhythm, seed: int = 0) -> None:
        self.devices, self.rhythm = devices, rhythm
        self._random = random.Random(seed)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let every device live, at a random phase of its rhythm."""
        self._tasks = [asyncio.create_task(self._live(device)) for device in self.devices]

    async def stop(self) -> None:
        """End every device."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def until(
        self, reached: Callable[[LightDevice], bool], share: float, limit_s: float, say: Callable[[float], None]
    ) -> float:
        """Seconds until `share` of the devices have reached something; infinite when `limit_s` was not enough."""
        begun, wanted = time.monotonic(), share * len(self.devices)
        while True:
            there = sum(reached(device) for device in self.devices)
            say(there / max(len(self.devices), 1))
            if there >= wanted:
                return time.monotonic() - begun
            if time.monotonic() - begun > limit_s:
                return float("inf")
            await asyncio.sleep(SETTLE_S)

    def summary(self) -> dict[str, object]:
        """Who runs what, and what was counted."""
        counters = self.devices[0].around.counters if self.devices else Counter()
        return {
            "devices": len(self.devices),
            "stopped": sum(device.stopped for device in self.devices),
            "by_bundle": dict(Counter(device.running[:12] for device in self.devices)),
            **dict(sorted(counters.items())),
        }

    async def _live(self, device: LightDevice) -> None:
        await asyncio.sleep(self._random.random() * self.rhythm.poll_s)
        async with asyncio.TaskGroup() as mail:  # a report that waits for its answer holds up no look
            while True:
                began = time.monotonic()
                await device.look()
                mail.create_task(device.report())
                every = self.rhythm.poll_s * (1.0 + self.rhythm.jitter * (2.0 * self._random.random() - 1.0))
                await asyncio.sleep(rest_s(every, time.monotonic() - began))
