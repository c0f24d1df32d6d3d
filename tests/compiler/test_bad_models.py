"""Bad models: one error that names node, reason and remedy; never a traceback, never a hang."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from compiler.driver import compile_program
from compiler.errors import BadProfile, BadQuantization, BrokenModel, CompileError, DoesNotFit, UnsupportedModel
from tests.support.models import QdqBuilder, single_conv_qdq, vsr_qdq

GOOD = single_conv_qdq(inputs=3, outputs=4, relu=False)
SIZE = [(8, 12)]


def changed(change: Callable[[onnx.ModelProto], None], model: bytes = GOOD) -> bytes:
    proto = onnx.load_model_from_string(model)
    change(proto)
    return bytes(proto.SerializeToString())


def set_constant(name: str, value: object) -> bytes:
    def change(proto: onnx.ModelProto) -> None:
        tensor = next(t for t in proto.graph.initializer if t.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(value), name))

    return changed(change)


def set_attribute(operator: str, model: bytes = GOOD, **attributes: object) -> bytes:
    def change(proto: onnx.ModelProto) -> None:
        node = next(n for n in proto.graph.node if n.op_type == operator)
        kept = [a for a in node.attribute if a.name not in attributes]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())

    return changed(change, model)


def float_model() -> bytes:
    node = helper.make_node("Relu", ["x"], ["y"], name="only")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 12]) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]))
    return bytes(model.SerializeToString())


def mixed_model() -> bytes:
    b = QdqBuilder(0)
    b.conv(b.quantize("x", 1 / 255, 0, 3), "first", 4)
    b.scales["first"] = np.float32(0.1)
    b.conv("first", "second", 4)
    b.quantize("second", 0.02, 100, 4, output="y")
    return b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 4, "h", "w"]})


def unsupported_operator() -> bytes:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    b.quantize(b.node("Det", [value], "determinant"), 0.02, 0, 3, output="y")
    return b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 3, "h", "w"]})


def cyclic() -> bytes:
    def change(proto: onnx.ModelProto) -> None:
        conv = next(n for n in proto.graph.node if n.op_type == "Conv")
        conv.input[0] = "y"

    return changed(change)


def dangling() -> bytes:
    def change(proto: onnx.ModelProto) -> None:
        next(n for n in proto.graph.node if n.op_type == "Conv").input[0] = "nowhere"

    return changed(change)


def defined_twice() -> bytes:
    return changed(lambda proto: proto.graph.node.append(proto.graph.node[0]))


def hostile_extents() -> bytes:
    def change(proto: onnx.ModelProto) -> None:
        tensor = next(t for t in proto.graph.initializer if t.name == "conv_weight")
        del tensor.dims[:]
        tensor.dims.extend([10**9, 10**9])

    return changed(change)


def two_inputs() -> bytes:
    info = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])
    return changed(lambda proto: proto.graph.input.append(info))


BAD = {
    "empty": (b"", BrokenModel, r"^model: 0 bytes"),
    "not ONNX": (b"\xff\xfe garbage" * 20, BrokenModel, r"^model: not readable as ONNX"),
    "truncated": (GOOD[: len(GOOD) // 2], BrokenModel, r"^model: not readable as ONNX"),
    "cycle": (cyclic(), BrokenModel, r"the graph has a cycle through this node; export"),
    "dangling edge": (dangling(), BrokenModel, r"^conv_Conv: reads tensor nowhere, which nothing makes"),
    "tensor defined twice": (defined_twice(), BrokenModel, r"is defined twice"),
    "hostile extents": (hostile_extents(), BrokenModel, r"^conv_weight: initializer extents"),
    "two inputs": (two_inputs(), UnsupportedModel, r"^z: a second input, and no output z_next that follows it"),
    "float model": (float_model(), UnsupportedModel, r"^only: the edge from x is float; put QuantizeLinear"),
    "mixed model": (mixed_model(), UnsupportedModel, r"^second_Conv: the edge from first_Conv is float"),
    "unsupported operator": (
        unsupported_operator(),
        UnsupportedModel,
        r"^determinant_Det: operator Det is not supported; supported are Abs, Add",
    ),
    "automatic pads": (set_attribute("Conv", auto_pad="MIRROR"), UnsupportedModel, r"^conv_Conv: auto_pad MIRROR"),
    "negative pads": (set_attribute("Conv", pads=[-1, 0, 0, 0]), UnsupportedModel, r"^conv_Conv: negative pads"),
    "wrong groups": (set_attribute("Conv", group=2), UnsupportedModel, r"^conv_Conv: weights"),
    "shuffle of an unknown mode": (
        set_attribute("DepthToSpace", vsr_qdq(4, 4, 0), mode="ROW", blocksize=4),
        UnsupportedModel,
        r"^shuffled_DepthToSpace: mode ROW; use mode CRD or DCR",
    ),
    "cubic resize": (
        set_attribute("Resize", vsr_qdq(4, 4, 0), mode="cubic"),
        UnsupportedModel,
        r"^anchor_Resize: mode cubic; use mode nearest or linear",
    ),
    "cropping resize": (
        set_attribute(
            "Resize", vsr_qdq(4, 4, 0), nearest_mode="ceil", coordinate_transformation_mode="tf_crop_and_resize"
        ),
        UnsupportedModel,
        r"^anchor_Resize: coordinate_transformation_mode tf_crop_and_resize, nearest_mode ceil; use align_corners",
    ),
    "NaN scale": (set_constant("y_scale", np.float32("nan")), BadQuantization, r"y_q_QuantizeLinear: scale nan"),
    "zero scale": (set_constant("y_scale", np.float32(0)), BadQuantization, r"scale 0.0 is not a positive number"),
    "NaN weight scale": (
        set_constant("conv_weight_scale", np.full(4, np.nan, np.float32)),
        BadQuantization,
        r"^conv_weight_dq_DequantizeLinear: a weight scale",
    ),
    "too few weight scales": (
        set_constant("conv_weight_scale", np.full(3, 0.1, np.float32)),
        BadQuantization,
        r"3 scales and 4 zero points for 4 channels",
    ),
    "zero point out of range": (
        set_constant("y_zero_point", np.int32(300)),
        BadQuantization,
        r"zero point 300 is out of range",
    ),
    "16-bit activations": (
        set_constant("y_zero_point", np.uint16(3)),
        UnsupportedModel,
        r"activation type uint16; quantise activations to 8 bit",
    ),
    "foreign bias scale": (
        set_constant("conv_bias_scale", np.full(4, 0.5, np.float32)),
        BadQuantization,
        r"^conv_bias_dq_DequantizeLinear: bias scale is not input scale x weight scale",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_model_is_one_error_with_node_reason_and_remedy(name: str) -> None:
    model, kind, message = BAD[name]
    with pytest.raises(kind, match=message) as caught:
        compile_program(model, "npu-4t", SIZE)
    error = caught.value
    assert isinstance(error, CompileError)
    assert error.node
    assert error.reason
    assert error.remedy
    assert "\n" not in str(error)


def test_dynamic_extents_without_a_profile_are_refused() -> None:
    with pytest.raises(BadProfile, match=r"^x: height or width of .* is dynamic.*give a profile"):
        compile_program(GOOD, "npu-4t", [])


def test_fixed_extents_need_no_profile() -> None:
    def fix(proto: onnx.ModelProto) -> None:
        for axis, extent in ((2, 8), (3, 12)):
            proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = extent

    data, report = compile_program(changed(fix), "npu-4t", [])
    assert data
    assert report.profiles[0].name == "8x12"
    with pytest.raises(BadProfile, match="against the fixed input 8x12"):
        compile_program(changed(fix), "npu-4t", [(8, 16)])


@pytest.mark.parametrize("size", [(0, 4), (10**9, 10**9), (8, -1)])
def test_hostile_profiles_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(BadProfile, match="use extents of 1 to"):
        compile_program(GOOD, "npu-4t", [size])


def test_a_profile_that_does_not_divide_is_refused() -> None:
    with pytest.raises(BadProfile, match=r"s2d_SpaceToDepth: 33x48 is not divisible by blocksize 2"):
        compile_program(vsr_qdq(4, 4, 0), "npu-4t", [(33, 48)])


def test_a_tensor_larger_than_ddr_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="bytes of DDR, the target has"):
        compile_program(vsr_qdq(4, 4, 0), "npu-4t", [(16_000, 16_000)])


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(CompileError, match=r"npu-9t.*npu-2t, npu-4t"):
        compile_program(GOOD, "npu-9t", SIZE)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_model_with_flipped_bytes_compiles_or_is_one_error(data: st.DataObject) -> None:
    model = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        model[data.draw(st.integers(0, len(model) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CompileError):
        compile_program(bytes(model), "npu-4t", SIZE)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_one_error(model: bytes) -> None:
    with pytest.raises(CompileError):
        compile_program(model, "npu-4t", SIZE)
