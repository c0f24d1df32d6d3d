"""Gives every buffer of a memory map bytes of its own: the same program, without reuse, on a larger SRAM.

If both programs give the same outputs, no buffer was overwritten while it was still needed. A step of the map
is the index of a command from the prologue's end on: of every command when the map has segments (a depth-first
program), else of those that are no DMA, and a DMA belongs to the first step of its kernel. Rings move whole.
Invariant: only offsets change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import REGION, Op, Program, ProgramWriter, Space
from contracts.npu.spec import NpuSpec
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.memory import ALIGNMENT

_REMEDY = "the memory map does not describe this program; build the bundle again"


@dataclass(frozen=True)
class Buffer:
    """Bytes of the SRAM that hold one tensor from step `first` to step `last`, both included."""

    name: str
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryMap:
    """Buffers of the SRAM, and whether a DMA is a step of its own."""

    buffers: list[Buffer]
    transfers_count: bool


def memory_map_of(entry: Mapping[str, object], where: str) -> MemoryMap:
    """Read one profile's entry of `memory_map.json`; raises PlanViolation."""
    try:
        raw = entry["buffers"]
        assert isinstance(raw, list)
        buffers = [
            Buffer(str(b["name"]), int(b["offset"]), int(b["size"]), int(b["first_step"]), int(b["last_step"]))
            for b in raw
            if b["space"] == "SRAM"
        ]
        return MemoryMap(buffers, bool(entry.get("segments")))
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise PlanViolation(f"a memory map that cannot be read: {error!r}", where, _REMEDY) from error


def dying_at(step: int, buffers: list[Buffer]) -> list[tuple[int, int]]:
    """Return (offset, size) of each buffer that step `step` used last and that no living buffer touches."""
    living = [buffer for buffer in buffers if buffer.first <= step + 1 <= buffer.last]
    return [
        (dead.offset, dead.size)
        for dead in buffers
        if dead.last == step and not any(_touch(dead, other) for other in living)
    ]


def _touch(one: Buffer, other: Buffer) -> bool:
    return one.offset < other.offset + other.size and other.offset < one.offset + one.size


def without_reuse(program: Program, index: int, spec: NpuSpec, memory_map: MemoryMap) -> tuple[Program, NpuSpec]:
    """Return the program of one profile with a place for each buffer, and a target with room for them.

    Raises PlanViolation when a command's region lies in no buffer that is alive, or in two.
    """
    bases: dict[Buffer, int] = {}
    end = 0
    for buffer in memory_map.buffers:
        bases[buffer] = end
        end += -(-buffer.size // ALIGNMENT) * ALIGNMENT
    stream = program.commands(index).copy()
    prologue = program.profiles[index].n_prologue
    for position, step in enumerate(steps_of(stream, prologue, memory_map.transfers_count)):
        _move(stream[position : position + 1], step, bases)
    writer = ProgramWriter(program.target, program.build_id)
    writer.add_profile(replace(program.profiles[index], sram_peak=end), stream)
    data = writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes())
    return Program.open(data), replace(spec, sram_bytes=max(spec.sram_bytes, end))


def steps_of(stream: NDArray[np.void], prologue: int, transfers_count: bool) -> Iterable[int | None]:
    """Yield the step of each command; None in the prologue, whose buffers live for ever."""
    if transfers_count:
        yield from (None if position < prologue else position - prologue for position in range(len(stream)))
        return
    compute = [int(i) for i in np.flatnonzero(stream["op"] != Op.DMA) if i >= prologue]
    step_at = {position: step for step, position in enumerate(compute)}
    first_of: dict[int, int] = {}
    for position in compute:
        first_of.setdefault(int(stream[position]["kernel"]), step_at[position])
    for position, command in enumerate(stream):
        if position < prologue:
            yield None
        else:
            yield step_at.get(position, first_of.get(int(command["kernel"]), 0))


def _move(command: NDArray[np.void], step: int | None, bases: Mapping[Buffer, int]) -> None:
    """Rewrite the offsets of one command (an array of one, so that it is changed in place)."""
    where = f"step {step} {Op(int(command['op'][0])).name}"
    for name in ("src", "residual", "dst"):
        region = command[name]
        if region["space"][0] == Space.SRAM:
            region["offset"] = _moved(int(region["offset"][0]), _size(region[0]), step, bases, f"{where} {name}")
    for name in _CONSTANTS.get(Op(int(command["op"][0])), ()):
        if name == "weights_offset" or command[name][0]:
            command[name] = _moved(int(command[name][0]), 1, step, bases, f"{where} {name}")


_CONVOLUTION = ("weights_offset", "bias_offset", "quant_offset", "weight_zp_offset")
_CONSTANTS = {Op.CONV: _CONVOLUTION, Op.TABLE: _CONVOLUTION[:1], Op.HOST: _CONVOLUTION}


def _size(region: np.void) -> int:
    """Return the bytes that the region spans; of the whole ring when it is one, so that the ring moves whole."""
    assert region.dtype == REGION
    rows, cols = int(region["ring_rows"] or region["rows"]) - 1, int(region["cols"]) - 1
    return rows * int(region["row_stride"]) + cols * int(region["pixel_stride"]) + int(region["channels"])


def _moved(offset: int, size: int, step: int | None, bases: Mapping[Buffer, int], where: str) -> int:
    homes = [
        buffer
        for buffer in bases
        if buffer.offset <= offset
        and offset + size <= buffer.offset + buffer.size
        and (step is None or buffer.first <= step <= buffer.last)
    ]
    if step is None:
        homes = [buffer for buffer in homes if buffer.name.startswith("<")]
    if len(homes) != 1:
        found = ", ".join(buffer.name for buffer in homes) or "none"
        raise PlanViolation(f"bytes {offset} to {offset + size} lie in buffers: {found}", where, _REMEDY)
    return bases[homes[0]] + offset - homes[0].offset
