"""ONNX bytes to a plain, checked node list: the only file that touches protobuf objects.

Invariants of a :class:`SourceGraph`: nodes in execution order (cycles refused), every name defined once,
every read name defined, exactly one input, sizes within the limits. Nothing here knows about quantisation.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from onnx import numpy_helper

from compiler.errors import BrokenModel, UnsupportedModel
from compiler.limits import LIMITS

Array = npt.NDArray[np.generic]
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | Array
_EXPORT = "export the model again"
_DOMAINS = {"": "", "ai.onnx": "", "com.microsoft": "", "edgeloop": "edgeloop."}
_MICROSOFT = frozenset(
    {"QGemm", "QLinearConv", "DequantizeLinear", "QuantizeLinear"}
    | {f"QLinear{name}" for name in ("Add", "Mul", "Concat", "Sigmoid", "LeakyRelu", "Softmax")}
    | {"QLinearAveragePool", "QLinearGlobalAveragePool"}
)
_TYPES = {onnx.TensorProto.FLOAT: "float", onnx.TensorProto.UINT8: "uint8", onnx.TensorProto.INT8: "int8"}


@dataclass(frozen=True)
class SourceNode:
    """One ONNX node; an absent optional input is the empty string."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise BrokenModel(self.name, f"attribute {name} is not an integer", _EXPORT)
        return value

    def real(self, name: str, default: float) -> float:
        """A finite number attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise BrokenModel(self.name, f"attribute {name} is not a finite number", _EXPORT)
        return float(value)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise BrokenModel(self.name, f"attribute {name} is not a string", _EXPORT)
        return value

    def integers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """A list-of-integers attribute of the default's length."""
        value = self.attributes.get(name, default)
        if not isinstance(value, tuple) or len(value) != len(default) or not all(isinstance(v, int) for v in value):
            raise BrokenModel(self.name, f"attribute {name} must have {len(default)} integers", _EXPORT)
        return tuple(int(v) for v in value)

    def some_integers(self, name: str) -> tuple[int, ...] | None:
        """A list-of-integers attribute of any length; None when absent."""
        if name not in self.attributes:
            return None
        value = self.attributes[name]
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise BrokenModel(self.name, f"attribute {name} is not a list of integers", _EXPORT)
        return tuple(int(v) for v in value)


@dataclass(frozen=True)
class SourceGraph:
    """The model as read. ``input_shape`` is batch, channels, height, width; None where dynamic. ``input_type`` is
    float, uint8 or int8.
    """

    name: str
    input: str
    input_shape: tuple[int | None, ...]
    input_type: str
    outputs: tuple[str, ...]
    nodes: tuple[SourceNode, ...]
    constants: Mapping[str, Array]


def read_source(model: bytes) -> SourceGraph:
    """Parse and check; raises BrokenModel or UnsupportedModel."""
    if not 0 < len(model) <= LIMITS.model_bytes:
        raise BrokenModel("model", f"{len(model)} bytes, 1 to {LIMITS.model_bytes} are allowed", "give an ONNX file")
    try:
        proto = onnx.load_model_from_string(model)
    except (DecodeError, ValueError, TypeError) as error:
        raise BrokenModel("model", f"not readable as ONNX ({error})", _EXPORT) from error
    graph = proto.graph
    if not graph.node:
        raise BrokenModel("model", "the graph has no nodes", _EXPORT)
    if len(graph.node) > LIMITS.nodes:
        raise UnsupportedModel("model", f"{len(graph.node)} nodes, at most {LIMITS.nodes}", "split the model")
    constants = dict(_constant(tensor) for tensor in graph.initializer)
    inputs = [entry for entry in graph.input if entry.name not in constants]
    if len(inputs) != 1 or not graph.output:
        reason = f"{len(inputs)} inputs and {len(graph.output)} outputs, one input and an output are needed"
        raise UnsupportedModel("model", reason, "export the network with the frame as its only input")
    _check_opset(proto)
    nodes = _distinct([_node(index, node) for index, node in enumerate(graph.node)])
    return SourceGraph(
        name=_name(graph.name or "model"),
        input=inputs[0].name,
        input_shape=_shape(inputs[0]),
        input_type=_TYPES[inputs[0].type.tensor_type.elem_type],
        outputs=tuple(entry.name for entry in graph.output),
        nodes=_ordered(nodes, {inputs[0].name, *constants}, [entry.name for entry in graph.output]),
        constants=constants,
    )


def _check_opset(proto: onnx.ModelProto) -> None:
    newest = onnx.defs.onnx_opset_version()
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= newest:
            reason = f"opset {entry.version}, this compiler knows 1 to {newest}"
            raise UnsupportedModel("model", reason, "export for an older opset")


def _distinct(nodes: list[SourceNode]) -> list[SourceNode]:
    """The same nodes under different names: kernels, constants and reports go by name."""
    taken: set[str] = set()
    result = []
    for node in nodes:
        name, number = node.name, 1
        while name in taken:
            name, number = f"{node.name}#{number}", number + 1
        taken.add(name)
        result.append(node if name == node.name else replace(node, name=name))
    return result


def _constant(tensor: onnx.TensorProto) -> tuple[str, Array]:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise UnsupportedModel(tensor.name, "its data lies in another file", "save the model as one file")
    if any(extent < 0 for extent in tensor.dims) or int(np.prod([float(d) for d in tensor.dims])) > LIMITS.model_bytes:
        raise BrokenModel(tensor.name, f"initializer extents {list(tensor.dims)}", _EXPORT)
    try:
        return tensor.name, numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, AttributeError, MemoryError) as error:
        raise BrokenModel(tensor.name, f"initializer not readable ({error})", _EXPORT) from error


def _node(index: int, node: onnx.NodeProto) -> SourceNode:
    name = _name(node.name or f"{node.op_type}_{index}")
    if node.domain not in _DOMAINS or (node.domain == "com.microsoft" and node.op_type not in _MICROSOFT):
        reason = f"operator {node.domain}.{node.op_type} is not in the standard domain"
        raise UnsupportedModel(name, reason, "export with standard ONNX operators and QDQ quantisation")
    attributes = {entry.name: _attribute(name, entry) for entry in node.attribute}
    return SourceNode(name, _DOMAINS[node.domain] + node.op_type, tuple(node.input), tuple(node.output), attributes)


def _attribute(node: str, entry: onnx.AttributeProto) -> Attribute:
    kind = onnx.AttributeProto
    if entry.type == kind.INT:
        return int(entry.i)
    if entry.type == kind.FLOAT:
        return float(entry.f)
    if entry.type == kind.STRING:
        return entry.s.decode("utf-8", "replace")
    if entry.type == kind.INTS:
        return tuple(int(value) for value in entry.ints)
    if entry.type == kind.FLOATS:
        return tuple(float(value) for value in entry.floats)
    if entry.type == kind.TENSOR:
        return _constant(entry.t)[1]
    raise UnsupportedModel(node, f"attribute {entry.name} has an unsupported kind", "export without subgraphs")


def _shape(entry: onnx.ValueInfoProto) -> tuple[int | None, ...]:
    kind = entry.type.tensor_type
    if kind.elem_type not in _TYPES or len(kind.shape.dim) != 4:
        reason = f"type {kind.elem_type} with {len(kind.shape.dim)} axes, float or 8-bit [1, C, H, W] is needed"
        raise UnsupportedModel(entry.name, reason, "export the frame as one NCHW input")
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)


def _ordered(nodes: list[SourceNode], known: set[str], outputs: list[str]) -> tuple[SourceNode, ...]:
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in producer or name in known:
                raise BrokenModel(node.name, f"tensor {name} is defined twice", _EXPORT)
            producer[name] = index
    missing = next((o for o in outputs if o not in producer), None)
    if missing is not None:
        raise BrokenModel(missing, "no node makes this output", _EXPORT)
    waiting, readers = _edges(nodes, producer, known)
    ready = deque(index for index, count in enumerate(waiting) if count == 0)
    order: list[SourceNode] = []
    while ready:
        index = ready.popleft()
        order.append(nodes[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) != len(nodes):
        stuck = next(nodes[index].name for index, count in enumerate(waiting) if count)
        raise BrokenModel(stuck, "the graph has a cycle through this node", _EXPORT)
    return tuple(order)


def _edges(nodes: list[SourceNode], producer: Mapping[str, int], known: set[str]) -> tuple[list[int], list[list[int]]]:
    waiting = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for name in filter(None, node.inputs):
            if name in known:
                continue
            if name not in producer:
                raise BrokenModel(node.name, f"reads tensor {name}, which nothing makes", _EXPORT)
            readers[producer[name]].append(index)
            waiting[index] += 1
    return waiting, readers


def _name(text: str) -> str:
    return text[: LIMITS.name_characters]
