"""Operators and files that the importer refuses: one error that names node, reason and remedy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.driver import compile_program
from compiler.errors import BadProfile, BadQuantization, BrokenModel, CompileError, UnsupportedModel
from tests.compiler.qdq_nets import SHAPE, Net
from tests.compiler.qoperator_support import integer_conv
from tests.support.models import single_conv_qdq

GOOD = single_conv_qdq(inputs=3, outputs=4, relu=False)


def changed(change: Callable[[onnx.ModelProto], None], model: bytes = GOOD) -> bytes:
    proto = onnx.load_model_from_string(model)
    change(proto)
    return bytes(proto.SerializeToString())


def node(operator: str, constants: dict[str, object] | None = None, **attributes: object) -> bytes:
    """The frame through one node; constants by name, None for an absent input."""
    net = Net()
    inputs = [
        "" if value is None else net.constant(name, np.asarray(value)) for name, value in (constants or {}).items()
    ]
    return net.done(net.node(operator, [net.frame, *inputs], "f", **attributes), 0.02, 120)


def whole(*numbers: int) -> np.ndarray:  # type: ignore[type-arg]  # int64
    return np.asarray(numbers, np.int64)


def external(proto: onnx.ModelProto) -> None:
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../secret")


def newest(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version = 999


def foreign(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].domain = "somebody.else"


def double_input(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def infinite_bias(proto: onnx.ModelProto) -> None:
    conv = next(entry for entry in proto.graph.node if entry.op_type == "Conv")
    proto.graph.initializer.append(numpy_helper.from_array(np.full(4, np.inf, np.float32), "endless"))
    conv.input[2] = "endless"


def subgraph(proto: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [])
    proto.graph.node[0].attribute.append(helper.make_attribute("then_branch", body))


def without_scale() -> bytes:
    proto = onnx.load_model_from_string(integer_conv())
    pool = helper.make_node("MaxPool", ["x"], ["pooled"], name="early", kernel_shape=[2, 2])
    proto.graph.node.insert(0, pool)
    proto.graph.node[1].input[0] = "pooled"
    return bytes(proto.SerializeToString())


def unequal_concat() -> bytes:
    net = Net()
    half = net.features("half", 4, stride=2)
    return net.done(net.node("Concat", [net.frame, half], "f", axis=1))


BAD: dict[str, tuple[bytes, type[CompileError], str]] = {
    "external data": (
        changed(external),
        UnsupportedModel,
        r"its data lies in another file; save the model as one file",
    ),
    "an opset of the future": (
        changed(newest),
        UnsupportedModel,
        r"^model: opset 999, .* 1 to \d+; export for an older",
    ),
    "a foreign domain": (
        changed(foreign),
        UnsupportedModel,
        r"somebody.else.QuantizeLinear is not in the standard domain",
    ),
    "a float64 input": (changed(double_input), UnsupportedModel, r"^x: type 11 with 4 axes, float or 8-bit"),
    "an infinite bias": (changed(infinite_bias), BadQuantization, r"^conv_Conv: bias is not finite or too large"),
    "a subgraph": (changed(subgraph), UnsupportedModel, r"attribute then_branch has an unsupported kind"),
    "an integer input without a scale": (
        without_scale(),
        UnsupportedModel,
        r"^early: the scale of the uint8 input x is not known here; put DequantizeLinear behind the input",
    ),
    "concat of unequal maps": (
        unequal_concat(),
        UnsupportedModel,
        r"^f_Concat: shapes .* make the other extents equal",
    ),
    "a slice of nothing": (
        node("Slice", {"s": whole(5), "e": whole(5), "a": whole(2)}),
        BadProfile,
        r"^f_Slice: nothing is left of axis 2 \(8\)",
    ),
    "a slice backwards": (
        node("Slice", {"s": whole(5), "e": whole(0), "a": whole(2), "t": whole(-1)}),
        UnsupportedModel,
        r"^f_Slice: step -1; use steps of 1 to 255",
    ),
    "a mirrored border": (
        node("Pad", {"p": whole(0, 0, 1, 1, 0, 0, 1, 1)}, mode="reflect"),
        UnsupportedModel,
        r"^f_Pad: mode reflect; use mode constant",
    ),
    "a border that is not zero": (
        node("Pad", {"p": whole(0, 0, 1, 1, 0, 0, 1, 1), "v": np.float32(1)}),
        UnsupportedModel,
        r"^f_Pad: a border that is not 0; pad with the value 0.0",
    ),
    "padded channels": (
        node("Pad", {"p": whole(0, 1, 0, 0, 0, 0, 0, 0)}),
        UnsupportedModel,
        r"^f_Pad: pads on batch or channels",
    ),
    "a pool of padding": (
        node("MaxPool", kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
        UnsupportedModel,
        r"^f_MaxPool: pads .* use pads smaller than the kernel",
    ),
    "a pool without a kernel": (node("MaxPool"), UnsupportedModel, r"^f_MaxPool: kernel \(0, 0\)"),
    "a pool larger than the map": (
        node("AveragePool", kernel_shape=[9, 9]),
        BadProfile,
        r"^f_AveragePool: no output pixels from 8x12; use a larger profile",
    ),
    "a constant as large as the map": (
        node("Add", {"k": np.zeros((1, 4, 8, 12), np.float32)}),
        UnsupportedModel,
        r"^f_Add: a constant operand of shape \[1, 4, 8, 12\]",
    ),
    "a slope that is not a number": (
        node("PRelu", {"k": np.full((4, 1, 1), np.nan, np.float32)}),
        BadQuantization,
        r"^f_PRelu: operand k is not finite",
    ),
    "division by zero": (node("Div", {"k": np.float32(0)}), BadQuantization, r"^f_Div: division by zero"),
    "a shape that does not fit": (
        node("Reshape", {"k": whole(1, 5, -1)}),
        UnsupportedModel,
        r"^f_Reshape: shape \[1, 5, -1\] for \[1, 4, 8, 12\]; give a profile that divides",
    ),
    "a permutation with a hole": (node("Transpose", perm=[0, 2, 2, 3]), UnsupportedModel, r"^f_Transpose: permutation"),
    "rows and columns swapped": (
        node("Transpose", perm=[0, 1, 3, 2]),
        UnsupportedModel,
        r"^y: y of shape \[1, 4, 12, 8\] is no map",
    ),
    "a softmax over two axes": (node("Softmax", axis=7), UnsupportedModel, r"^f_Softmax: axis 7"),
    "float bounds of a slice": (
        node("Slice", {"s": np.float32([1]), "e": np.float32([2])}),
        BrokenModel,
        r"^f_Slice: input 1 of type float32 with 1 elements",
    ),
    "channels out of range": (
        node("Gather", {"k": whole(0, 9)}, axis=1),
        UnsupportedModel,
        r"^f_Gather: channels \[0, 9\] of 4",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_error_with_node_reason_and_remedy(name: str) -> None:
    model, kind, message = BAD[name]
    with pytest.raises(kind, match=message) as caught:
        compile_program(model, "npu-4t", [SHAPE])
    error = caught.value
    assert error.node
    assert error.reason
    assert error.remedy
    assert "\n" not in str(error)
