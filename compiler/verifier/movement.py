"""Checks of DMA and SHUFFLE: bytes that move and keep their meaning."""

from __future__ import annotations

from compiler.verifier.commands import Command
from compiler.verifier.constants import Piece
from compiler.verifier.frame import READS, WRITES, Frame
from compiler.verifier.queues import DMA
from compiler.verifier.values import UNKNOWN
from contracts.npu import Layout, Space

_NHWC = (Layout.NHWC,)


def check_dma(frame: Frame, index: int, command: Command) -> None:
    """A copy on the DMA queue: of constants, or of rows."""
    source = frame.region(index, command.src, "src", _NHWC, frame.sources)
    target = frame.region(index, command.dst, "dst", _NHWC)
    if source is None or target is None:
        return
    if source.logical != target.logical:
        frame.report.add(index, "extents", "DMA source and destination differ")
        return
    frame.apart(index, target, source, "src")
    piece = frame.memory.copied(index, source) if source.space in frame.sizes else None
    if source.space not in frame.sizes:
        piece = Piece(source.space, source.offset, source.size)
    if piece is None:
        reading = frame.memory.read(index, DMA, source, None, "src")
        frame.memory.write(index, DMA, target, reading.value, reading.row)
    elif source.dense and target.dense:
        frame.memory.bring(index, DMA, target, piece)
    else:
        frame.report.add(index, "form", f"{Space(source.space).name} is not brought as one run of bytes")


def check_shuffle(frame: Frame, index: int, command: Command) -> None:
    """A copy between layouts."""
    source = frame.region(index, command.src, "src", READS)
    target = frame.region(index, command.dst, "dst", WRITES)
    if source is None or target is None:
        return
    if source.logical != target.logical:
        frame.report.add(index, "extents", f"src {source.logical} and dst {target.logical} differ")
    operand = frame.operand(index, source, None, "src")
    frame.apart(index, target, source, "src")
    row, value = operand.row, operand.value
    if value != UNKNOWN:
        name = ("shuffle", command.kernel, operand.name, target.layout, target.block)
        frame.witness.see(index, name, command, operand)
        row = frame.stripes.place(index, name, operand.row)
        values = frame.memory.values
        value = frame.value(name, (value,), values.zero_point[value], values.scale[value])
    frame.write(index, target, value, row)
