"""Checks of CONV and POOL: windows that slide over rows."""

from __future__ import annotations

import math
from collections.abc import Hashable

from compiler.verifier.arithmetic import check_scales
from compiler.verifier.commands import Command
from compiler.verifier.frame import READS, WRITES, Frame
from compiler.verifier.operand import Operand
from compiler.verifier.regions import Region
from compiler.verifier.values import UNKNOWN
from contracts.npu import Layout
from contracts.npu.program import FLAG_GLOBAL, PoolMode

_NHWC = (Layout.NHWC,)


def check_conv(frame: Frame, index: int, command: Command) -> None:
    """A convolution, with or without the addition behind it."""
    source = frame.region(index, command.src, "src", READS)
    target = frame.region(index, command.dst, "dst", WRITES)
    if source is None or target is None or not _window_suits(frame, index, command, source, target):
        return
    sizes = conv_constants(command, source.logical[2], target.logical[2])
    found = [frame.constant(index, getattr(command, role), size, role) for role, size in sizes.items()]
    operand = frame.operand(index, source, command.input_zp, "src")
    frame.clamp(index, command.clamp_lo, command.clamp_hi)
    parameters = (*command[8:14], *command[16:19], *command[23:27], command.weights_row, target.logical[2])
    frame.memory.roles.belong(frame.report, index, command.weights_row, found)
    name = ("conv", command.kernel, parameters, tuple(found), operand.name, target.layout, target.block)
    row = _row(frame, index, command, name, operand)
    value = UNKNOWN if () in found else frame.value(name, (operand.value,), command.out_zp)
    residual = None
    if command.residual.space:
        residual, value = _fused_addition(frame, index, command, target, value, row)
    frame.apart(index, target, source, "src")
    for role, size in sizes.items():
        frame.apart_from_constants(index, target, getattr(command, role), size, role)
    if residual is not None and not residual.region.same_place(target):
        frame.apart(index, target, residual.region, "the residual without being exactly it")
    frame.write(index, target, value, row)


def conv_constants(command: Command, depth: int, outputs: int) -> dict[str, int]:
    """Roles of the constants of a convolution, and their sizes."""
    row = depth // command.groups * command.kh * command.kw
    sizes = {
        "weights_offset": (outputs - 1) * (command.weights_row or row) + row,
        "bias_offset": outputs * 4,
        "quant_offset": outputs * 4,
    }
    if command.weight_zp_offset:
        sizes["weight_zp_offset"] = outputs
    return sizes


def check_pool(frame: Frame, index: int, command: Command) -> None:
    """Pooling over windows, or of the whole map."""
    source = frame.region(index, command.src, "src", _NHWC)
    target = frame.region(index, command.dst, "dst", _NHWC)
    if source is None or target is None:
        return
    if command.mode not in tuple(PoolMode):
        frame.report.add(index, "form", f"pooling of mode {command.mode}")
        return
    operand = frame.operand(index, source, command.input_zp, "src")
    frame.clamp(index, command.clamp_lo, command.clamp_hi)
    _pool_quantisation(frame, index, command, operand)
    parameters = (command.flags & FLAG_GLOBAL, command.mode, *command[8:14], *command[16:18], *command[23:27])
    name = ("pool", command.kernel, parameters, command.a_scale, command.c_scale, operand.name)
    if command.flags & FLAG_GLOBAL:
        frame.witness.see(index, name, command, operand)
        row = 0
        if target.logical != (1, 1, source.channels):
            frame.report.add(index, "extents", f"dst {target.logical} of the pool of {source.channels} channels")
    elif _pool_suits(frame, index, command, source, target):
        row = _row(frame, index, command, name, operand)
    else:
        return
    frame.apart(index, target, source, "src")
    frame.write(index, target, frame.value(name, (operand.value,), command.out_zp, command.c_scale), row)


def _pool_quantisation(frame: Frame, index: int, command: Command, operand: Operand) -> None:
    frame.scale(index, operand, command.a_scale, "src")
    if (command.a_zp, command.c_zp) != (command.input_zp, command.out_zp):
        frame.report.add(index, "zero point", "zero points of src and dst are said twice and differ")
    same = (command.a_scale, command.input_zp) == (command.c_scale, command.out_zp)
    if command.mode == PoolMode.MAXIMUM and not same:
        frame.report.add(index, "quantisation", "a maximum has the scale and zero point of its source")
    if not (0 < command.a_scale < math.inf and 0 < command.c_scale < math.inf):
        frame.report.add(index, "quantisation", f"scales {command.a_scale}, {command.c_scale}")


def _row(frame: Frame, index: int, command: Command, name: Hashable, operand: Operand) -> int:
    if operand.value == UNKNOWN:
        return 0
    frame.witness.see(index, name, command, operand)
    frame.stripes.bottom(index, name, operand.end, padded=command.pb > 0)
    return frame.stripes.place(index, name, operand.row, top=command.pt, stride=command.sh)


def _fused_addition(
    frame: Frame, index: int, command: Command, target: Region, value: int, row: int
) -> tuple[Operand | None, int]:
    check_scales(frame, index, command)
    if command.a_zp != command.out_zp:
        frame.report.add(index, "zero point", f"adds the result as {command.a_zp}, it has {command.out_zp}")
    region = frame.region(index, command.residual, "residual", READS)
    if region is None:
        return None, UNKNOWN
    stored = (target.rows, target.cols, target.channels)
    if region.logical != stored:
        frame.report.add(index, "extents", f"residual {region.logical} against dst {stored}")
    operand = frame.operand(index, region, command.b_zp, "residual")
    frame.scale(index, operand, command.b_scale, "residual")
    name = ("sum", value, operand.name, command.residual_first, *command[27:35])
    frame.witness.see(index, name, command, operand)
    first = row * target.block if target.layout == Layout.D2S else row
    if UNKNOWN not in (value, operand.value) and frame.stripes.place(index, name, operand.row) != first:
        frame.report.add(index, "rows", f"residual from row {operand.row} against row {first} of the result")
    return operand, frame.value(name, (value, operand.value), command.c_zp, command.c_scale)


def _window_suits(frame: Frame, index: int, command: Command, source: Region, target: Region) -> bool:
    depth, outputs, groups = source.logical[2], target.logical[2], command.groups
    numbers = command[8:14]
    if groups < 1 or depth % groups or outputs % groups or min(numbers) < 1:
        text = f"groups {groups} or geometry {numbers} do not suit {depth}->{outputs}"
        frame.report.add(index, "extents", text)
        return False
    if _slid(command, source) != target.logical[:2]:
        text = f"dst {target.logical} is not the convolution of src {source.logical}"
        frame.report.add(index, "extents", text)
    row = depth // groups * command.kh * command.kw
    if command.weights_row and command.weights_row < row:
        frame.report.add(index, "extents", f"weights of {row} bytes a channel lie {command.weights_row} bytes apart")
    return True


def _pool_suits(frame: Frame, index: int, command: Command, source: Region, target: Region) -> bool:
    reach = (command.kh - 1) * command.dh + 1, (command.kw - 1) * command.dw + 1
    if min(command[8:14]) < 1 or max(command.pt, command.pb) >= reach[0] or max(command.pl, command.pr) >= reach[1]:
        frame.report.add(index, "extents", f"window {command[8:14]} with pads {command[14:18]}")
        return False
    if (*_slid(command, source), source.channels) != target.logical:
        frame.report.add(index, "extents", f"dst {target.logical} is not the pool of src {source.logical}")
    return True


def _slid(command: Command, source: Region) -> tuple[int, int]:
    rows, cols, _ = source.logical
    height = rows + command.pt + command.pb - command.dh * (command.kh - 1) - 1
    width = cols + command.pl + command.pr - command.dw * (command.kw - 1) - 1
    return height // command.sh + 1, width // command.sw + 1
