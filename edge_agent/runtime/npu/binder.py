"""Turns a profile's commands into bound steps: views of memory, kernels and scratch are made once, at load.

Literal: a step reads and writes at the command's own offsets. Scratch stands for what the hardware keeps in
its gather unit and its accumulators. The only bytes taken at load are constants that `ConstantMap` proves to
be the same in every frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from contracts.npu.program import Op, Program, Space
from edge_agent.runtime.npu.commands import Command, decode_stream
from edge_agent.runtime.npu.engines.base import Bytes, Engine, Step
from edge_agent.runtime.npu.engines.numpy_engine import NumpyEngine
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.memory_map import ConstantMap, is_constant_load, overlap
from edge_agent.runtime.npu.regions import Place, Region, copy_step, reader, unshuffle, view, writer
from edge_agent.runtime.npu.weights import Constants, constants_of

_REMEDY = "the program's memory plan is wrong; compile again and report the build"


@dataclass(frozen=True)
class BoundCommand:
    """A command with its steps, and the bytes that it writes."""

    command: Command
    steps: tuple[Step, ...]
    target: Bytes


class Binder:
    """Binds the commands of one profile to one SRAM, one DDR array and one engine."""

    def __init__(self, program: Program, sram: Bytes, ddr: Bytes, engine: Engine) -> None:
        self._spaces: dict[int, Bytes] = {
            Space.SRAM: sram,
            Space.DDR: ddr,
            Space.CONST: program.constants,
            Space.QUANT: program.quant,
        }
        self._sram = sram
        self._engine = engine

    def bind(self, stream: np.ndarray[tuple[int, ...], np.dtype[np.void]], prologue: int) -> list[BoundCommand]:
        """Return the bound commands of prologue and frame; leaves the constants of the last frame in the
        SRAM.
        """
        commands = decode_stream(stream)
        constants = self._constants(commands, prologue)
        return [self._bind(command, constants.get(command.index)) for command in commands]

    def _constants(self, commands: list[Command], prologue: int) -> dict[int, Constants]:
        """Return the tensors of each convolution that sees the same constants in the first frame and in the
        next.
        """
        known = ConstantMap()
        seen: dict[int, Constants] = {}
        steady: dict[int, Constants] = {}
        for commands_of_pass, found in ((commands, seen), (commands[prologue:], steady)):
            for command in commands_of_pass:
                if command.op is Op.CONV and self._all_constant(known, command):
                    found[command.index] = constants_of(self._sram, command)
                if is_constant_load(command) and command.target.space == Space.SRAM:
                    self._copy(command)()
                known.write(command)
        return {index: tensors for index, tensors in steady.items() if tensors.same_as(seen.get(index))}

    @staticmethod
    def _all_constant(known: ConstantMap, command: Command) -> bool:
        return all(known.covers(offset, size) for offset, size in Constants.ranges(command))

    def _bind(self, command: Command, constants: Constants | None) -> BoundCommand:
        make = {
            Op.DMA: self._shuffle,
            Op.SHUFFLE: self._shuffle,
            Op.ADD: self._add,
        }
        if command.target.space not in (Space.SRAM, Space.DDR):
            raise PlanViolation("a write to read-only memory", command.where, _REMEDY)
        steps = self._convolve(command, constants) if command.op is Op.CONV else make[command.op](command)
        return BoundCommand(command, steps, view(self._space(command.target, command), command.target, command.where))

    def _space(self, region: Region, command: Command) -> Bytes:
        if region.space not in self._spaces:
            raise PlanViolation(f"unknown memory {region.space}", command.where, _REMEDY)
        return self._spaces[region.space]

    def _reader(self, region: Region, command: Command) -> Place:
        return reader(self._space(region, command), region, command.where)

    def _writer(self, region: Region, command: Command) -> Place:
        return writer(self._space(region, command), region, command.where)

    def _copy(self, command: Command) -> Step:
        (step,) = self._shuffle(command)[-1:]
        return step

    def _shuffle(self, command: Command) -> tuple[Step, ...]:
        source, target = command.source, command.target
        plain = source.layout == target.layout == 0
        if plain:
            places = [view(self._space(region, command), region, command.where) for region in (target, source)]
            return (copy_step(places[0], places[1], command.where),)
        read, write = self._reader(source, command), self._writer(target, command)
        return (*read.steps, copy_step(write.array, read.array, command.where), *write.steps)

    def _add(self, command: Command) -> tuple[Step, ...]:
        if command.residual is None:
            raise PlanViolation("an addition of one operand", command.where, _REMEDY)
        left, right = self._reader(command.source, command), self._reader(command.residual, command)
        write = self._writer(command.target, command)
        _same_shape(left.array, right.array, command)
        _same_shape(left.array, write.array, command)
        run = self._engine.addition(command.addition).bind(left.array, right.array, write.array)
        cut = _clamp(write.array, command.addition_clamp.low, command.addition_clamp.high)
        return (*left.steps, *right.steps, run, *cut, *write.steps)

    def _convolve(self, command: Command, constants: Constants | None) -> tuple[Step, ...]:
        if overlap(command.source, command.target):
            raise PlanViolation("a convolution that overwrites its own input", command.where, _REMEDY)
        if command.residual is not None and _half_in_place(command.residual, command.target):
            raise PlanViolation("a target that overlaps the residual but is not it", command.where, _REMEDY)
        read = self._reader(command.source, command)
        if command.residual is None:
            write = self._writer(command.target, command)
            return (*read.steps, *self._kernel(command, constants, read.array, write.array), *write.steps)
        logical = np.empty(command.target.logical, np.uint8)
        run = self._kernel(command, constants, read.array, logical)
        return (*read.steps, *run, *self._residual(command, logical))

    def _residual(self, command: Command, result: Bytes) -> tuple[Step, ...]:
        """Return the steps that spread `result` by the target's layout, add the residual and store."""
        assert command.residual is not None
        steps: list[Step] = []
        stored = command.target.stored()
        if command.target.layout != stored.layout:
            spread = np.empty(stored.shape, np.uint8)
            steps.append(unshuffle(result, spread, command.target.block))
            result = spread
        other, write = self._reader(command.residual, command), self._writer(stored, command)
        _same_shape(result, other.array, command)
        add = self._engine.addition(command.addition).bind(result, other.array, write.array)
        cut = _clamp(write.array, command.addition_clamp.low, command.addition_clamp.high)
        return (*steps, *other.steps, add, *cut, *write.steps)

    def _kernel(self, command: Command, constants: Constants | None, source: Bytes, target: Bytes) -> tuple[Step, ...]:
        rows, cols = command.window.output_size(source.shape[0], source.shape[1])
        if (rows, cols) != target.shape[:2]:
            raise PlanViolation(f"a result of {rows}x{cols} for a region {target.shape}", command.where, _REMEDY)
        Constants.check(self._sram, command)
        zero_points = (command.input_zero_point, command.output_zero_point)
        cut = _clamp(target, command.clamp.low, command.clamp.high)
        if constants is not None:
            kernel = self._engine.convolution(constants.tensors, command.window, *zero_points)
            return (kernel.bind(source, target), *cut)

        def streamed() -> None:
            tensors = constants_of(self._sram, command).tensors
            NumpyEngine().convolution(tensors, command.window, *zero_points).bind(source, target)()

        return (streamed, *cut)


def _clamp(array: Bytes, low: int, high: int) -> tuple[Step, ...]:
    flat = array.reshape(-1)
    steps: list[Step] = []
    if low > 0:
        bottom = _filled(flat.size, low)
        steps.append(lambda: np.maximum(flat, bottom, out=flat))
    if high < 255:
        top = _filled(flat.size, high)
        steps.append(lambda: np.minimum(flat, top, out=flat))
    return tuple(steps)


@lru_cache(maxsize=LIMITS.cached_index_maps)
def _filled(size: int, value: int) -> Bytes:
    """Return a read-only array of one value; NumPy compares two arrays 15 times as fast as an array and a
    number.
    """
    filled = np.full(size, value, np.uint8)
    filled.setflags(write=False)
    return filled


def _half_in_place(residual: Region, target: Region) -> bool:
    return overlap(residual, target) and residual != target


def _same_shape(one: Bytes, other: Bytes, command: Command) -> None:
    if one.shape != other.shape:
        raise PlanViolation(f"operands of {one.shape} and {other.shape}", command.where, _REMEDY)
