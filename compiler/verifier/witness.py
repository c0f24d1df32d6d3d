"""Profiles of one width as witnesses for each other: the same network, other extents.

Some wrong parameters leave a sound stream of another network: a clamp, a scale, a pad whose extra column a
stride hides. What tells is another profile: its kernels run the same operations with the same parameters, padded
alike above and at the left (or both as ``auto_pad`` of ONNX does, which depends on the extents), on maps that are
cut alike. A program with a single profile has no witness.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from compiler.verifier.commands import Command
from compiler.verifier.findings import Report
from compiler.verifier.operand import Operand
from compiler.verifier.values import UNKNOWN, Span, Values
from contracts.npu import Op
from contracts.npu.program import FLAG_DISPATCH, FLAG_GLOBAL, FLAG_LAUNCH

Key = tuple[str, int, int]  # width, kernel, which operation of the kernel
Sides = tuple[bool, bool, bool, bool]  # top, bottom, left, right


@dataclass(frozen=True)
class Said:
    """What one profile says about an operation."""

    parameters: Hashable
    pads: tuple[int, int]
    keeps_size: bool
    cut: Sides
    spans: tuple[Span, ...]


@dataclass
class _Seen:
    """An operation: its first command, its operands there, and the stored rows that it reads of each."""

    index: int
    command: Command
    operands: tuple[Operand, ...]
    rows: list[tuple[int, int]]
    padded_below: bool


@dataclass
class Witness:
    """The operations of one profile, by name in order of appearance."""

    _seen: dict[Hashable, _Seen] = field(default_factory=dict)

    def see(self, index: int, name: Hashable, command: Command, *operands: Operand) -> None:
        """A command is (a stripe of) an operation."""
        if any(operand.value == UNKNOWN for operand in operands):
            return
        rows = [(operand.first, operand.end) for operand in operands]
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(index, command, operands, rows, False)
        seen.rows = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(seen.rows, rows, strict=True)]
        seen.padded_below = seen.padded_below or command.pb > 0

    def finish(self, report: Report, values: Values, profile: str, said: dict[Key, Said]) -> None:
        """At END: compare with the profiles before."""
        width = profile.partition("@")[2]
        counts: dict[int, int] = {}
        for seen in self._seen.values():
            kernel = seen.command.kernel
            counts[kernel] = counts.get(kernel, 0) + 1
            own = _said(seen, values)
            other = said.setdefault((width, kernel, counts[kernel]), own)
            trouble = _difference(own, other)
            if trouble:
                report.add(seen.index, "witness", f"{trouble} than in another profile")


def _difference(own: Said, other: Said) -> str | None:
    if own.parameters != other.parameters:
        return "other parameters"
    if own.pads != other.pads and not (own.keeps_size and other.keeps_size):
        return f"other pads above and left ({own.pads}, {other.pads})"
    if own.cut != other.cut:
        return "a map cut at other sides"
    alike = len(own.spans) == len(other.spans)
    if not alike or not all(mine.like(its) for mine, its in zip(own.spans, other.spans, strict=True)):
        return "another slice"
    return None


def _said(seen: _Seen, values: Values) -> Said:
    command, operand = seen.command, seen.operands[0]
    height = values.height(operand.value)
    layouts = tuple((region.layout, region.block) for region in (command.src, command.residual, command.dst))
    depths = operand.region.logical[2], command.dst.logical[2]
    flags = command.flags & ~(FLAG_LAUNCH | FLAG_DISPATCH)
    geometry = (*command[8:14], command.groups, command.weights_row)
    parameters = (command.op, flags, *geometry, *command[23:36], *layouts, *depths)
    left, right = values.cut(operand.value)
    matters = _sides(seen)
    first, end = seen.rows[0]
    cut = (first > 0, end < height, left, right)
    kept = _keeps_size(command, operand, operand.logical_height(height))
    sides = cut[0] and matters[0], cut[1] and matters[1], cut[2] and matters[2], cut[3] and matters[3]
    return Said(parameters, (command.pt, command.pl), kept, sides, tuple(_spans(seen, values)))


def _spans(seen: _Seen, values: Values) -> Iterator[Span]:
    """The slices that the operands are."""
    for operand, (first, end) in zip(seen.operands, seen.rows, strict=True):
        yield from values.spans(operand.value)
        height = values.height(operand.value)
        if first > 0 or end < height:
            yield Span("rows", first, end, height)


def _sides(seen: _Seen) -> Sides:
    """At which sides the result depends on where the map ends."""
    command = seen.command
    if command.op == Op.RESIZE or command.flags & FLAG_GLOBAL:
        return True, True, True, True
    return command.pt > 0, seen.padded_below, command.pl > 0, command.pr > 0


def _keeps_size(command: Command, operand: Operand, height: int) -> bool:
    """Whether the pads are those of ``auto_pad`` for a source of ``height`` rows."""
    if command.op not in (Op.CONV, Op.POOL) or min(command.sh, command.sw) < 1:
        return False
    rows, width, _ = operand.region.logical
    below = command.pb if rows == height else None
    across = _kept(width, command.sw, (command.kw - 1) * command.dw + 1, command.pl, command.pr)
    return across and _kept(height, command.sh, (command.kh - 1) * command.dh + 1, command.pt, below)


def _kept(extent: int, stride: int, reach: int, before: int, behind: int | None) -> bool:
    total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
    if before not in (total // 2, total - total // 2):
        return False
    return behind is None or behind == total - before
