"""The two extreme orders in which a device with a DMA queue and a compute queue may run one stream.

A command without an event (0) signals nothing, and a wait for 0 waits for nothing.
"""

from __future__ import annotations

from contracts.npu.program import Op
from edge_agent.runtime.npu.binder import BoundCommand


def latest(items: list[BoundCommand]) -> list[BoundCommand]:
    """Return the order in which each DMA runs just before a command that waits for it, or last."""
    result: list[BoundCommand] = []
    pending: list[BoundCommand] = []
    for item in items:
        if item.command.op is Op.DMA:
            pending.append(item)
            continue
        needed = _position(pending, item.command.wait)
        result += [*pending[:needed], item]
        pending = pending[needed:]
    return result + pending


def earliest(items: list[BoundCommand]) -> list[BoundCommand]:
    """Return the order in which each DMA runs as soon as the command that it waits for is done."""
    queue = [item for item in items if item.command.op is Op.DMA]
    compute = {item.command.event for item in items if item.command.op is not Op.DMA} - {0}
    result: list[BoundCommand] = []
    done: set[int] = set()

    def drain() -> None:
        while queue and not (queue[0].command.wait in compute and queue[0].command.wait not in done):
            result.append(queue.pop(0))

    drain()
    for item in items:
        if item.command.op is Op.DMA:
            continue
        result.append(item)
        done.add(item.command.event)
        drain()
    return result + queue


def _position(pending: list[BoundCommand], event: int) -> int:
    """Return how many pending DMAs must run before `event` (0: none) is signalled; the queue runs in order."""
    for place, item in enumerate(pending):
        if event and item.command.event == event:
            return place + 1
    return 0
