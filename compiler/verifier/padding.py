"""Padding over all profiles: one operation, several sizes of its map.

A pad that is wrong gives a sound stream of another network, as long as the extents agree (a stride hides a column).
What tells is another profile of the same width: there the same weights have the same padding above and at the left,
unless both follow the rule that keeps the size of the result (``auto_pad`` of ONNX), which depends on the extents.
"""

from __future__ import annotations

from compiler.verifier.frame import Frame, Padded
from contracts.npu import Layout


def check_padding(frame: Frame) -> None:
    """At END: compare with the profiles before."""
    known = frame.memory.roles.coverage.pads
    width = frame.profile.name.partition("@")[2]
    for padded in frame.padded.values():
        height = frame.memory.values.height(padded.operand.value)
        region = padded.operand.region
        if region.layout == Layout.S2D:
            height //= region.block
        elif region.layout == Layout.NEAREST:
            height *= region.block
        first, kept = (padded.command.pt, padded.command.pl), _keeps_size(padded, height)
        other, also = known.setdefault((width, padded.weights, padded.command.weights_row), (first, kept))
        if other != first and not (kept and also):
            text = f"pads {first} above and left, another profile {other}"
            frame.report.add(padded.index, "constants", f"the same weights have {text}")


def _keeps_size(padded: Padded, height: int) -> bool:
    """Whether the pads are those of ``auto_pad`` for a source of ``height`` rows."""
    command, (rows, width, _) = padded.command, padded.operand.region.logical
    below = command.pb if rows == height else None
    across = _kept(width, command.sw, (command.kw - 1) * command.dw + 1, command.pl, command.pr)
    return across and _kept(height, command.sh, (command.kh - 1) * command.dh + 1, command.pt, below)


def _kept(extent: int, stride: int, reach: int, before: int, behind: int | None) -> bool:
    total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
    if before not in (total // 2, total - total // 2):
        return False
    return behind is None or behind == total - before
