"""Checks of RESIZE and HOST: operations on whole maps."""

from __future__ import annotations

from compiler.verifier.commands import Command
from compiler.verifier.convolution import conv_constants
from compiler.verifier.frame import Frame
from compiler.verifier.operand import Operand
from compiler.verifier.regions import Region
from compiler.verifier.values import UNKNOWN
from contracts.npu import Layout

_NHWC = (Layout.NHWC,)
Extents = tuple[int, int, int]

SOFTMAX, PRODUCT, DEFORMABLE, UPSAMPLING, ATTENTION, WARP = range(6)
_EXPONENTIALS = 256 * 4


def check_resize(frame: Frame, index: int, command: Command) -> None:
    """Nearest or linear resizing; scale and zero point stay."""
    source = frame.region(index, command.src, "src", _NHWC)
    target = frame.region(index, command.dst, "dst", _NHWC)
    if source is None or target is None:
        return
    if command.mode > 1 or command.kh > 2 or command.kw > 3:
        text = f"resizing of mode {command.mode}, transformation {command.kh}, rounding {command.kw}"
        frame.report.add(index, "form", text)
    if source.channels != target.channels:
        frame.report.add(index, "extents", f"src has {source.channels} channels, dst {target.channels}")
    operand = frame.operand(index, source, command.input_zp, "src")
    if command.out_zp != command.input_zp:
        frame.report.add(index, "zero point", f"resizing of {command.input_zp} cannot have {command.out_zp}")
    frame.apart(index, target, source, "src")
    name = ("resize", command.kernel, command.mode, command.kh, command.kw, operand.name, operand.row, target.logical)
    frame.witness.see(index, name, command, operand)
    values = frame.memory.values
    frame.write(index, target, frame.value(name, (operand.value,), command.out_zp, values.scale[operand.value]), 0)


def check_host(frame: Frame, index: int, command: Command) -> None:
    """An operator on the host processor, in the same arena."""
    source = frame.region(index, command.src, "src", _NHWC)
    target = frame.region(index, command.dst, "dst", _NHWC)
    if source is None or target is None:
        return
    if command.mode > WARP:
        frame.report.add(index, "operation", f"host function {command.mode} is unknown")
        return
    other = None
    if command.mode != SOFTMAX:
        other = frame.region(index, command.residual, "residual", _NHWC)
        if other is None:
            return
    if not _extents_suit(frame, index, command, source, other, target):
        return
    frame.clamp(index, command.clamp_lo, command.clamp_hi)
    zero_point = command.out_zp if command.mode == DEFORMABLE else command.c_zp
    operands = [_read(frame, index, source, command.a_zp, command.a_scale, "src")]
    if other is not None:
        operands.append(_read(frame, index, other, command.b_zp, command.b_scale, "residual"))
    constants = _constants(frame, index, command, source, target)
    for operand, what in zip(operands, ("src", "residual"), strict=False):
        frame.apart(index, target, operand.region, what)
    sources = tuple((operand.name, operand.row) for operand in operands)
    name = ("host", command.kernel, command[8:19], command[23:36], constants, sources)
    frame.witness.see(index, name, command, *operands)
    scale = None if command.mode == DEFORMABLE else command.c_scale
    value = frame.value(name, tuple(operand.value for operand in operands), zero_point, scale)
    frame.write(index, target, UNKNOWN if () in constants else value, 0)


def _read(frame: Frame, index: int, region: Region, zero_point: int, scale: float, what: str) -> Operand:
    operand = frame.operand(index, region, zero_point, what)
    frame.scale(index, operand, scale, what)
    return operand


def _constants(frame: Frame, index: int, command: Command, source: Region, target: Region) -> tuple[object, ...]:
    if command.mode == SOFTMAX:
        sizes = {"weights_offset": _EXPONENTIALS}
    elif command.mode == DEFORMABLE:
        sizes = conv_constants(command, source.channels, target.channels)
    else:
        return ()
    for role, size in sizes.items():
        frame.apart_from_constants(index, target, getattr(command, role), size, role)
    names = {"weights_offset": "exponentials"} if command.mode == SOFTMAX else {}
    found = [frame.constant(index, getattr(command, role), size, names.get(role, role)) for role, size in sizes.items()]
    if command.mode == DEFORMABLE:
        frame.memory.roles.belong(frame.report, index, command.weights_row, found)
    return (*found, command.weights_row)


def _extents_suit(
    frame: Frame, index: int, command: Command, source: Region, other: Region | None, target: Region
) -> bool:
    second = other.logical if other is not None else (0, 0, 0)
    trouble = _wanted(command, source.logical, second, target.logical) if command.groups == 1 else "other groups than 1"
    if trouble:
        frame.report.add(index, "extents", f"host function {command.mode}: {trouble}")
    return trouble is None


def _wanted(command: Command, source: Extents, other: Extents, target: Extents) -> str | None:
    """What the extents of a host function break; None when they suit."""
    height, width, channels = source
    taps = command.kh * command.kw
    if command.mode == SOFTMAX:
        return "an axis above 2" if command.dh > 2 else _same(target, source)
    if command.mode == PRODUCT:
        return _same(other[0::2], (width, channels)) or _same(target, (height, other[1], channels))
    if command.mode == DEFORMABLE:
        plain = command.groups == 1 and command.sh == command.sw == 1 and min(command[8:14]) >= 1
        offsets = _same(other, (height, width, 2 * taps)) or _same(target[:2], source[:2])
        return offsets if plain else "groups or strides other than 1"
    if command.mode == UPSAMPLING:
        factor = command.sh
        filters = _same(other, (height, width, taps * factor * factor))
        return filters or _same(target, (height * factor, width * factor, channels))
    if command.mode == ATTENTION:
        pairs = other[:2] == source[:2] and other[2] > 0 and other[2] % (2 * channels) == 0
        return _same(target, source) if pairs else f"a memory of {other} for a query of {source}"
    return _same(other, (1, 1, 6)) or _same(target, source)


def _same(found: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
    return None if tuple(found) == tuple(wanted) else f"{found} instead of {wanted}"
