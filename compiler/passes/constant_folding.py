"""Fold what is known before the frame: constants through shape operators, float weights through
QuantizeLinear.

Works on the source graph, before import. Also removes Identity and Dropout on activations. DequantizeLinear
of a constant stays: the importer wants the integers. Promise: no foldable node is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.errors import BadQuantization, BrokenModel
from compiler.importer.source import Array, SourceGraph, SourceNode

Fold = Callable[[SourceNode, list[Array]], Array]


@dataclass(frozen=True)
class SourceResult:
    """The folded graph and one line for each change."""

    graph: SourceGraph
    changes: tuple[str, ...]


class ConstantFolding:
    """Evaluate constant nodes, drop identities."""

    name = "constant-folding"

    def requires(self, graph: SourceGraph) -> str | None:
        """A non-empty graph."""
        return None if graph.nodes else "the graph has no nodes"

    def run(self, graph: SourceGraph) -> SourceResult:
        """Fold in execution order, so chains fold in one go."""
        constants = dict(graph.constants)
        renamed: dict[str, str] = {}
        kept: list[SourceNode] = []
        changes: list[str] = []
        for node in graph.nodes:
            node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
            if _foldable(node, constants):
                constants[node.outputs[0]] = _evaluate(node, constants)
                changes.append(f"folded {node.operator} {node.name}")
            elif _is_identity(node) and node.outputs[0] not in graph.outputs:
                renamed[node.outputs[0]] = node.inputs[0]
                changes.append(f"removed {node.operator} {node.name}")
            else:
                kept.append(node)
        return SourceResult(replace(graph, nodes=tuple(kept), constants=constants), tuple(changes))

    def ensures(self, graph: SourceGraph) -> str | None:
        """No constant work is left."""
        left = next((node.name for node in graph.nodes if _foldable(node, graph.constants)), None)
        return f"{left} is still constant" if left else None


def _is_identity(node: SourceNode) -> bool:
    return node.operator in ("Identity", "Dropout") and bool(node.inputs and node.outputs)


def _foldable(node: SourceNode, constants: Mapping[str, Array]) -> bool:
    known = node.operator in _FOLDS and len(node.outputs) == 1
    return known and all(name in constants for name in node.inputs if name)


def _evaluate(node: SourceNode, constants: Mapping[str, Array]) -> Array:
    try:
        return _FOLDS[node.operator](node, [constants[name] for name in node.inputs if name])
    except (ValueError, IndexError, TypeError, KeyError) as error:
        raise BrokenModel(node.name, f"{node.operator} of constants fails ({error})", "export again") from error


def _constant(node: SourceNode, _: list[Array]) -> Array:
    for key, kind in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if key in node.attributes:
            return np.asarray(node.attributes[key], kind)
    if "value_ints" in node.attributes:
        return np.asarray(node.attributes["value_ints"], np.int64)
    return np.asarray(node.attributes["value"])


def _quantize(node: SourceNode, inputs: list[Array]) -> Array:
    values, scale = inputs[0].astype(np.float32), inputs[1].astype(np.float32)
    zero = inputs[2] if len(inputs) > 2 else np.zeros(scale.shape, np.uint8)
    if not np.isfinite(scale).all() or (scale <= 0).any():
        raise BadQuantization(node.name, "weight scale is not a positive number", "quantise again")
    axis = node.integer("axis", 1)
    shape = [-1 if index == axis % values.ndim else 1 for index in range(values.ndim)]
    if scale.ndim:
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    if zero.dtype not in (np.int8, np.uint8):
        raise BadQuantization(node.name, f"weights of type {zero.dtype}", "quantise weights to 8 bit")
    low, high = (-128, 127) if zero.dtype == np.int8 else (0, 255)
    quantized = np.rint(values / scale) + zero.astype(np.float32)
    return np.asarray(np.clip(quantized, low, high), zero.dtype)


def _reshape(_: SourceNode, inputs: list[Array]) -> Array:
    shape = [int(inputs[0].shape[i]) if extent == 0 else int(extent) for i, extent in enumerate(inputs[1])]
    return inputs[0].reshape(shape)


def _transpose(node: SourceNode, inputs: list[Array]) -> Array:
    order = node.attributes.get("perm", tuple(reversed(range(inputs[0].ndim))))
    return np.ascontiguousarray(np.transpose(inputs[0], order))  # type: ignore[arg-type]  # attribute of integers


_CASTS: dict[int, type[np.generic]] = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64}


def _cast(node: SourceNode, inputs: list[Array]) -> Array:
    return inputs[0].astype(_CASTS[node.integer("to", 1)])


def _unsqueeze(_: SourceNode, inputs: list[Array]) -> Array:
    return np.expand_dims(inputs[0], tuple(int(axis) for axis in inputs[1]))


def _squeeze(_: SourceNode, inputs: list[Array]) -> Array:
    return np.squeeze(inputs[0], tuple(int(axis) for axis in inputs[1]) if len(inputs) > 1 else None)


def _concat(node: SourceNode, inputs: list[Array]) -> Array:
    return np.concatenate(inputs, axis=node.integer("axis", 0))


_FOLDS: Mapping[str, Fold] = {
    "Constant": _constant,
    "Identity": lambda _, inputs: inputs[0],
    "QuantizeLinear": _quantize,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Cast": _cast,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
}
