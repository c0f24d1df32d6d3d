"""A profile bound to one memory: everything a frame needs is made once, and kept while it is used."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from weakref import WeakKeyDictionary

import numpy as np

from contracts.npu.program import Profile, Program
from contracts.npu.spec import ArrayModel, NpuSpec, chip_of, load_spec
from edge_agent.runtime.npu.binder import Binder, BoundCommand
from edge_agent.runtime.npu.engines.base import Bytes, Engine, Step
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.faults import FaultSource
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.memory import Memory, aligned_zeros
from edge_agent.runtime.npu.occupancy import occupancy
from edge_agent.runtime.npu.steady import keeps_prologue
from edge_agent.runtime.npu.timing import CommandTime, FrameTime, Timer


class BoundProfile:
    """Steps, input and outputs of one profile in one memory, and its nominal time."""

    def __init__(self, memory: Memory, program: Program, index: int, engine: Engine) -> None:
        profile, stream = program.profiles[index], program.commands(index)
        self._spec = core_of(memory.spec, program.target)
        _check_sizes(memory, profile, len(stream))
        self.profile = profile
        self.names = program.names
        self.ddr = aligned_zeros(profile.ddr_extent)
        memory.resident = None  # binding loads constants into the SRAM
        self.commands = Binder(program, memory.sram[: self._spec.sram_bytes], self.ddr, engine).bind(
            stream, profile.n_prologue
        )
        self.residency = self._residency(program)
        self._prologue = _flat(self.commands[: profile.n_prologue])
        self._frame = _flat(self.commands[profile.n_prologue :])
        self.input = _image(self.ddr, profile.input_offset, profile.input, "the input")
        self.outputs = {
            out.name: _image(self.ddr, out.ddr_offset, (out.height, out.width, out.channels), out.name)
            for out in profile.outputs
        }
        self.states = {
            state.name: _image(self.ddr, state.ddr_offset, (state.height, state.width, state.channels), state.name)
            for state in profile.states
        }
        self._times: dict[tuple[str, float, bool], FrameTime] = {}

    def _residency(self, program: Program) -> object:
        """Return what tells the resident constants apart: equal for profiles that load the same bytes to the
        same places and never write over them, so that a switch between them loads nothing.
        """
        commands, cut = [bound.command for bound in self.commands], self.profile.n_prologue
        if not keeps_prologue(commands, cut):
            return object()
        loads = [(command.source, command.target) for command in commands[:cut]]
        digest = hashlib.sha256(repr(loads).encode())
        for part in (program.constants, program.quant):
            digest.update(len(part).to_bytes(8, "little") + part.tobytes())
        return digest.digest()

    def load_constants(self) -> None:
        """Run the prologue."""
        for step in self._prologue:
            step()

    def run(self) -> None:
        """Run the frame's commands one after another."""
        for step in self._frame:
            step()

    def run_with_flip(self, source: FaultSource, match: str | None) -> None:
        """Run the frame, and turn one bit of what one command wrote, in the order of the stream."""
        frame = self.commands[self.profile.n_prologue :]
        named = [i for i, bound in enumerate(frame) if match and re.search(match, self._name(bound))]
        choice = named or list(range(len(frame)))
        at = choice[source.position(len(choice))[0]]
        for position, bound in enumerate(frame):
            for step in bound.steps:
                step()
            if position == at:
                _flip(bound.targets, *source.position(sum(target.size for target in bound.targets)))

    def time(self, array: ArrayModel, mhz: float) -> FrameTime:
        """Return the nominal time of a frame."""
        return self._time(array, mhz, prologue=False)

    def timeline(self, array: ArrayModel, mhz: float) -> list[CommandTime]:
        """Return when each command of a frame runs, in stream order."""
        frame = [bound.command for bound in self.commands[self.profile.n_prologue :]]
        return list(self._timer(array, mhz).timeline(frame))

    def occupancy(self) -> list[int]:
        """Return the bytes of SRAM held while each command of the frame runs."""
        commands, cut = [bound.command for bound in self.commands], self.profile.n_prologue
        return occupancy(commands[:cut], commands[cut:])

    def prologue_time(self, array: ArrayModel, mhz: float) -> FrameTime:
        """Return the nominal time of the prologue."""
        return self._time(array, mhz, prologue=True)

    def _time(self, array: ArrayModel, mhz: float, prologue: bool) -> FrameTime:
        key = (array.name, mhz, prologue)
        if key not in self._times:
            cut = self.profile.n_prologue
            part = self.commands[:cut] if prologue else self.commands[cut:]
            commands = [bound.command for bound in part]
            self._times[key] = self._timer(array, mhz).time(commands, self.names)
        return self._times[key]

    def _timer(self, array: ArrayModel, mhz: float) -> Timer:
        """Return a timer of the core that the program is made for."""
        return Timer(self._spec, self._spec.array_model(array.name), mhz)

    def _name(self, bound: BoundCommand) -> str:
        kernel = bound.command.kernel
        return self.names[kernel] if kernel < len(self.names) else ""


def core_of(chip: NpuSpec, target: str) -> NpuSpec:
    """Return the specification of the core of `chip` that a program for `target` runs on."""
    return chip if target in (chip.name, chip_of(target)) else load_spec(target)


def _flip(targets: tuple[Bytes, ...], byte: int, bit: int) -> None:
    for target in targets:
        if byte < target.size:
            target[np.unravel_index(byte, target.shape)] ^= np.uint8(1 << bit)
            return
        byte -= target.size


_bound: WeakKeyDictionary[Memory, OrderedDict[tuple[bytes, str], BoundProfile]] = WeakKeyDictionary()


def bound_profile(memory: Memory, program: Program, index: int, engine: Engine, content: bytes) -> BoundProfile:
    """Return the profile bound to `memory`, made once for the same `content` digest; raises PlanViolation."""
    with memory.lock:
        kept = _bound.setdefault(memory, OrderedDict())
        key = (content, engine.name)
        found = kept.get(key)
        if found is None:
            found = kept[key] = BoundProfile(memory, program, index, engine)
        kept.move_to_end(key)
        while len(kept) > LIMITS.cached_programs:
            kept.popitem(last=False)
        return found


def _check_sizes(memory: Memory, profile: Profile, commands: int) -> None:
    where, remedy = f"profile {profile.name}", "compile again for this target"
    if commands > LIMITS.max_commands:
        raise PlanViolation(f"{commands} commands, at most {LIMITS.max_commands}", where, remedy)
    if profile.ddr_extent > memory.spec.ddr_bytes:
        raise PlanViolation(f"{profile.ddr_extent} bytes of DDR of {memory.spec.ddr_bytes}", where, remedy)
    if not 0 <= profile.n_prologue < commands:
        raise PlanViolation(f"{profile.n_prologue} prologue commands of {commands}", where, remedy)


def _flat(commands: list[BoundCommand]) -> list[Step]:
    return [step for bound in commands for step in bound.steps]


def _image(ddr: Bytes, offset: int, shape: tuple[int, int, int], name: str) -> Bytes:
    size = int(np.prod(shape))
    if min(shape) < 1 or offset < 0 or offset + size > ddr.size:
        raise PlanViolation(
            f"{name} {shape} at {offset} of {ddr.size} bytes of DDR", "section PROFILES", "compile again"
        )
    return ddr[offset : offset + size].reshape(shape)


def content_digest(program: Program, index: int) -> bytes:
    """Return a name for the profile's content; what is equal shares kernels and steps."""
    digest = hashlib.sha256(repr((program.target, program.profiles[index], program.names)).encode())
    for part in (program.commands(index), program.constants, program.quant):
        digest.update(part.tobytes())
    return digest.digest()
