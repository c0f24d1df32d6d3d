"""Checks of ADD, MUL and TABLE: every byte of the result comes from the bytes at its own place."""

from __future__ import annotations

from compiler.verifier.arithmetic import check_scales
from compiler.verifier.commands import Command
from compiler.verifier.frame import READS, WRITES, Frame
from compiler.verifier.values import UNKNOWN
from contracts.npu import Op
from contracts.npu.program import FLAG_PER_CHANNEL

TABLE_BYTES = 256


def check_pair(frame: Frame, index: int, command: Command) -> None:
    """ADD and MUL."""
    source = frame.region(index, command.src, "src", READS)
    other = frame.region(index, command.residual, "residual", READS)
    target = frame.region(index, command.dst, "dst", WRITES)
    if source is None or other is None or target is None:
        return
    check_scales(frame, index, command)
    if not source.logical == other.logical == target.logical:
        text = f"src {source.logical}, residual {other.logical} and dst {target.logical} differ"
        frame.report.add(index, "extents", text)
    a = frame.operand(index, source, command.a_zp, "src")
    b = frame.operand(index, other, command.b_zp, "residual")
    frame.scale(index, a, command.a_scale, "src")
    frame.scale(index, b, command.b_scale, "residual")
    name = (Op(command.op).name, command.kernel, a.name, b.name, command[27:35], target.layout, target.block)
    frame.witness.see(index, name, command, a, b)
    row = 0
    if UNKNOWN not in (a.value, b.value):
        row = frame.stripes.place(index, name, a.row)
        if frame.stripes.place(index, ("b", *name), b.row) != row:
            frame.report.add(index, "rows", f"row {a.row} of src against row {b.row} of the residual")
    frame.apart(index, target, source, "src")
    if not other.same_place(target):
        frame.apart(index, target, other, "the residual without being exactly it")
    bases = frame.stripes.base(name), frame.stripes.base(("b", *name))
    value = frame.value((name, bases), (a.value, b.value), command.c_zp, command.c_scale)
    frame.write(index, target, value, row)


def check_table(frame: Frame, index: int, command: Command) -> None:
    """A table, or one for each channel."""
    source = frame.region(index, command.src, "src", READS)
    target = frame.region(index, command.dst, "dst", WRITES)
    if source is None or target is None:
        return
    if source.logical != target.logical:
        frame.report.add(index, "extents", f"src {source.logical} and dst {target.logical} differ")
    tables = source.logical[2] if command.flags & FLAG_PER_CHANNEL else 1
    found = frame.constant(index, command.weights_offset, TABLE_BYTES * tables, "table")
    operand = frame.operand(index, source, command.input_zp, "src")
    zero_points = command.input_zp, command.out_zp
    name = ("table", command.kernel, found, zero_points, operand.name, target.layout, target.block)
    frame.witness.see(index, name, command, operand)
    row = 0
    if operand.value != UNKNOWN:
        row = frame.stripes.place(index, name, operand.row)
    frame.apart(index, target, source, "src")
    frame.apart_from_constants(index, target, command.weights_offset, TABLE_BYTES * tables, "the table")
    value = frame.value(name, (operand.value,), command.out_zp) if found else UNKNOWN
    frame.write(index, target, value, row)
