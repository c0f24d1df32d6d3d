"""A step's operation fields of one COMMAND: everything but the regions, which depend on where the rows lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.constants import Constants
from compiler.ir import PLAIN, Add, Conv, Graph, Host, Move, Mul, Value, View, place
from compiler.operators import fill
from compiler.passes.quant_table import QuantTable
from compiler.schedule import Step
from contracts.npu import REGION, Layout, Op, Space
from contracts.npu.program import FLAG_HOST, FLAG_RESIDUAL_FIRST

Region = npt.NDArray[np.void]


@dataclass(frozen=True)
class Addresses:
    """SRAM offsets of constants: what to add to an offset in CONSTANTS, by convolution, and where the table starts."""

    constants: Constants
    quant: QuantTable
    bases: Mapping[str, int]
    quant_base: int

    def table(self, step: str) -> int:
        """SRAM offset of a step's table."""
        return self.bases[step] + self.constants.tables[step]


def fill_operation(command: Region, graph: Graph, step: Step, addresses: Addresses) -> None:
    """Write the operation and its parameters."""
    result = graph.values[step.result]
    if isinstance(step, Conv):
        _fill_conv(command, graph, step, addresses)
    elif isinstance(step, Add):
        command["op"] = Op.ADD
        a, b = graph.values[step.a], graph.values[step.b]
        _fill_addition(command, a.scale, a.zero_point, b, result)
        if step.subtract:
            command["b_scale"] = -b.scale
        command["add_lo"], command["add_hi"] = step.clamp.low, step.clamp.high
    elif isinstance(step, Move):
        command["op"] = Op.SHUFFLE
    else:
        fill(command, graph, step, addresses.table)
        if isinstance(step, Host) and step.convolution is not None:
            _fill_constants(command, step.convolution.name, step.name, addresses)
    if getattr(step, "host", ""):
        command["flags"] |= FLAG_HOST


@dataclass(frozen=True)
class Access:
    """A value seen through a view; `field` is the REGION of the command that holds it."""

    field: str
    value: str
    view: View


def accesses(step: Step) -> tuple[Access, ...]:
    """What a step reads, in the order of its operands, and last what it writes."""
    if isinstance(step, Conv):
        residual = (Access("residual", step.residual.value, step.residual.view),) if step.residual else ()
        return (Access("src", step.source, step.read), *residual, Access("dst", step.result, step.write))
    if isinstance(step, Add):
        reads = Access("src", step.a, step.a_view), Access("residual", step.b, step.b_view)
        return (*reads, Access("dst", step.result, PLAIN))
    if isinstance(step, Move):
        return Access("src", step.source, step.read), Access("dst", step.result, step.write)
    if isinstance(step, Mul | Host):
        second = (Access("residual", step.b, PLAIN),) if step.b else ()
        return (Access("src", step.a, PLAIN), *second, Access("dst", step.result, PLAIN))
    return Access("src", step.source, PLAIN), Access("dst", step.result, PLAIN)


def region(graph: Graph, name: str, view: View, space: Space, offset: int) -> Region:
    """The whole value; `offset` is where the bytes of the value that owns them begin."""
    value, home = graph.values[name], place(graph, name)
    made = np.zeros((), REGION)
    made["space"], made["offset"] = space, offset + home.offset
    made["layout"], made["block"] = view.layout, view.block if view.layout != Layout.NHWC else 0
    made["rows"], made["cols"], made["channels"] = value.shape
    made["row_stride"], made["pixel_stride"] = home.row_stride, home.pixel_stride
    return made


def run_of_bytes(space: Space, offset: int, size: int) -> Region:
    """A contiguous run of bytes."""
    made = np.zeros((), REGION)
    made["space"], made["offset"] = space, offset
    made["rows"], made["cols"], made["channels"] = 1, 1, size
    made["row_stride"] = made["pixel_stride"] = size
    return made


def _fill_conv(command: Region, graph: Graph, conv: Conv, addresses: Addresses) -> None:
    source = graph.values[conv.source]
    command["op"] = Op.CONV
    command["kh"], command["kw"] = conv.kernel
    command["sh"], command["sw"] = conv.strides
    command["dh"], command["dw"] = conv.dilations
    command["pt"], command["pb"], command["pl"], command["pr"] = conv.pads
    command["groups"] = conv.groups
    _fill_constants(command, conv.name, conv.name, addresses)
    command["input_zp"], command["out_zp"] = source.zero_point, conv.zero_point
    command["clamp_lo"], command["clamp_hi"] = conv.clamp.low, conv.clamp.high
    if conv.residual is not None:
        residual, result = graph.values[conv.residual.value], graph.values[conv.result]
        _fill_addition(command, conv.scale, conv.zero_point, residual, result)
        if conv.residual.first:
            command["flags"] |= FLAG_RESIDUAL_FIRST
        if conv.residual.subtract:
            second = "a_scale" if conv.residual.first else "b_scale"
            command[second] = -command[second]
        command["add_lo"], command["add_hi"] = conv.residual.clamp.low, conv.residual.clamp.high


def _fill_constants(command: Region, conv: str, step: str, addresses: Addresses) -> None:
    offsets, base = addresses.constants.convolutions[conv], addresses.bases[step]
    command["weights_offset"], command["weights_row"] = base + offsets.weights, offsets.weights_row
    command["bias_offset"] = base + offsets.bias
    command["quant_offset"] = addresses.quant_base + addresses.quant.offsets[conv]
    if offsets.weight_zero_point is not None:
        command["weight_zp_offset"] = base + offsets.weight_zero_point


def _fill_addition(command: Region, scale: float, zero_point: int, b: Value, result: Value) -> None:
    command["a_scale"], command["a_zp"] = scale, zero_point
    command["b_scale"], command["b_zp"] = b.scale, b.zero_point
    command["c_scale"], command["c_zp"] = result.scale, result.zero_point
