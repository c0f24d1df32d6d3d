"""Waits between the two queues, derived from the bytes that commands touch.

Memory is looked at in granules of 128 bytes: for each one, the last command of each queue that wrote it and that read
it. A command waits for the newest command of the other queue that it conflicts with; within a queue order is implied.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from contracts.npu import Op, Space
from contracts.npu.program import FLAG_PER_CHANNEL

Commands = npt.NDArray[np.void]
Span = tuple[int, int, int]

GRANULE = 128
_DMA, _COMPUTE = 0, 1


def order(commands: Commands) -> None:
    """Set `event` and `wait` of a frame's commands (prologue and END left out), in place."""
    memory = _Memory()
    waits = [memory.place(index, command) for index, command in enumerate(commands)]
    signals = {wait for wait in waits if wait >= 0}
    numbers = {index: number for number, index in enumerate(sorted(signals), start=1)}
    for index, wait in enumerate(waits):
        commands[index]["event"] = numbers.get(index, 0)
        commands[index]["wait"] = numbers.get(wait, 0)


class _Memory:
    """Last writer and reader of each granule by (space, queue); -1 is nobody."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int, bool], npt.NDArray[np.int32]] = {}
        self._known = [-1, -1]

    def place(self, index: int, command: np.void) -> int:
        """Record a command; the index of the one that it has to wait for, or -1."""
        queue = _DMA if command["op"] == Op.DMA else _COMPUTE
        reads, writes = list(_reads(command)), list(spans(command["dst"]))
        conflict = -1
        for span in reads:
            conflict = max(conflict, self._newest(span, 1 - queue, written=True))
        for span in writes:
            for written in (True, False):
                conflict = max(conflict, self._newest(span, 1 - queue, written=written))
        for span in reads:
            self._mark(span, queue, index, written=False)
        for span in writes:
            self._mark(span, queue, index, written=True)
        if conflict <= self._known[queue]:
            return -1
        self._known[queue] = conflict
        return conflict

    def _newest(self, span: Span, queue: int, *, written: bool) -> int:
        space, low, high = span
        table = self._last.get((space, queue, written))
        if table is None or low >= len(table):
            return -1
        return int(table[low:high].max(initial=-1))

    def _mark(self, span: Span, queue: int, index: int, *, written: bool) -> None:
        space, low, high = span
        key = space, queue, written
        table = self._last.get(key)
        if table is None or len(table) < high:
            grown = np.full(max(high, 2 * len(table) if table is not None else 1 << 15), -1, np.int32)
            if table is not None:
                grown[: len(table)] = table
            table = self._last[key] = grown
        table[low:high] = index


def spans(region: np.void) -> Iterator[Span]:
    """Granules that a region touches, as (space, first, one past): two runs where a ring wraps."""
    space, rows, ring = int(region["space"]), int(region["rows"]), int(region["ring_rows"])
    if space in (Space.NONE, Space.CONST, Space.QUANT):
        return
    stride, offset = int(region["row_stride"]), int(region["offset"])
    width = (int(region["cols"]) - 1) * int(region["pixel_stride"]) + int(region["channels"])
    first = int(region["ring_first"]) if ring else 0
    before = min(rows, ring - first) if ring else rows
    yield _span(space, offset + first * stride, (before - 1) * stride + width)
    if rows > before:
        yield _span(space, offset, (rows - before - 1) * stride + width)


def _span(space: int, start: int, size: int) -> Span:
    return space, start // GRANULE, -(-(start + size) // GRANULE)


def _reads(command: np.void) -> Iterator[Span]:
    yield from spans(command["src"])
    yield from spans(command["residual"])
    operation = int(command["op"])
    if operation == Op.TABLE:
        tables = _outputs(command) if command["flags"] & FLAG_PER_CHANNEL else 1
        yield _span(Space.SRAM, int(command["weights_offset"]), 256 * tables)
    elif operation == Op.HOST and command["weights_offset"] and not command["bias_offset"]:
        yield _span(Space.SRAM, int(command["weights_offset"]), 4 * 256)
    elif operation == Op.CONV or (operation == Op.HOST and command["bias_offset"]):
        outputs = _outputs(command)
        depth = _depth(command) // max(1, int(command["groups"]))
        taps = int(command["kh"]) * int(command["kw"])
        row = max(int(command["weights_row"]), depth * taps)
        yield _span(Space.SRAM, int(command["weights_offset"]), outputs * row)
        yield _span(Space.SRAM, int(command["bias_offset"]), outputs * 4)
        yield _span(Space.SRAM, int(command["quant_offset"]), outputs * 4)
        if command["weight_zp_offset"]:
            yield _span(Space.SRAM, int(command["weight_zp_offset"]), outputs)


def _outputs(command: np.void) -> int:
    block = int(command["dst"]["block"])
    return int(command["dst"]["channels"]) * (block * block if block else 1)


def _depth(command: np.void) -> int:
    region = command["src"]
    block = int(region["block"]) if region["layout"] == 1 else 0
    return int(region["channels"]) * (block * block if block else 1)
