"""Pad: a border of the zero point; negative pads cut off."""

from __future__ import annotations

import numpy as np

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.pending import Pending, Shape
from compiler.importer.source import SourceNode
from compiler.importer.walk import Walk
from compiler.ir import Pad, Value

_FILL = "pad with the value 0.0"
_LARGEST = 255


def convert_pad(walk: Walk, node: SourceNode) -> Pending:
    """Pad: mode constant with real 0, height and width only, 0 to 255 on each side; folds into a convolution
    that reads it.
    """
    source = walk.operand(node, 0)
    if node.text("mode", "constant") != "constant":
        raise UnsupportedModel(node.name, f"mode {node.text('mode', '')}", "use mode constant")
    pads = _pads(walk, node)
    if min(pads) < 0 or max(pads) > _LARGEST:
        raise UnsupportedModel(
            node.name, f"pads {pads}", f"use pads of 0 to {_LARGEST} on height and width; Slice cuts"
        )
    _check_fill(walk, node, source)
    top, bottom, left, right = pads
    shape = Shape(source.height + top + bottom, source.width + left + right, source.channels)
    if min(shape.height, shape.width) < 1:
        raise BadProfile(node.name, "nothing is left", "pad more")

    def make(result: Value) -> Pad:
        if not result.same_quantization(source):
            reason = f"scale or zero point change across {node.operator}"
            raise UnsupportedModel(node.name, reason, "use the same scale and zero point on both sides")
        return Pad(node.name, source.name, result.name, pads, (node.name,))

    return Pending(node.name, shape, make, keeps=source)


def _pads(walk: Walk, node: SourceNode) -> tuple[int, int, int, int]:
    given, listed = walk.integers(node, 1, "pads"), walk.integers(node, 3)
    axes = [0, 1, 2, 3] if listed is None else [axis % 4 for axis in listed]
    if given is None or len(given) != 2 * len(axes):
        raise UnsupportedModel(node.name, "pads that are not constant", "export constant pads")
    begin, end = [0] * 4, [0] * 4
    for index, axis in enumerate(axes):
        begin[axis], end[axis] = given[index], given[index + len(axes)]
    if any((begin[0], begin[1], end[0], end[1])):
        raise UnsupportedModel(node.name, "pads on batch or channels", "pad height and width only")
    return begin[2], end[2], begin[3], end[3]


def _check_fill(walk: Walk, node: SourceNode, source: Value) -> None:
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    if not name:
        if node.real("value", 0.0) != 0.0:
            raise UnsupportedModel(node.name, "a border that is not 0", _FILL)
        return
    held = walk.held.get(node.inputs[0])
    if name in walk.weights:
        reals = walk.weights[name].reals()
        same = reals.size == 1 and float(reals.reshape(())) == 0.0
    elif name in walk.constants and walk.constants[name].size == 1:
        value = walk.constants[name].reshape(())
        if held is not None and held.integer:
            shift = 128 if held.signed else 0
            same = bool(np.issubdtype(value.dtype, np.integer)) and int(value) + shift == source.zero_point
        else:
            same = float(value) == 0.0
    else:
        same = False
    if not same:
        raise UnsupportedModel(node.name, "a border that is not 0", _FILL)
