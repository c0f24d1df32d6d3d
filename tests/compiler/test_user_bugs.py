"""Bugs that users of other compilers reported, each with the right behaviour.

Those covered elsewhere: per-channel bias and convolution grids (``benchmarks/gridding``), zero points that differ by
channel, four pads, quantisation forms (``test_import_qoperator``), DepthToSpace by blocksize and channels
(``test_grids``), a proof after each pass (``oracle.after_each_pass``).
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from compiler import golden
from compiler.errors import CompileError, UnsupportedModel
from compiler.ir import Conv, Move
from tests.compiler.oracle import after_each_pass, against_runtime, frame_of, imported
from tests.compiler.qdq_nets import SHAPE, Net
from tests.compiler.qoperator_support import integer_conv


def near(model: bytes) -> None:
    graph = imported(model, *SHAPE)
    frame = frame_of(graph)
    difference = against_runtime(model, graph, frame)
    assert difference.largest <= 1
    assert difference.share < 0.02
    after_each_pass(graph, frame)


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_the_quantisation_axis_of_weights_follows_a_transpose(operator: str) -> None:
    """onnxruntime #17718, #12800: scales per output channel, weights stored [out, in] and transposed in the graph."""
    net = Net()
    mean = net.quantize(net.node("GlobalAveragePool", [net.frame], "mean"), 0.02, 120, 4)
    flat = net.node("Flatten", [mean], "flat")
    weights = net.node("Transpose", [net.matrix("w", 4, 5, True)], "turned", perm=[1, 0])
    near(net.done(net.node(operator, [flat, weights], "f"), 0.02, 128, 5))


def test_uneven_pads_fill_with_the_zero_point_of_the_input() -> None:
    """onnxruntime #11525, opencv #21991, executorch #13576, tvm #4807."""
    net = Net()
    near(net.done(net.conv(net.frame, "f", 4, pads=(3, 0, 1, 2)), 0.03, 100))


@pytest.mark.parametrize("batch", ["n", 1])
def test_a_dynamic_batch_is_frozen_to_one(batch: object) -> None:
    """iree #18124."""
    proto = onnx.load_model_from_string(integer_conv())
    first = proto.graph.input[0].type.tensor_type.shape.dim[0]
    first.Clear()
    if isinstance(batch, str):
        first.dim_param = batch
    else:
        first.dim_value = 1
    graph = imported(proto.SerializeToString(), *SHAPE)
    assert golden.run(graph, frame_of(graph))["y"].shape[:2] == SHAPE


def test_a_fixed_batch_of_two_is_refused() -> None:
    proto = onnx.load_model_from_string(integer_conv())
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    with pytest.raises(UnsupportedModel, match=r"^x: input shape \[2, .*use batch 1"):
        imported(proto.SerializeToString(), *SHAPE)


@pytest.mark.parametrize("size", [3, 5])
def test_zero_points_that_do_not_fit_the_channels_are_refused_not_read_as_one(size: int) -> None:
    """apache/tvm #16646."""
    proto = onnx.load_model_from_string(integer_conv())
    for tensor in proto.graph.initializer:
        if tensor.name == "f.wz":
            tensor.CopyFrom(numpy_helper.from_array(np.zeros(size, np.int8), "f.wz"))
    with pytest.raises(CompileError, match=f"4 scales and {size} zero points for 4 channels"):
        imported(proto.SerializeToString(), *SHAPE)


def test_an_activation_with_a_zero_point_for_each_channel_is_refused() -> None:
    proto = onnx.load_model_from_string(integer_conv())
    for tensor in proto.graph.initializer:
        if tensor.name == "x.0.z":
            tensor.CopyFrom(numpy_helper.from_array(np.zeros(4, np.uint8), tensor.name))
    with pytest.raises(UnsupportedModel, match="scales for an activation; quantise activations with one scale"):
        imported(proto.SerializeToString(), *SHAPE)


def test_the_error_names_the_attribute_that_is_not_supported() -> None:
    """airockchip/rknn-toolkit2 #441, #514."""
    net = Net()
    scales = net.floats("scales", [1, 1, 2, 2])
    made = net.node("Resize", [net.frame, "", scales], "f", mode="cubic")
    with pytest.raises(UnsupportedModel, match="f_Resize: mode cubic; use mode nearest or linear"):
        imported(net.done(made, 0.02, 120), *SHAPE)


def test_a_transposed_convolution_is_one_clear_error() -> None:
    """executorch #17668."""
    net = Net()
    weights = net.floats("w", np.zeros((4, 4, 2, 2)))
    made = net.node("ConvTranspose", [net.frame, weights], "f", strides=[2, 2])
    with pytest.raises(
        UnsupportedModel, match="f_ConvTranspose: operator ConvTranspose is not supported; use DepthToSpace"
    ):
        imported(net.done(made), *SHAPE)


def test_outputs_that_nobody_reads_cost_nothing() -> None:
    """executorch #21840, nnfusion #277."""
    net = Net()
    net.nodes.append(helper.make_node("Split", [net.frame], ["l", "r"], name="split", axis=1, num_outputs=2))
    left = net.quantize("l", 0.02, 120, 2)
    net.quantize(net.conv(net.frame, "unread", 8), 0.03, 110, 8)
    graph = imported(net.done(net.conv(left, "f", 4)), *SHAPE)
    assert [type(operator).__name__ for operator in graph.operators] == ["Part", "Conv"]


def test_a_decomposed_pixel_shuffle_moves_no_byte() -> None:
    """executorch #19397, microsoft/onnxscript #2891: spelled with Reshape and Transpose, in either order."""
    for turn, first in (([0, 1, 4, 2, 5, 3], [1, 2, 2, 2, 8, 12]), ([0, 3, 4, 1, 5, 2], [1, 2, 2, 2, 8, 12])):
        net = Net()
        value = net.features("a", 8)
        value = net.node("Reshape", [value, net.whole("s1", first)], "r1")
        value = net.node("Transpose", [value], "t", perm=turn)
        value = net.node("Reshape", [value, net.whole("s2", [1, 2, 16, 24])], "r2")
        net.channels["r2"], net.scales["r2"] = 2, np.float32(0.03)
        graph = imported(net.done(net.conv("r2", "f", 4)), *SHAPE)
        final = after_each_pass(graph, frame_of(graph))
        assert not [operator for operator in final.operators if isinstance(operator, Move)]
        assert len([operator for operator in final.operators if isinstance(operator, Conv)]) == 2


def test_an_edge_that_stayed_float_is_explained() -> None:
    """NVIDIA/TensorRT #3861, #2592."""
    net = Net()
    a, b = net.features("a", 4), net.conv(net.frame, "b", 4)
    with pytest.raises(
        UnsupportedModel, match="sum_Add: the edge from b_Conv is float; put QuantizeLinear and Dequantize"
    ):
        imported(net.done(net.node("Add", [a, b], "sum")), *SHAPE)
