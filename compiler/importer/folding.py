"""Constants through the operators that exporters leave around them: shapes, casts, weights behind
QuantizeLinear.

Invariant: a fold allocates at most ``folded_elements``; whatever goes wrong is BrokenModel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from compiler.errors import BadQuantization, BrokenModel, CompileError
from compiler.importer.source import Array, SourceNode
from compiler.limits import LIMITS

Fold = Callable[[SourceNode, list[Array]], Array]


def foldable(node: SourceNode, constants: Mapping[str, Array]) -> bool:
    """Whether all inputs are constant and the operator is known."""
    known = node.operator in _FOLDS and len(node.outputs) == 1
    return known and all(name in constants for name in node.inputs if name)


def evaluate(node: SourceNode, constants: Mapping[str, Array]) -> Array:
    """The node's result; raises BrokenModel."""
    inputs = [constants[name] for name in node.inputs if name]
    if _expected(node, inputs) > LIMITS.folded_elements:
        raise BrokenModel(node.name, f"{node.operator} of constants is too large", "export again")
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(_FOLDS[node.operator](node, inputs))
    except CompileError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, ArithmeticError, MemoryError) as error:
        raise BrokenModel(node.name, f"{node.operator} of constants fails ({_short(error)})", "export again") from error
    if result.size > LIMITS.folded_elements:
        raise BrokenModel(node.name, f"{node.operator} of constants has {result.size} elements", "export again")
    return result


def _expected(node: SourceNode, inputs: list[Array]) -> int:
    """Elements of the result where it may be larger than all inputs together."""
    if node.operator == "Gather" and len(inputs) > 1:
        return inputs[0].size * max(1, inputs[1].size)
    if node.operator not in ("Add", "Sub", "Mul", "Div", "QuantizeLinear"):
        return 0
    rank = max(value.ndim for value in inputs)
    padded = [(1,) * (rank - value.ndim) + value.shape for value in inputs]
    return math.prod(max(extents) for extents in zip(*padded, strict=True))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _constant(node: SourceNode, _: list[Array]) -> Array:
    for key, kind in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if key in node.attributes:
            return np.asarray(node.attributes[key], kind)
    if "value_ints" in node.attributes:
        return np.asarray(node.attributes["value_ints"], np.int64)
    value = node.attributes["value"]
    if not isinstance(value, np.ndarray):
        raise TypeError("its value is no tensor")
    return value


def _quantize(node: SourceNode, inputs: list[Array]) -> Array:
    values, scale = inputs[0].astype(np.float32), inputs[1].astype(np.float32)
    kind = np.int8 if node.integer("output_dtype", 2) == 3 else np.uint8
    zero = inputs[2] if len(inputs) > 2 else np.zeros(scale.shape, kind)
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
    wanted = inputs[1].reshape(-1).tolist()
    shape = [int(inputs[0].shape[i]) if extent == 0 else int(extent) for i, extent in enumerate(wanted)]
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


def _gather(node: SourceNode, inputs: list[Array]) -> Array:
    return np.asarray(np.take(inputs[0], inputs[1].astype(np.int64), axis=node.integer("axis", 0)))


def _slice(node: SourceNode, inputs: list[Array]) -> Array:
    starts, ends = (part.reshape(-1).tolist() for part in inputs[1:3])
    axes = inputs[3].reshape(-1).tolist() if len(inputs) > 3 else list(range(len(starts)))
    steps = inputs[4].reshape(-1).tolist() if len(inputs) > 4 else [1] * len(starts)
    index = [slice(None)] * inputs[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[int(axis)] = slice(int(start), int(end), int(step))
    return np.asarray(inputs[0][tuple(index)])


def _divide(_: SourceNode, inputs: list[Array]) -> Array:
    a, b = inputs
    if a.dtype.kind in "iu":
        return np.asarray(np.trunc(a.astype(np.float64) / b.astype(np.float64)), a.dtype)
    return np.asarray(np.divide(a, b))


def _binary(operation: np.ufunc) -> Fold:
    return lambda _, inputs: np.asarray(operation(inputs[0], inputs[1]))


def _flatten(node: SourceNode, inputs: list[Array]) -> Array:
    axis = node.integer("axis", 1) % (inputs[0].ndim + 1)
    return inputs[0].reshape(math.prod(inputs[0].shape[:axis]), -1)


_FOLDS: Mapping[str, Fold] = {
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _divide,
    "Floor": lambda _, inputs: np.asarray(np.floor(inputs[0])),
    "Ceil": lambda _, inputs: np.asarray(np.ceil(inputs[0])),
    "Gather": _gather,
    "Slice": _slice,
    "Flatten": _flatten,
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
