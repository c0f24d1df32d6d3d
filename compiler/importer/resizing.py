"""Resize: nearest and linear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from compiler.errors import UnsupportedModel
from compiler.importer.layouts import moving
from compiler.importer.pending import Pending, Shape
from compiler.importer.shuffles import Shuffle
from compiler.importer.source import Array, SourceNode
from compiler.importer.tables import rescaling
from compiler.importer.walk import Walk
from compiler.ir import Operator, Resize, Rounding, Transformation, Value, View
from compiler.limits import LIMITS
from contracts.npu import Layout

_ROUNDINGS = {
    "floor": Rounding.FLOOR,
    "ceil": Rounding.CEIL,
    "round_prefer_floor": Rounding.PREFER_FLOOR,
    "round_prefer_ceil": Rounding.PREFER_CEIL,
}
_TRANSFORMATIONS = {
    "asymmetric": Transformation.ASYMMETRIC,
    "half_pixel": Transformation.HALF_PIXEL,
    "half_pixel_symmetric": Transformation.HALF_PIXEL,
    "pytorch_half_pixel": Transformation.HALF_PIXEL,
    "align_corners": Transformation.ALIGN_CORNERS,
}


def convert_resize(walk: Walk, node: SourceNode) -> Pending:
    """Resize: mode nearest (any rounding) or linear, constant scales or sizes that give whole extents, asymmetric,
    half_pixel, pytorch_half_pixel or align_corners. Nearest that repeats each pixel evenly costs no copy before an
    addition.
    """
    source = walk.operand(node, 0)
    mode = node.text("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise UnsupportedModel(node.name, f"mode {mode}", "use mode nearest or linear")
    height, width = _extents(walk, node, source)
    block = height // source.height
    even = (height, width) == (source.height * block, source.width * block) and 1 <= block <= 16
    if mode == "nearest" and even and _repeats_evenly(node, source, block):
        return moving(walk, node, source, Shuffle(read=View(Layout.NEAREST, block)))
    step = Resize(node.name, source.name, "", mode == "linear", *_coordinates(node, (height, width)), (node.name,))
    if mode == "linear" and node.integer("antialias", 0) and (height < source.height or width < source.width):
        raise UnsupportedModel(node.name, "antialias", "reduce with AveragePool or a strided convolution")

    def make(result: Value) -> Operator:
        if result.same_quantization(source):
            return replace(step, result=result.name)
        raw = replace(
            result, name=walk.fresh(f"{result.name}.resized"), scale=source.scale, zero_point=source.zero_point
        )
        walk.emit(raw, replace(step, result=raw.name))
        return rescaling(node.name, raw, result)

    keeps = source if mode == "nearest" else None
    return Pending(node.name, Shape(height, width, source.channels), make, keeps=keeps)


def _coordinates(node: SourceNode, extents: tuple[int, int]) -> tuple[Transformation, Rounding]:
    name = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if name not in _TRANSFORMATIONS or rounding not in _ROUNDINGS:
        reason = f"coordinate_transformation_mode {name}, nearest_mode {rounding}"
        raise UnsupportedModel(node.name, reason, f"use {', '.join(sorted(_TRANSFORMATIONS))}")
    if name == "pytorch_half_pixel" and min(extents) == 1:
        raise UnsupportedModel(node.name, "pytorch_half_pixel to an extent of 1", "use half_pixel")
    return _TRANSFORMATIONS[name], _ROUNDINGS[rounding]


def _extents(walk: Walk, node: SourceNode, source: Value) -> tuple[int, int]:
    """Height and width of the result."""
    before = (1, source.channels, source.height, source.width)
    scales, sizes = _scales(walk, node), walk.integers(node, 3)
    axes = node.some_integers("axes") or (0, 1, 2, 3)
    after = list(before)
    if scales is not None and scales.size == len(axes):
        factors = [float(value) for value in scales.reshape(-1)]
        exact = [factor * before[axis % 4] for axis, factor in zip(axes, factors, strict=True)]
        if not all(1 <= extent <= LIMITS.tensor_extent and abs(extent - round(extent)) < 1e-3 for extent in exact):
            raise UnsupportedModel(node.name, f"scales {factors}", "use scales that give whole extents")
        wanted = [round(extent) for extent in exact]
    elif sizes is not None and len(sizes) == len(axes):
        if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise UnsupportedModel(node.name, "keep_aspect_ratio_policy", "give the final sizes")
        wanted = list(sizes)
        factors = [float(value) for value in wanted]
    else:
        raise UnsupportedModel(node.name, "scales are not constant", "export Resize with constant scales")
    for axis, extent in zip(axes, wanted, strict=True):
        after[axis % 4] = extent
    if tuple(after[:2]) != before[:2] or not all(1 <= extent <= LIMITS.tensor_extent for extent in after[2:]):
        raise UnsupportedModel(node.name, f"scales {factors}", "resize height and width only")
    return after[2], after[3]


def _scales(walk: Walk, node: SourceNode) -> Array | None:
    scales = walk.constant(node, 2 if len(node.inputs) > 2 else 1)
    return scales if scales is not None and scales.dtype.kind == "f" and np.isfinite(scales).all() else None


def _repeats_evenly(node: SourceNode, source: Value, block: int) -> bool:
    transformation = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    rounders: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),  # type: ignore[operator]  # float arrays
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),  # type: ignore[operator]  # float arrays
    }
    if rounding not in rounders or transformation not in ("asymmetric", "half_pixel", "pytorch_half_pixel"):
        return False
    for extent in (source.height, source.width):
        index = np.arange(extent * block, dtype=np.float64)
        position = index / block if transformation == "asymmetric" else (index + 0.5) / block - 0.5
        chosen = np.clip(rounders[rounding](position), 0, extent - 1)
        if not np.array_equal(chosen, index // block):
            return False
    return True
