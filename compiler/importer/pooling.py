"""MaxPool, AveragePool and their global forms."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import BadProfile, UnsupportedModel
from compiler.importer.convolution import pads_of, pair
from compiler.importer.pending import Pending, Shape
from compiler.importer.source import SourceNode
from compiler.importer.tables import rescaling
from compiler.importer.walk import Walk
from compiler.ir import Operator, Pool, Value
from contracts.npu.program import PoolMode

_KERNEL = 255


def convert_max_pool(walk: Walk, node: SourceNode) -> Pending:
    """MaxPool: 2-D, four independent pads, stride, dilation, ceil_mode; also straight on integer tensors."""
    if node.integer("storage_order", 0) or len([name for name in node.outputs if name]) != 1:
        raise UnsupportedModel(node.name, "storage_order or indices", "use MaxPool with one output")
    return _windowed(walk, node, PoolMode.MAXIMUM)


def convert_average_pool(walk: Walk, node: SourceNode) -> Pending:
    """AveragePool: 2-D, four independent pads counted or not, stride, dilation, ceil_mode without counted pads."""
    counted = bool(node.integer("count_include_pad", 0))
    return _windowed(walk, node, PoolMode.AVERAGE_PADDED if counted else PoolMode.AVERAGE)


def convert_global_average_pool(walk: Walk, node: SourceNode) -> Pending:
    """GlobalAveragePool: any map."""
    return _whole(walk, node, PoolMode.AVERAGE)


def convert_global_max_pool(walk: Walk, node: SourceNode) -> Pending:
    """GlobalMaxPool: any map."""
    return _whole(walk, node, PoolMode.MAXIMUM)


def convert_reduce_mean(walk: Walk, node: SourceNode) -> Pending:
    """ReduceMean over height and width, axes kept: a global average."""
    axes = walk.integers(node, 1, "axes")
    if sorted(axis % 4 for axis in axes or ()) != [2, 3] or not node.integer("keepdims", 1):
        raise UnsupportedModel(node.name, f"axes {axes}", "reduce height and width (2, 3) and keep the axes")
    return _whole(walk, node, PoolMode.AVERAGE)


def _whole(walk: Walk, node: SourceNode, mode: PoolMode) -> Pending:
    source = walk.operand(node, 0)
    pool = Pool(node.name, source.name, "", mode, whole=True, origin=(node.name,))
    return _pending(walk, node, source, Shape(1, 1, source.channels), pool)


def _windowed(walk: Walk, node: SourceNode, mode: PoolMode) -> Pending:
    source = walk.operand(node, 0)
    kernel = node.integers("kernel_shape", (0, 0))
    size = (kernel[0], kernel[1])
    strides, dilations = pair(node, "strides"), pair(node, "dilations")
    if min(*size, *strides, *dilations) < 1 or max(*size, *strides, *dilations) > _KERNEL:
        reason = f"kernel {size}, strides {strides}, dilations {dilations}"
        raise UnsupportedModel(node.name, reason, f"use numbers of 1 to {_KERNEL}")
    pads = pads_of(node, source, size, strides, dilations)
    spans = [dilations[axis] * (size[axis] - 1) + 1 for axis in (0, 1)]
    if max(pads) > _KERNEL or any(
        pad >= span for pad, span in zip(pads, (spans[0],) * 2 + (spans[1],) * 2, strict=True)
    ):
        raise UnsupportedModel(node.name, f"pads {pads} against windows of {spans}", "use pads smaller than the kernel")
    if node.integer("ceil_mode", 0):
        if mode == PoolMode.AVERAGE_PADDED and any(pads):
            raise UnsupportedModel(node.name, "ceil_mode with counted pads", "use floor, or do not count pads")
        mode = PoolMode.AVERAGE if mode == PoolMode.AVERAGE_PADDED else mode
        pads = _ceiled(source, spans, strides, pads)
    rows = (source.height + pads[0] + pads[1] - spans[0]) // strides[0] + 1
    cols = (source.width + pads[2] + pads[3] - spans[1]) // strides[1] + 1
    if rows < 1 or cols < 1:
        raise BadProfile(node.name, f"no output pixels from {source.height}x{source.width}", "use a larger profile")
    if max(dilations) > 1 and _window_misses(source, size, strides, dilations, pads, (rows, cols)):
        raise UnsupportedModel(node.name, "a dilated window that touches no pixel", "use smaller pads or dilations")
    pool = Pool(node.name, source.name, "", mode, size, strides, pads, dilations, origin=(node.name,))
    return _pending(walk, node, source, Shape(rows, cols, source.channels), pool)


def _ceiled(
    source: Value, spans: list[int], strides: tuple[int, int], pads: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """End pads that let the last, incomplete window in; it has to start inside the map or its front pad."""
    result = list(pads)
    for axis, extent in enumerate((source.height, source.width)):
        front, back = pads[2 * axis], pads[2 * axis + 1]
        count = -(-(extent + front + back - spans[axis]) // strides[axis]) + 1
        if (count - 1) * strides[axis] >= extent + front:
            count -= 1
        result[2 * axis + 1] = max(back, (count - 1) * strides[axis] + spans[axis] - extent - front)
    top, bottom, left, right = result
    return top, bottom, left, right


def _window_misses(
    source: Value,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: tuple[int, int, int, int],
    counts: tuple[int, int],
) -> bool:
    for axis, extent in enumerate((source.height, source.width)):
        for index in (0, counts[axis] - 1):
            first = index * strides[axis] - pads[2 * axis]
            if not any(0 <= first + tap * dilations[axis] < extent for tap in range(kernel[axis])):
                return True
    return False


def _pending(walk: Walk, node: SourceNode, source: Value, shape: Shape, pool: Pool) -> Pending:
    """A maximum keeps the scale: another one is a table behind it."""
    maximum = pool.mode == PoolMode.MAXIMUM

    def make(result: Value) -> Operator:
        if not maximum or result.same_quantization(source):
            return replace(pool, result=result.name)
        raw = replace(result, name=walk.fresh(f"{result.name}.pool"), scale=source.scale, zero_point=source.zero_point)
        walk.emit(raw, replace(pool, result=raw.name))
        return rescaling(node.name, raw, result)

    return Pending(node.name, shape, make, keeps=source if maximum else None)
