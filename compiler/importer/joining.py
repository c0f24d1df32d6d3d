"""Concat, Split, Slice, Gather and Pad: windows of maps, channel orders and borders."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.pending import Held, Pending, Shape
from compiler.importer.source import SourceNode
from compiler.importer.strided import strided
from compiler.importer.tables import rescaling
from compiler.importer.walk import Walk
from compiler.ir import Join, Move, Part, Value, Window
from compiler.limits import LIMITS

_FIELDS = ("channels", "height", "width")
_STARTS = ("channel", "row", "col")


def convert_concat(walk: Walk, node: SourceNode) -> Pending:
    """Concat along channels, height or width: the operands become windows of one map; one with another scale
    passes a table.
    """
    axis = _axis(node, node.integer("axis", 0))
    sources = [walk.operand(node, index) for index in range(len(node.inputs))]
    extents = [getattr(value, _FIELDS[axis]) for value in sources]
    shape = replace(sources[0], **{_FIELDS[axis]: sum(extents)}).shape
    for value in sources:
        if replace(value, **{_FIELDS[axis]: sum(extents)}).shape != shape:
            raise UnsupportedModel(node.name, f"shapes {[v.shape for v in sources]}", "make the other extents equal")

    def make(result: Value) -> Join:
        start, parts = 0, []
        for index, (value, extent) in enumerate(zip(sources, extents, strict=True)):
            name = f"{node.name}.part{index}"
            window = Window(result.name, **{_STARTS[axis]: start})
            part = replace(
                value,
                name=walk.fresh(name),
                scale=result.scale,
                zero_point=result.zero_point,
                window=window,
            )
            walk.values.setdefault(result.name, result)
            same = value.same_quantization(result)
            step = Move(name, value.name, part.name, origin=(node.name,)) if same else rescaling(name, value, part)
            walk.emit(part, step)
            parts.append(part.name)
            start += extent
        return Join(node.name, tuple(parts), result.name, (node.name,))

    same = all(value.same_quantization(sources[0]) for value in sources)
    return Pending(node.name, Shape(*shape), make, keeps=sources[0] if same else None)


def convert_split(walk: Walk, node: SourceNode) -> None:
    """Split along channels, height or width: windows of the operand."""
    source = walk.operand(node, 0)
    axis = _axis(node, node.integer("axis", 0))
    whole = getattr(source, _FIELDS[axis])
    start = 0
    for output, extent in zip(node.outputs, _split_sizes(walk, node, whole), strict=True):
        if output:
            first, size = [0, 0, 0], [source.channels, source.height, source.width]
            first[axis], size[axis] = start, extent
            _part(walk, node, source, output, first, size)
        start += extent


def _split_sizes(walk: Walk, node: SourceNode, whole: int) -> list[int]:
    given = walk.integers(node, 1, "split")
    count = len(node.outputs)
    if given is None:
        share = -(-whole // count)
        given = tuple(min(share, max(0, whole - index * share)) for index in range(count))
    if len(given) != count or sum(given) != whole or min(given) < 1:
        raise UnsupportedModel(
            node.name, f"parts {list(given)} of {whole}", "give one size of at least 1 for each output"
        )
    return list(given)


def convert_slice(walk: Walk, node: SourceNode) -> None:
    """Slice with constant bounds along channels, height and width: a window; with steps a strided copy."""
    source = walk.operand(node, 0)
    extents = [source.channels, source.height, source.width]
    starts, sizes, steps = [0, 0, 0], list(extents), [1, 1, 1]
    for axis, start, end, step in _bounds(walk, node):
        if not 1 <= step <= LIMITS.stride:
            raise UnsupportedModel(node.name, f"step {step}", f"use steps of 1 to {LIMITS.stride}")
        begin, stop, _ = slice(start, end, 1).indices(extents[axis])
        if stop <= begin:
            raise BadProfile(node.name, f"nothing is left of axis {axis + 1} ({extents[axis]})", "slice less")
        starts[axis], sizes[axis], steps[axis] = begin, stop - begin, step
    plain = steps == [1, 1, 1]
    output = node.outputs[0]
    name = output if plain else f"{output}.window"
    value = source if sizes == extents else _part(walk, node, source, name, starts, sizes)
    if steps[0] > 1:
        value = walk.permuted(node, value, tuple(range(0, value.channels, steps[0])), f"{output}.channels")
    if steps[1:] != [1, 1]:
        value = strided(walk, node, value, (steps[1], steps[2]), f"{output}.strided")
    _hold(walk, node, value, output)


def _bounds(walk: Walk, node: SourceNode) -> list[tuple[int, int, int, int]]:
    given = [
        walk.integers(node, index, name) for index, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))
    ]
    starts, ends, axes, steps = given
    if starts is None or ends is None:
        raise UnsupportedModel(node.name, "bounds that are not constant", "export constant bounds")
    axes = axes if axes is not None else tuple(range(len(starts)))
    steps = steps if steps is not None else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise UnsupportedModel(node.name, "bounds of different length", "export the model again")
    result = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if axis % 4 == 0:
            if start % 4294967296 == 0 and end >= 1 and step == 1:
                continue
            raise UnsupportedModel(node.name, "a slice of the batch", "use batch 1")
        result.append((_axis(node, axis), start, end, step))
    return result


def convert_gather(walk: Walk, node: SourceNode) -> None:
    """Gather of channels by a constant list: a channel order."""
    source = walk.operand(node, 0)
    constant = walk.constant(node, 1)
    if constant is None or constant.ndim != 1 or _axis(node, node.integer("axis", 0)) != 0:
        raise UnsupportedModel(node.name, "indices that are no constant list of channels", "use Slice or Split")
    order = walk.integers(node, 1) or ()
    if not order or min(order) < -source.channels or max(order) >= source.channels:
        raise UnsupportedModel(node.name, f"channels {list(order)[:8]} of {source.channels}", "export the model again")
    order = tuple(index % source.channels for index in order)
    value = walk.permuted(node, source, order, f"{node.outputs[0]}.channels")
    _hold(walk, node, value, node.outputs[0])


def _axis(node: SourceNode, axis: int) -> int:
    """0 channels, 1 height, 2 width."""
    if not -4 <= axis < 4 or axis % 4 == 0:
        raise UnsupportedModel(node.name, f"axis {axis}", "use channels, height or width (1, 2, 3)")
    return axis % 4 - 1


def _part(walk: Walk, node: SourceNode, source: Value, name: str, first: list[int], size: list[int]) -> Value:
    channels, height, width = size
    window = Window(source.name, first[1], first[2], first[0])
    result = replace(source, name=walk.fresh(name), height=height, width=width, channels=channels, window=window)
    walk.emit(result, Part(node.name, source.name, result.name, (node.name,)))
    _hold(walk, node, result, name)
    return result


def _hold(walk: Walk, node: SourceNode, value: Value, tensor: str) -> None:
    """The tensor is exactly this value; an integer tensor stays one."""
    before = walk.held[node.inputs[0]]
    walk.held[tensor] = Held(value.name, None, before.integer, before.signed)
