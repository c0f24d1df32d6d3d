"""ONNX bytes to a plain, checked node list: the only file that touches protobuf objects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from onnx import numpy_helper

from compiler.errors import BrokenModel, UnsupportedModel
from compiler.importer.ordering import ordered
from compiler.importer.source import Array, Attribute, SourceGraph, SourceNode
from compiler.importer.states import read_states
from compiler.limits import LIMITS

_EXPORT = "export the model again"
_DOMAINS = {"": "", "ai.onnx": "", "com.microsoft": "", "edgeloop": "edgeloop."}
_MICROSOFT = frozenset(
    {"QGemm", "QLinearConv", "DequantizeLinear", "QuantizeLinear"}
    | {f"QLinear{name}" for name in ("Add", "Mul", "Concat", "Sigmoid", "LeakyRelu", "Softmax")}
    | {"QLinearAveragePool", "QLinearGlobalAveragePool"}
)
_TYPES = {onnx.TensorProto.FLOAT: "float", onnx.TensorProto.UINT8: "uint8", onnx.TensorProto.INT8: "int8"}


def read_source(model: bytes) -> SourceGraph:
    """Parse and check; raises BrokenModel or UnsupportedModel."""
    if not 0 < len(model) <= LIMITS.model_bytes:
        raise BrokenModel("model", f"{len(model)} bytes, 1 to {LIMITS.model_bytes} are allowed", "give an ONNX file")
    try:
        proto = onnx.load_model_from_string(model)
    except (DecodeError, ValueError, TypeError) as error:
        raise BrokenModel("model", f"not readable as ONNX ({error})", _EXPORT) from error
    graph = proto.graph
    _check_texts(graph)
    if not graph.node:
        raise BrokenModel("model", "the graph has no nodes", _EXPORT)
    if len(graph.node) > LIMITS.nodes:
        raise UnsupportedModel("model", f"{len(graph.node)} nodes, at most {LIMITS.nodes}", "split the model")
    constants = dict(_constant(tensor) for tensor in graph.initializer)
    inputs = [entry for entry in graph.input if entry.name not in constants]
    if not inputs or not graph.output:
        reason = f"{len(inputs)} inputs and {len(graph.output)} outputs, a frame and an output are needed"
        raise UnsupportedModel("model", reason, "export the network with the frame as its first input")
    states = read_states(inputs[1:], [entry.name for entry in graph.output])
    _check_opset(proto)
    nodes = _distinct([_node(index, node) for index, node in enumerate(graph.node)])
    return SourceGraph(
        name=_name(graph.name or "model"),
        input=inputs[0].name,
        input_shape=_shape(inputs[0]),
        input_type=_TYPES[inputs[0].type.tensor_type.elem_type],
        outputs=tuple(entry.name for entry in graph.output),
        nodes=ordered(nodes, {*(entry.name for entry in inputs), *constants}, [entry.name for entry in graph.output]),
        constants=constants,
        states=states,
    )


def _check_texts(graph: onnx.GraphProto) -> None:
    """protobuf hands text that is not UTF-8 on as bytes."""
    texts: list[object] = [graph.name]
    texts += [entry.name for entry in (*graph.initializer, *graph.input, *graph.output)]
    for node in graph.node:
        texts += [node.name, node.op_type, node.domain, *node.input, *node.output]
        texts += [attribute.name for attribute in node.attribute]
    if not all(isinstance(text, str) for text in texts):
        raise BrokenModel("model", "a name is not valid text (UTF-8)", _EXPORT)


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
    missing = node.op_type != "Constant" and not (node.input and node.input[0])
    silent = not node.output or (node.op_type != "Split" and not node.output[0])
    if missing or silent:
        raise BrokenModel(name, f"{node.op_type} without {'an input' if missing else 'an output'}", _EXPORT)
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


def _name(text: str) -> str:
    return text[: LIMITS.name_characters]
