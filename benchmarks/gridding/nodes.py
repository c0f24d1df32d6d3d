"""The onnx package's node tests in scope, quantised to 8 bit, against ONNX Runtime or their own expected output.

In scope: one node of an operator that the compiler reads, one batch, at most four axes. A float test becomes QDQ: its
input and output are quantised over their own range, further operands of the same shape are further channels of the
input, constants stay constants. Where the integer arithmetic rounds once and float twice, one step is allowed and
counted apart. What the compiler refuses is counted too; a refusal is one CompileError, never another exception.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, NotImplemented

from benchmarks.gridding.case import Case, Count, compare
from benchmarks.gridding.node_scope import EXACT, MODULES, PAIRED, POINTWISE
from benchmarks.gridding.runtime import Image, reference_outputs, runtime_outputs
from compiler.driver import read_model
from compiler.errors import CompileError
from compiler.importer.operators import CONVERTERS
from compiler.importer.qoperator import FORMS
from compiler.ir import Graph

OPSET = 20
Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Scope:
    """What was compared, and what the compiler refused with which error."""

    count: Count = field(default_factory=Count)
    refused: tuple[str, ...] = ()


def scope(modules: tuple[str, ...] = MODULES) -> Scope:
    """Judge the tests of these modules."""
    count = Count()
    refused: list[str] = []
    for test in tests(modules):
        if test.inputs[test.node.input[0]].dtype == np.uint8 and test.inputs[test.node.input[0]].ndim == 4:
            count += _integer(test)
            continue
        case = quantized(test)
        if case is None:
            continue
        try:
            count += _judged(case)
        except CompileError as error:
            refused.append(f"{case.name}: {error}")
    return Scope(count, tuple(refused))


def _integer(test: NodeTest) -> Count:
    """A test on uint8 as it stands, on its own data and against its own output."""
    image = test.inputs[test.node.input[0]]
    constants = [numpy_helper.from_array(value, name) for name, value in test.inputs.items()][1:]
    nodes = [test.node]
    if test.node.op_type == "MaxPool":  # bytes only: say what they mean
        facts = [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in (("s", np.float32(1)), ("z", np.uint8(0)))
        ]
        constants += facts
        relabel = [helper.make_node("DequantizeLinear", ["frame", "s", "z"], ["real"])]
        relabel.append(helper.make_node("QuantizeLinear", ["real", "s", "z"], [test.node.input[0]]))
        nodes = [*relabel, test.node]
    name = "frame" if test.node.op_type == "MaxPool" else test.node.input[0]
    info = helper.make_tensor_value_info(name, TensorProto.UINT8, image.shape)
    out = helper.make_tensor_value_info(test.node.output[0], TensorProto.UINT8, None)
    model = helper.make_model(
        helper.make_graph(nodes, "node", [info], [out], constants), opset_imports=[helper.make_opsetid("", OPSET)]
    )
    case = Case(test.name, model.SerializeToString(), (image.shape[2], image.shape[3]))
    graph = read_model("model", case.model, [case.size]).profiles[0].imported
    frame, expected = (np.ascontiguousarray(array[0].transpose(1, 2, 0)) for array in (image, test.output))
    return compare(case, graph, frame.astype(np.uint8), {test.node.output[0]: expected.astype(np.uint8)})


def _judged(case: Case) -> Count:
    graph = read_model("model", case.model, [case.size]).profiles[0].imported
    frame = np.random.default_rng(5).integers(0, 256, graph.values[graph.input].shape, dtype=np.uint8)
    return compare(case, graph, frame, _expected(case, graph, frame))


def _expected(case: Case, graph: Graph, frame: Image) -> dict[str, Image]:
    """ONNX Runtime's answer; for what is newer than it, the onnx package's own."""
    try:
        return runtime_outputs(case.model, graph, frame)
    except (InvalidGraph, NotImplemented):
        return reference_outputs(case.model, graph, frame)


@dataclass(frozen=True)
class NodeTest:
    """One node with its example."""

    name: str
    node: onnx.NodeProto
    inputs: dict[str, Array]
    output: Array


def tests(modules: tuple[str, ...]) -> Iterator[NodeTest]:
    """Tests of one node and one output, not those expanded into functions."""
    from onnx.backend.test.case import node as package

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules:
            importlib.import_module(f"onnx.backend.test.case.node.{module}")
    for test in package._NodeTestCases:
        graph = test.model.graph
        node = graph.node[0]
        if len(graph.node) != 1 or len(node.output) != 1 or node.domain or node.op_type not in {*CONVERTERS, *FORMS}:
            continue
        if node.op_type.lower() not in modules:
            continue
        arrays, outputs = test.data_sets[0]
        if all(isinstance(value, np.ndarray | np.generic) for value in (*arrays, *outputs)):
            named = {entry.name: np.asarray(value) for entry, value in zip(graph.input, arrays, strict=True)}
            yield NodeTest(test.name, node, named, np.asarray(outputs[0]))


def quantized(test: NodeTest) -> Case | None:
    """The test as a QDQ model; None when it is out of scope."""
    operator = test.node.op_type
    first = test.inputs[test.node.input[0]]
    shape = _map_shape(first.shape, operator)
    if shape is None or first.dtype != np.float32 or test.output.dtype != np.float32 or test.output.size == 0:
        return None
    build = _Build()
    facts = _facts(first)
    others = list(test.node.input[1:])
    paired = operator in PAIRED and all(test.inputs[name].shape == first.shape for name in others) and bool(others)
    operands = build.split(shape, facts, 1 + len(others)) if paired else [build.frame(shape, facts)]
    if not paired:
        for index, name in enumerate(others, 1):
            operands.append(build.operand(test, index, name, operator))
    if operator == "Concat" and (not paired or len(first.shape) != 4):
        return None
    node = onnx.NodeProto()
    node.CopyFrom(test.node)
    del node.input[:]
    node.input.extend(operands)
    node.output[0] = "result"
    node.name = test.name
    build.nodes.append(node)
    model = build.finish(
        shape, _facts(test.output), paired_channels=(1 + len(others)) if paired else 1, opset=_opset(test)
    )
    return Case(test.name, model, (shape[2], shape[3]), 0 if operator in EXACT else 1)


def _opset(test: NodeTest) -> int:
    """One that ONNX Runtime reads, unless the test shows an attribute that came later."""
    newer = test.node.op_type == "SpaceToDepth" and any(entry.name == "mode" for entry in test.node.attribute)
    return onnx.defs.onnx_opset_version() if newer else OPSET


def _map_shape(shape: tuple[int, ...], operator: str) -> tuple[int, int, int, int] | None:
    if len(shape) == 4 and shape[0] == 1:
        return shape[0], shape[1], shape[2], shape[3]
    if operator in POINTWISE and len(shape) <= 3:
        padded = (1,) * (4 - len(shape)) + shape
        return padded[0], padded[1], padded[2], padded[3]
    return None


def _facts(array: Array) -> tuple[np.float32, np.uint8]:
    """Scale and zero point over the range of the numbers, 0 included."""
    numbers = array.astype(np.float64)
    low, high = min(0.0, float(numbers.min())), max(0.0, float(numbers.max()))
    scale = np.float32((high - low) / 255 or 1 / 255)
    return scale, np.uint8(np.clip(np.rint(-low / scale), 0, 255))


class _Build:
    """Nodes and constants of one QDQ model."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: object) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def quantize(self, tensor: str, facts: tuple[np.float32, np.uint8], output: str) -> str:
        """Through 8 bit and back."""
        parameters = [self.constant(f"{output}_s", facts[0]), self.constant(f"{output}_z", facts[1])]
        self.nodes.append(helper.make_node("QuantizeLinear", [tensor, *parameters], [f"{output}_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{output}_q", *parameters], [output]))
        return output

    def frame(self, shape: tuple[int, ...], facts: tuple[np.float32, np.uint8]) -> str:
        return self.quantize("x", facts, "x_dq")

    def split(self, shape: tuple[int, ...], facts: tuple[np.float32, np.uint8], count: int) -> list[str]:
        """Operands of equal shape as channels of one input."""
        whole = self.frame(shape, facts)
        names = [f"x_{index}" for index in range(count)]
        sizes = self.constant("sizes", np.full(count, shape[1], np.int64))
        self.nodes.append(helper.make_node("Split", [whole, sizes], names, axis=1))
        return names

    def operand(self, test: NodeTest, index: int, name: str, operator: str) -> str:
        """A constant operand; the weights of a convolution at 8 bit."""
        if not name:
            return ""
        value = test.inputs[name]
        constant = self.constant(f"k{index}", value)
        if operator != "Conv" or index != 1:
            return constant
        scale = np.float32(float(np.abs(value.astype(np.float64)).max()) / 127 or 1.0)
        integers = np.clip(np.rint(value.astype(np.float64) / scale), -127, 127).astype(np.int8)
        parts = [self.constant("w_q", integers), self.constant("w_s", scale), self.constant("w_z", np.int8(0))]
        self.nodes.append(helper.make_node("DequantizeLinear", parts, ["w"]))
        return "w"

    def finish(
        self, shape: tuple[int, ...], facts: tuple[np.float32, np.uint8], paired_channels: int, opset: int
    ) -> bytes:
        self.quantize("result", facts, "y")
        extents = [1, shape[1] * paired_channels, *shape[2:]]
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, extents)
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "node", [info], [out], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="edgeloop")
        model.ir_version = 9
        return bytes(model.SerializeToString(deterministic=True))
