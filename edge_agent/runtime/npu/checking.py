"""Checking mode: runs a profile so that a wrong memory plan or a missing wait becomes a different result.

The plain run is compared, byte for byte, with runs in which

- every byte that the program did not write is poison, in two patterns: a read of what nothing wrote differs;
- DMA commands run as late, and as early, as their waits allow: a missing wait differs;
- with the compiler's memory map, every buffer is poisoned behind its last step: a life that ends too early
differs;
- with the map, every buffer has bytes of its own: a buffer that is reused too early differs.

And a read that finds a tensor overwritten by another, or rows of a ring that do not belong together, is reported from
the stream alone. Slow: whole memories
are filled. It is about places, not about arithmetic, so any engine will do.
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
from edge_agent.runtime.npu.footprint import mixed_reads
from edge_agent.runtime.npu.memory import Memory
from edge_agent.runtime.npu.no_reuse import MemoryMap, dying_at, memory_map_of, without_reuse
from edge_agent.runtime.npu.ordering import earliest, latest
from edge_agent.runtime.npu.ring_rows import torn_reads

POISONS = (0xA5, 0x5A)
Order = Callable[[list[BoundCommand]], list[BoundCommand]]


def check_profile(
    program: Program, index: int, spec: NpuSpec, memory_map: Mapping[str, object] | None = None, seed: int = 0
) -> list[str]:
    """Return what is wrong with the plan of profile `index`, in words; empty when nothing was found.

    `memory_map` is the profile's entry of the bundle's `memory_map.json`. Raises PlanViolation when the
    profile cannot even be bound.
    """
    check = _Check(program, index, spec, seed)
    findings = [
        *check.against_plain("reads bytes that nothing wrote", *(check.run(poison=p) for p in POISONS)),
        *check.against_plain("depends on a DMA that no wait orders before it", check.run(order=latest)),
        *check.against_plain("depends on a DMA that no wait orders after it", check.run(order=earliest)),
    ]
    if memory_map is not None:
        findings += check.against_map(memory_map)
    commands = [item.command for item in check.bound.commands]
    findings += [*mixed_reads(commands, spec), *torn_reads(commands)]
    return [f"profile {check.bound.profile.name}: {text}" for text in findings]


class _Check:
    """A bound profile, a frame, and the plain run's outputs."""

    def __init__(self, program: Program, index: int, spec: NpuSpec, seed: int) -> None:
        self._program, self._index, self._spec = program, index, spec
        self._memory = Memory(spec)
        self.bound = BoundProfile(self._memory, program, index, best_engine())
        shape = self.bound.input.shape
        self._frame = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
        self._plain = self.run()

    def run(self, poison: int = 0, order: Order | None = None, lives: MemoryMap | None = None) -> list[Bytes]:
        """Return what prologue and frame give; `lives`: buffers are poisoned behind their last step."""
        return _run(self.bound, self._memory, self._frame, poison, order, lives)

    def against_plain(self, what: str, *results: list[Bytes]) -> list[str]:
        """Return a finding when one of the results is not the plain one."""
        same = all(np.array_equal(a, b) for result in results for a, b in zip(self._plain, result, strict=True))
        return [] if same else [f"the result {what}"]

    def against_map(self, memory_map: Mapping[str, object]) -> list[str]:
        """Return what the runs with the compiler's memory map show."""
        try:
            lives = memory_map_of(memory_map, f"profile {self.bound.profile.name}")
            roomy, larger = without_reuse(self._program, self._index, self._spec, lives)
        except PlanViolation as error:
            return [f"the memory map does not fit the program: {error}"]
        memory = Memory(larger)
        alone = _run(BoundProfile(memory, roomy, 0, best_engine()), memory, self._frame, 0, None, None)
        return [
            *self.against_plain("differs without reuse of memory", alone),
            *self.against_plain("reads a buffer after its last planned step", self.run(POISONS[0], None, lives)),
        ]


def _run(
    bound: BoundProfile,
    memory: Memory,
    frame: Bytes,
    poison: int,
    order: Order | None,
    lives: MemoryMap | None,
) -> list[Bytes]:
    """Return the outputs of a frame; with states also those of the next frame, and the states that it leaves."""
    states = {state.name: state.zero_point for state in bound.profile.states}
    kept = {name: np.full_like(bound.states[name], zero_point) for name, zero_point in states.items()}
    results: list[Bytes] = []
    for seen in (frame, frame[::-1]) if states else (frame,):
        memory.sram[...] = poison
        bound.ddr[...] = poison
        bound.load_constants()
        bound.input[...] = seen
        for name, state in kept.items():
            bound.states[name][...] = state
        _run_frame(bound, memory, poison, order, lives)
        results += [place.copy() for place in bound.outputs.values()]
        kept = {name: place.copy() for name, place in bound.states.items()}
    return [*results, *kept.values()]


def _run_frame(bound: BoundProfile, memory: Memory, poison: int, order: Order | None, lives: MemoryMap | None) -> None:
    items = bound.commands[bound.profile.n_prologue :]
    step = -1
    for item in order(items) if order else items:
        if item.command.op is not Op.DMA or (lives and lives.transfers_count):
            # Buffers die when the next step begins; a DMA that is no step of its own belongs to the one before.
            for offset, size in dying_at(step, lives.buffers) if lives and step >= 0 else ():
                memory.sram[offset : offset + size] = poison
            step += 1
        for work in item.steps:
            work()
