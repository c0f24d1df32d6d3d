"""Schedule and memory plan to the command stream of one profile (``docs/reference/program.md``).

The prologue brings what stays: the quantisation table, and the constants when they are resident. Streamed
constants come by a DMA one kernel ahead, ordered by events against the kernel that used the bytes before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.constants import Constants
from compiler.ir import PLAIN, Add, Conv, Graph, Value, View
from compiler.memory.plan import CONSTANTS, QUANT, Home, MemoryPlan
from compiler.passes.quant_table import QuantTable
from compiler.schedule import Kernel, Schedule, Step
from contracts.npu import COMMAND, REGION, Layout, Op, Space
from contracts.npu.program import FLAG_LAUNCH

Commands = npt.NDArray[np.void]
Region = npt.NDArray[np.void]


@dataclass(frozen=True)
class Stream:
    """Commands with END, and how many of them are the prologue."""

    commands: Commands
    n_prologue: int


@dataclass(frozen=True)
class _Lowering:
    schedule: Schedule
    plan: MemoryPlan
    constants: Constants
    quant: QuantTable
    kernel_indices: Mapping[str, int]

    @property
    def graph(self) -> Graph:
        return self.schedule.graph


def lower(
    schedule: Schedule,
    plan: MemoryPlan,
    constants: Constants,
    quant: QuantTable,
    kernel_indices: Mapping[str, int],
) -> Stream:
    """The stream of one profile; ``kernel_indices`` gives each kernel's place in NAMES and that of
    ``prologue``.
    """
    work = _Lowering(schedule, plan, constants, quant, kernel_indices)
    prologue = _prologue(work)
    body = _resident_body(work) if plan.weights_resident else _streamed_body(work)
    end = np.zeros((), COMMAND)
    commands = np.array([*prologue, *body, end], COMMAND)
    return Stream(commands, len(prologue))


def _prologue(work: _Lowering) -> list[Region]:
    index = work.kernel_indices["prologue"]
    commands = []
    if work.quant.data:
        commands.append(_dma(index, Space.QUANT, 0, work.plan.homes[QUANT], len(work.quant.data)))
    if work.plan.weights_resident and work.constants.data:
        commands.append(_dma(index, Space.CONST, 0, work.plan.homes[CONSTANTS], len(work.constants.data)))
    return commands


def _resident_body(work: _Lowering) -> list[Region]:
    base = work.plan.homes[CONSTANTS].offset if CONSTANTS in work.plan.homes else 0
    return [command for kernel in work.schedule.kernels for command in _kernel(work, kernel, base)]


def _streamed_body(work: _Lowering) -> list[Region]:
    kernels = work.schedule.kernels
    body: list[Region] = []
    event = 0
    arrived = [0] * len(kernels)
    finished = [0] * len(kernels)

    def fetch(index: int) -> None:
        nonlocal event
        start, size = work.constants.kernels[kernels[index].name]
        if not size:
            return
        event += 1
        arrived[index] = event
        home = work.plan.homes[f"<weights of {kernels[index].name}>"]
        command = _dma(work.kernel_indices[kernels[index].name], Space.CONST, start, home, size)
        command["event"], command["wait"] = event, finished[index - 2] if index >= 2 else 0
        body.append(command)

    fetch(0)
    for index, kernel in enumerate(kernels):
        if index + 1 < len(kernels):
            fetch(index + 1)
        start, size = work.constants.kernels[kernel.name]
        base = work.plan.homes[f"<weights of {kernel.name}>"].offset - start if size else 0
        commands = _kernel(work, kernel, base)
        commands[0]["wait"] = arrived[index]
        event += 1
        commands[-1]["event"] = finished[index] = event
        body += commands
    return body


def _dma(kernel: int, space: Space, source: int, home: Home, size: int) -> Region:
    command = np.zeros((), COMMAND)
    command["op"], command["kernel"] = Op.DMA, kernel
    command["src"] = _bytes(space, source, size)
    command["dst"] = _bytes(home.space, home.offset, size)
    return command


def _bytes(space: Space, offset: int, size: int) -> Region:
    region = np.zeros((), REGION)
    region["space"], region["offset"] = space, offset
    region["rows"], region["cols"], region["channels"] = 1, 1, size
    region["row_stride"] = region["pixel_stride"] = size
    return region


def _kernel(work: _Lowering, kernel: Kernel, base: int) -> list[Region]:
    commands = [_command(work, step, base) for step in kernel.steps]
    for command in commands:
        command["kernel"] = work.kernel_indices[kernel.name]
    commands[0]["flags"] = FLAG_LAUNCH
    return commands


def _command(work: _Lowering, step: Step, base: int) -> Region:
    command = np.zeros((), COMMAND)
    result = work.graph.values[step.result]
    if isinstance(step, Conv):
        _fill_conv(work, command, step, base)
        command["dst"] = _region(work, result, step.write)
    elif isinstance(step, Add):
        command["op"] = Op.ADD
        a, b = work.graph.values[step.a], work.graph.values[step.b]
        command["src"], command["residual"] = _region(work, a, step.a_view), _region(work, b, step.b_view)
        _fill_addition(command, a.scale, a.zero_point, b, result)
        command["add_lo"], command["add_hi"] = step.clamp.low, step.clamp.high
        command["dst"] = _region(work, result, PLAIN)
    else:
        command["op"] = Op.SHUFFLE
        command["src"] = _region(work, work.graph.values[step.source], step.read)
        command["dst"] = _region(work, result, step.write)
    return command


def _fill_conv(work: _Lowering, command: Region, conv: Conv, base: int) -> None:
    source = work.graph.values[conv.source]
    offsets = work.constants.convolutions[conv.name]
    command["op"] = Op.CONV
    command["src"] = _region(work, source, conv.read)
    command["kh"], command["kw"] = conv.kernel
    command["sh"], command["sw"] = conv.strides
    command["dh"], command["dw"] = conv.dilations
    command["pt"], command["pb"], command["pl"], command["pr"] = conv.pads
    command["groups"] = conv.groups
    command["weights_offset"] = base + offsets.weights
    command["bias_offset"] = base + offsets.bias
    command["quant_offset"] = work.plan.homes[QUANT].offset + work.quant.offsets[conv.name]
    if offsets.weight_zero_point is not None:
        command["weight_zp_offset"] = base + offsets.weight_zero_point
    command["input_zp"], command["out_zp"] = source.zero_point, conv.zero_point
    command["clamp_lo"], command["clamp_hi"] = conv.clamp.low, conv.clamp.high
    if conv.residual is None:
        return
    residual = work.graph.values[conv.residual.value]
    command["residual"] = _region(work, residual, conv.residual.view)
    _fill_addition(command, conv.scale, conv.zero_point, residual, work.graph.values[conv.result])
    command["add_lo"], command["add_hi"] = conv.residual.clamp.low, conv.residual.clamp.high


def _fill_addition(command: Region, scale: float, zero_point: int, b: Value, result: Value) -> None:
    command["a_scale"], command["a_zp"] = scale, zero_point
    command["b_scale"], command["b_zp"] = b.scale, b.zero_point
    command["c_scale"], command["c_zp"] = result.scale, result.zero_point


def _region(work: _Lowering, value: Value, view: View) -> Region:
    home = work.plan.value_homes[value.name]
    region = np.zeros((), REGION)
    region["space"], region["offset"] = home.space, home.offset
    region["layout"], region["block"] = view.layout, view.block if view.layout != Layout.NHWC else 0
    region["rows"], region["cols"], region["channels"] = value.shape
    region["row_stride"], region["pixel_stride"] = value.width * value.channels, value.channels
    return region
