"""Checking mode: runs a profile so that a wrong memory plan or a missing wait becomes a different result.

The plain run is compared, byte for byte, with runs in which

- every byte that the program did not write is poison (two patterns: a read of what was never written
differs);
- every byte is poisoned as soon as no later command reads it (a read past a buffer's life differs);
- with the compiler's memory map: every buffer has bytes of its own (a buffer reused too early differs);
- DMA commands run as late, and as early, as their waits allow (a missing wait differs).

And a read that finds a tensor partly overwritten by another is reported from the stream alone. Slow:
megabytes are filled after each command. It is about places, not about arithmetic: any engine will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from contracts.npu.program import Op, Program
from contracts.npu.spec import NpuSpec
from edge_agent.runtime.npu.binder import BoundCommand
from edge_agent.runtime.npu.bound import BoundProfile
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.engines.select import best_engine
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.footprint import Footprint, mixed_reads
from edge_agent.runtime.npu.memory import Memory
from edge_agent.runtime.npu.no_reuse import buffers_of, without_reuse

POISONS = (0xA5, 0x5A)
Order = Callable[[list[BoundCommand]], list[BoundCommand]]


def check_profile(
    program: Program, index: int, spec: NpuSpec, memory_map: Mapping[str, object] | None = None, seed: int = 0
) -> list[str]:
    """Return what is wrong with the plan of profile `index`, in words; empty when nothing was found.

    With the profile's entry of `memory_map.json`, the program also runs without any reuse of memory.

    Raises PlanViolation when the profile cannot even be bound.
    """
    memory = Memory(spec)
    bound = BoundProfile(memory, program, index, best_engine())
    frame = np.random.default_rng(seed).integers(0, 256, bound.input.shape, dtype=np.uint8)
    plain = _run(bound, memory, frame, 0)
    runs = {
        "reads bytes that nothing wrote": [_run(bound, memory, frame, poison) for poison in POISONS],
        "reads bytes after their last planned use": [_run(bound, memory, frame, POISONS[0], bury=True)],
        "depends on a DMA that no wait orders before it": [_run(bound, memory, frame, 0, order=latest)],
        "depends on a DMA that no wait orders after it": [_run(bound, memory, frame, 0, order=earliest)],
    }
    name = bound.profile.name
    findings = []
    if memory_map is not None:
        try:
            roomy = _run_without_reuse(program, index, spec, memory_map, frame)
            runs["differs without reuse of memory"] = [roomy]
        except PlanViolation as error:
            findings.append(f"profile {name}: the memory map does not fit the program: {error}")
    findings += [
        f"profile {name}: the result {what}"
        for what, results in runs.items()
        if not all(_same(plain, result) for result in results)
    ]
    commands = [item.command for item in bound.commands]
    return findings + [f"profile {name}: {text}" for text in mixed_reads(commands, bound.profile, spec)]


def _run(
    bound: BoundProfile,
    memory: Memory,
    frame: Bytes,
    poison: int,
    *,
    bury: bool = False,
    order: Order | None = None,
) -> list[Bytes]:
    memory.sram[...] = poison
    bound.ddr[...] = poison
    cut = bound.profile.n_prologue
    for item in bound.commands[:cut]:
        _step(item)
    bound.input[...] = frame
    items = bound.commands[cut:]
    footprint = Footprint(memory.spec, bound.profile, [item.command for item in bound.commands]) if bury else None
    for position, item in enumerate(order(items) if order else items):
        _step(item)
        if footprint is not None:
            dead = footprint.dying_after(cut + position)
            memory.sram[dead] = poison
    return [place.copy() for place in bound.outputs.values()]


def _run_without_reuse(
    program: Program, index: int, spec: NpuSpec, memory_map: Mapping[str, object], frame: Bytes
) -> list[Bytes]:
    buffers = buffers_of(memory_map, f"profile {program.profiles[index].name}")
    roomy, larger = without_reuse(program, index, spec, buffers)
    memory = Memory(larger)
    return _run(BoundProfile(memory, roomy, 0, best_engine()), memory, frame, 0)


def _step(item: BoundCommand) -> None:
    for step in item.steps:
        step()


def _same(one: list[Bytes], other: list[Bytes]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


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
    compute = {item.command.event for item in items if item.command.op is not Op.DMA}
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
    """Return how many pending DMAs must run before `event` is signalled; the queue runs in order."""
    for place, item in enumerate(pending):
        if item.command.event == event:
            return place + 1
    return 0
