"""Schedule and memory plan to the command stream of one profile (``docs/reference/program.md``), operator by operator.

The prologue brings what stays: the quantisation table, and the constants when they are resident. Streamed
constants come by a DMA one kernel ahead, ordered by events against the kernel that used the bytes before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.batching import repeat
from compiler.constants import Constants
from compiler.fill import Addresses, accesses, fill_operation, region, run_of_bytes
from compiler.ir import PLAIN, Graph, place
from compiler.memory.plan import CONSTANTS, QUANT, Home, MemoryPlan, weights_buffer
from compiler.ordering import order
from compiler.passes.quant_table import QuantTable
from compiler.schedule import Kernel, Schedule, Step
from contracts.npu import COMMAND, NpuSpec, Op, Space
from contracts.npu.program import FLAG_LAUNCH

Commands = npt.NDArray[np.void]
Region = npt.NDArray[np.void]


@dataclass(frozen=True)
class Stream:
    """Commands with END, and how many of them are the prologue."""

    commands: Commands
    n_prologue: int


@dataclass(frozen=True)
class Lowering:
    """What every lowering needs; ``kernel_indices`` gives each kernel's place in NAMES and that of ``prologue``."""

    schedule: Schedule
    plan: MemoryPlan
    constants: Constants
    quant: QuantTable
    kernel_indices: Mapping[str, int]
    spec: NpuSpec
    streams: int = 1

    @property
    def graph(self) -> Graph:
        """The profile's graph."""
        return self.schedule.graph

    def addresses(self) -> Addresses:
        """Where constants and table lie in SRAM."""
        bases = {}
        resident = self.plan.homes[CONSTANTS].offset if CONSTANTS in self.plan.homes else 0
        for kernel in self.schedule.kernels:
            start, size = self.constants.kernels[kernel.name]
            base = resident
            if size and not self.plan.weights_resident:
                base = self.plan.homes[weights_buffer(kernel.name)].offset - start
            bases.update({step.name: base for step in kernel.steps})
        table = self.plan.homes[QUANT].offset if QUANT in self.plan.homes else 0
        return Addresses(self.constants, self.quant, bases, table)


def lower(work: Lowering) -> Stream:
    """The stream of one profile, one command for each step."""
    body = _resident_body(work) if work.plan.weights_resident else _streamed_body(work)
    return finish(work, body)


def finish(work: Lowering, body: list[Region]) -> Stream:
    """Prologue, body with its waits, END."""
    graph = work.graph
    outside = (*graph.inputs, *(value for _, value in graph.outputs))
    heights = {work.plan.value_homes[value].offset: graph.values[value].height for value in outside}
    body = [*repeat(body, work.streams, heights), *_kept(work)]
    first = prologue(work)
    end = np.zeros((), COMMAND)
    commands = np.array([*first, *body, end], COMMAND)
    order(commands[len(first) : -1])
    return Stream(commands, len(first))


def _kept(work: Lowering) -> list[Region]:
    """At the end of a frame what follows each state takes its place."""
    graph, homes = work.graph, work.plan.value_homes
    outputs = dict(graph.outputs)
    commands = []
    for state in graph.states:
        command = np.zeros((), COMMAND)
        command["op"], command["kernel"] = Op.DMA, work.kernel_indices[work.schedule.kernels[-1].name]
        source, target = homes[outputs[state.output]], homes[state.value]
        command["src"] = region(graph, outputs[state.output], PLAIN, source.space, source.offset)
        command["dst"] = region(graph, state.value, PLAIN, target.space, target.offset)
        commands.append(command)
    return commands


def prologue(work: Lowering) -> list[Region]:
    """The commands that run once at load."""
    index = work.kernel_indices["prologue"]
    commands = []
    if work.quant.data:
        commands.append(bytes_dma(index, Space.QUANT, 0, work.plan.homes[QUANT], len(work.quant.data)))
    if work.plan.weights_resident and work.constants.data:
        commands.append(bytes_dma(index, Space.CONST, 0, work.plan.homes[CONSTANTS], len(work.constants.data)))
    return commands


def weights_dma(work: Lowering, kernel: str) -> list[Region]:
    """The transfer of one kernel's streamed constants; empty when it has none."""
    start, size = work.constants.kernels[kernel]
    if not size:
        return []
    home = work.plan.homes[weights_buffer(kernel)]
    return [bytes_dma(work.kernel_indices[kernel], Space.CONST, start, home, size)]


def bytes_dma(kernel: int, space: Space, source: int, home: Home, size: int) -> Region:
    """A transfer of contiguous bytes."""
    command = np.zeros((), COMMAND)
    command["op"], command["kernel"] = Op.DMA, kernel
    command["src"] = run_of_bytes(space, source, size)
    command["dst"] = run_of_bytes(home.space, home.offset, size)
    return command


def _resident_body(work: Lowering) -> list[Region]:
    addresses = work.addresses()
    return [command for kernel in work.schedule.kernels for command in _kernel(work, kernel, addresses)]


def _streamed_body(work: Lowering) -> list[Region]:
    kernels = work.schedule.kernels
    addresses = work.addresses()
    body = weights_dma(work, kernels[0].name)
    for index, kernel in enumerate(kernels):
        if index + 1 < len(kernels):
            body += weights_dma(work, kernels[index + 1].name)
        body += _kernel(work, kernel, addresses)
    return body


def _kernel(work: Lowering, kernel: Kernel, addresses: Addresses) -> list[Region]:
    commands = [_command(work, step, addresses) for step in kernel.steps]
    for command in commands:
        command["kernel"] = work.kernel_indices[kernel.name]
    commands[0]["flags"] |= FLAG_LAUNCH
    return commands


def _command(work: Lowering, step: Step, addresses: Addresses) -> Region:
    command = np.zeros((), COMMAND)
    fill_operation(command, work.graph, step, addresses)
    for access in accesses(step):
        home = work.plan.value_homes[place(work.graph, access.value).root.name]
        command[access.field] = region(work.graph, access.value, access.view, home.space, home.offset)
    return command
