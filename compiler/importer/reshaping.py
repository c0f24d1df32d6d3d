"""Reshape, Transpose, Flatten, Squeeze and Unsqueeze: another way to look at the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from compiler.errors import UnsupportedModel
from compiler.importer.axes import Axes
from compiler.importer.source import SourceNode
from compiler.importer.walk import Walk
from compiler.limits import LIMITS

_AGAIN = "export the model again"


def convert_reshape(walk: Walk, node: SourceNode) -> None:
    """Reshape to a constant shape; with Transpose it may spell DepthToSpace, SpaceToDepth (any channel order), a
    channel order or Flatten.
    """
    wanted = walk.integers(node, 1, "shape")
    if wanted is None:
        raise UnsupportedModel(node.name, "a shape that is not constant", "export with static shapes")
    shape = _shape_of(walk, node)
    _reshape(walk, node, _completed(node, shape, wanted, zero_copies=not node.integer("allowzero", 0)))


def convert_flatten(walk: Walk, node: SourceNode) -> None:
    """Flatten: behind it Gemm becomes a convolution over the whole map."""
    shape = _shape_of(walk, node)
    axis = node.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise UnsupportedModel(node.name, f"axis {axis} of {list(shape)}", _AGAIN)
    axis = axis + len(shape) if axis < 0 else axis
    _reshape(walk, node, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def convert_squeeze(walk: Walk, node: SourceNode) -> None:
    """Squeeze of axes of extent 1."""
    shape = _shape_of(walk, node)
    axes = _axes(walk, node, len(shape))
    gone = {axis for axis, extent in enumerate(shape) if extent == 1} if axes is None else set(axes)
    if any(shape[axis] != 1 for axis in gone):
        raise UnsupportedModel(node.name, f"axes {sorted(gone)} of {list(shape)}", _AGAIN)
    _reshape(walk, node, tuple(extent for axis, extent in enumerate(shape) if axis not in gone))


def convert_unsqueeze(walk: Walk, node: SourceNode) -> None:
    """Unsqueeze: new axes of extent 1."""
    shape = list(_shape_of(walk, node))
    count = len(_axes(walk, node, 1 << 16) or ())
    for axis in sorted(_axes(walk, node, len(shape) + count) or ()):
        shape.insert(axis, 1)
    _reshape(walk, node, tuple(shape))


def convert_transpose(walk: Walk, node: SourceNode) -> None:
    """Transpose; see Reshape."""
    rank = len(_shape_of(walk, node))
    order = node.some_integers("perm") or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise UnsupportedModel(node.name, f"permutation {list(order)} of {rank} axes", _AGAIN)
    name = node.inputs[0]
    if name in walk.weights:
        walk.weights[node.outputs[0]] = walk.weights[name].transposed(order)
        return
    _, axes = walk.axes_of(node, 0)
    _hold(walk, node, axes.transposed(order))


def _shape_of(walk: Walk, node: SourceNode) -> tuple[int, ...]:
    name = node.inputs[0] if node.inputs else ""
    if name in walk.weights:
        return tuple(walk.weights[name].values.shape)
    return walk.axes_of(node, 0)[1].shape


def _axes(walk: Walk, node: SourceNode, rank: int) -> list[int] | None:
    axes = walk.integers(node, 1, "axes")
    if axes is None:
        return None
    if len(axes) > LIMITS.rank or any(not -rank <= axis < rank for axis in axes):
        raise UnsupportedModel(node.name, f"axes {list(axes)[:16]}", _AGAIN)
    return [axis % rank for axis in axes]


def _completed(
    node: SourceNode, shape: tuple[int, ...], wanted: Sequence[int], *, zero_copies: bool
) -> tuple[int, ...]:
    """The shape with 0 (as before) and -1 (the rest) filled in."""
    extents = list(wanted)
    if len(extents) > LIMITS.rank or extents.count(-1) > 1 or min(extents, default=0) < -1:
        raise UnsupportedModel(node.name, f"shape {extents[:16]}", f"use up to {LIMITS.rank} axes, one of them -1")
    for axis, extent in enumerate(extents):
        if extent == 0 and zero_copies and axis < len(shape):
            extents[axis] = shape[axis]
    total, known = math.prod(shape), math.prod(extent for extent in extents if extent != -1)
    if -1 in extents and known > 0 and total % known == 0:
        extents[extents.index(-1)] = total // known
    if math.prod(extents) != total:
        raise UnsupportedModel(node.name, f"shape {list(wanted)} for {list(shape)}", "give a profile that divides")
    return tuple(extents)


def _reshape(walk: Walk, node: SourceNode, shape: tuple[int, ...]) -> None:
    name = node.inputs[0]
    if name in walk.weights:
        walk.weights[node.outputs[0]] = walk.weights[name].reshaped(shape)
        return
    _, axes = walk.axes_of(node, 0)
    made = axes.reshaped(shape)
    if made is None:
        reason = f"shape {list(shape)} cuts through an axis of {list(axes.shape)}"
        raise UnsupportedModel(node.name, reason, "reshape along whole factors")
    _hold(walk, node, made)


def _hold(walk: Walk, node: SourceNode, axes: Axes) -> None:
    held = walk.seen(node.inputs[0])
    assert held is not None
    value = walk.values[held.value]
    plain = axes == Axes.of(value)
    walk.held[node.outputs[0]] = replace(held, axes=None if plain else axes)
