"""Turns a profile's commands into bound steps: views of memory, kernels and scratch are made once, at load.

Literal: a step reads and writes at the command's own offsets. Scratch stands for what the hardware keeps in
its gather unit and its accumulators. The only bytes taken at load are constants that `steady_constants`
proves to be the same in every frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contracts.npu.program import Op, Program, Space
from edge_agent.runtime.npu.clamping import clamp_steps
from edge_agent.runtime.npu.commands import Command, Stream, decode_stream
from edge_agent.runtime.npu.convolving import Convolutions
from edge_agent.runtime.npu.engines.base import Bytes, Engine, Step
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.operators import OPERATORS, Operands
from edge_agent.runtime.npu.places import Place, copy_steps, reader, views, writer
from edge_agent.runtime.npu.regions import Region, overlap, same_place
from edge_agent.runtime.npu.requantize import PairParameters
from edge_agent.runtime.npu.scratch import Scratch
from edge_agent.runtime.npu.shuffles import unshuffle
from edge_agent.runtime.npu.steady import steady_constants
from edge_agent.runtime.npu.weights import Constants, check_constants, constant_ranges, read_constants

_REMEDY = "the program's memory plan is wrong; compile again and report the build"


@dataclass(frozen=True)
class BoundCommand:
    """A command with its steps, and the bytes that it writes (two arrays where a ring wraps)."""

    command: Command
    steps: tuple[Step, ...]
    targets: tuple[Bytes, ...]


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
        self._scratch = Scratch()
        self._convolutions = Convolutions(sram, engine)

    def bind(self, stream: Stream, prologue: int) -> list[BoundCommand]:
        """Return the bound commands of prologue and frame; leaves the constants of the last frame in the
        SRAM.
        """
        commands = decode_stream(stream)
        constants = steady_constants(self._sram, commands, prologue, self._load)
        return [self._bind(command, constants.get(command.index)) for command in commands]

    def _load(self, command: Command) -> None:
        for step in self._move(command):
            step()

    def _bind(self, command: Command, constants: Constants | None) -> BoundCommand:
        if command.target.space not in (Space.SRAM, Space.DDR):
            raise PlanViolation("a write to read-only memory", command.where, _REMEDY)
        check_constants(self._sram, command)
        targets = views(self._space(command.target, command), command.target, command.where)
        return BoundCommand(command, self._steps(command, constants), targets)

    def _steps(self, command: Command, constants: Constants | None) -> tuple[Step, ...]:
        if command.op in (Op.DMA, Op.SHUFFLE):
            return self._move(command)
        if command.op is Op.CONV:
            return self._convolve(command, constants)
        if command.op in (Op.ADD, Op.MUL):
            return self._combine(command)
        if command.op in OPERATORS:
            return self._operate(command, constants)
        raise PlanViolation("an operation that this device does not have", command.where, "compile again")

    def _space(self, region: Region, command: Command) -> Bytes:
        if region.space not in self._spaces:
            raise PlanViolation(f"unknown memory {region.space}", command.where, _REMEDY)
        return self._spaces[region.space]

    def _reader(self, region: Region, command: Command, role: str) -> Place:
        return reader(self._space(region, command), region, command.where, self._scratch, role)

    def _writer(self, region: Region, command: Command) -> Place:
        return writer(self._space(region, command), region, command.where, self._scratch, "target")

    def _move(self, command: Command) -> tuple[Step, ...]:
        source, target = command.source, command.target
        if overlap(source, target):
            raise PlanViolation("a copy onto its own source", command.where, _REMEDY)
        if source.layout == target.layout == 0:
            to, taken = (views(self._space(region, command), region, command.where) for region in (target, source))
            return copy_steps(to, taken, command.where)
        read, write = self._reader(source, command, "source"), self._writer(target, command)
        return (*read.steps, *copy_steps((write.array,), (read.array,), command.where), *write.steps)

    def _combine(self, command: Command) -> tuple[Step, ...]:
        """Return the steps of an addition or a multiplication of two maps."""
        if command.residual is None:
            raise PlanViolation(f"{_NAMES[command.op]} of one operand", command.where, _REMEDY)
        _check_in_place(command, command.reads)
        read = self._reader(command.source, command, "source")
        return (*read.steps, *self._pairwise(command, command.target, read.array))

    def _pairwise(self, command: Command, target: Region, left: Bytes) -> tuple[Step, ...]:
        """Return the steps that combine `left` with the residual, cut the result and store it."""
        assert command.residual is not None
        right, write = self._reader(command.residual, command, "residual"), self._writer(target, command)
        parameters, first, second = command.addition, left, right.array
        if command.residual_first:
            parameters, first, second = parameters.exchanged(), second, first
        _check_scales(parameters, command)
        for other in (right.array, write.array):
            if left.shape != other.shape:
                raise PlanViolation(f"operands of {left.shape} and {other.shape}", command.where, _REMEDY)
        make = self._engine.multiplication if command.op is Op.MUL else self._engine.addition
        run = make(parameters).bind(first, second, write.array)
        return (*right.steps, run, *clamp_steps(write.array, command.addition_clamp), *write.steps)

    def _convolve(self, command: Command, constants: Constants | None) -> tuple[Step, ...]:
        if overlap(command.source, command.target):
            raise PlanViolation("a convolution that overwrites its own input", command.where, _REMEDY)
        _check_in_place(command, command.reads[1:])
        read = self._reader(command.source, command, "source")
        target = command.target
        if command.residual is None:
            write = self._writer(target, command)
            return (*read.steps, *self._convolutions.bind(command, constants, read.array, write.array), *write.steps)
        logical = self._scratch.take("result", target.logical)
        run = self._convolutions.bind(command, constants, read.array, logical)
        return (*read.steps, *run, *self._residual(command, logical))

    def _residual(self, command: Command, result: Bytes) -> tuple[Step, ...]:
        """Return the steps that spread `result` by the target's layout, add the residual and store."""
        target, stored = command.target, command.target.stored()
        if target.layout == stored.layout:
            return self._pairwise(command, stored, result)
        spread = self._scratch.take("spread", stored.shape)
        return (unshuffle(result, spread, target.block), *self._pairwise(command, stored, spread))

    def _operate(self, command: Command, constants: Constants | None) -> tuple[Step, ...]:
        """Return the steps of an operation that is no convolution and no addition."""
        regions = command.reads
        if any(overlap(region, command.target) for region in regions):
            raise PlanViolation("an operation that overwrites its own input", command.where, _REMEDY)
        reads = [self._reader(region, command, role) for region, role in zip(regions, _ROLES, strict=False)]
        write = self._writer(command.target, command)
        ranges = constant_ranges(command)

        def fetch() -> Constants:
            return read_constants(self._sram, ranges)

        operands = Operands(tuple(read.array for read in reads), write.array, constants, fetch, self._scratch)
        steps = OPERATORS[command.op](command, operands)
        return (*(step for read in reads for step in read.steps), *steps, *write.steps)


_ROLES = ("source", "residual")
_NAMES = {Op.ADD: "an addition", Op.MUL: "a multiplication"}


def _check_in_place(command: Command, operands: tuple[Region, ...]) -> None:
    """Raise PlanViolation when the target overlaps one of `operands` without being exactly it."""
    target = command.target
    if any(overlap(operand, target) and not same_place(operand, target) for operand in operands):
        raise PlanViolation("a target that overlaps the residual but is not it", command.where, _REMEDY)


def _check_scales(scales: PairParameters, command: Command) -> None:
    values = (scales.a_scale, scales.b_scale, scales.c_scale)
    if not np.isfinite(values).all() or scales.a_scale <= 0 or not scales.b_scale or scales.c_scale <= 0:
        raise PlanViolation(f"operands of the scales {values}", command.where, "compile the model again")
