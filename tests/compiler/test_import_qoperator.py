"""QOperator models: the golden interpreter equals ONNX Runtime's integer operators, bit for bit."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper

from benchmarks.gridding.integer_net import IntegerNet
from benchmarks.gridding.runtime import runtime_outputs
from compiler import golden
from compiler.errors import UnsupportedModel
from tests.compiler.oracle import after_each_pass, against_runtime, frame_of, imported

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="ONNX Runtime rounds QLinearAdd differently on other processors (docs/reference/arithmetic.md)",
)
SHAPE = (9, 13)


def exact(model: bytes, seed: int = 3) -> None:
    graph = imported(model, *SHAPE)
    frame = frame_of(graph, seed)
    assert against_runtime(model, graph, frame).largest == 0
    after_each_pass(graph, frame)


TYPES = [(False, False), (False, True), (True, False)]
"""Unsigned weights, signed activations; ONNX Runtime, the oracle, does not have both."""


@pytest.mark.parametrize("pads", [(1, 2, 0, 3), (0, 0, 0, 0)])
@pytest.mark.parametrize(("unsigned", "signed"), TYPES)
@pytest.mark.parametrize(("per_channel", "bias"), list(itertools.product([False, True], repeat=2)))
def test_convolutions_of_every_type_are_exact(
    per_channel: bool, bias: bool, unsigned: bool, signed: bool, pads: tuple[int, int, int, int]
) -> None:
    net = IntegerNet(4, signed=signed)
    net.conv("x", "f", 5, per_channel=per_channel, bias=bias, unsigned_weights=unsigned, pads=pads)
    exact(net.model("f"))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_pads_are_exact(auto_pad: str) -> None:
    net = IntegerNet(5)
    net.conv("x", "f", 5, auto_pad=auto_pad, strides=(2, 3), kernel=(3, 5))
    exact(net.model("f"))


@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_strided_dilated_convolutions_are_exact(groups: int) -> None:
    net = IntegerNet(6)
    net.conv("x", "f", 8, groups=groups, strides=(2, 1), dilations=(1, 2), kernel=(3, 2), pads=(0, 2, 1, 0))
    exact(net.model("f", dequantized=False))


def test_weight_zero_points_that_differ_by_channel_are_computed_exactly() -> None:
    net = IntegerNet(7)
    zeros = [-40, 0, 17, 90, -3]
    model = net.conv("x", "f", 5, weight_zero=zeros)
    graph = imported(net.model(model), *SHAPE)
    frame = frame_of(graph)
    expected = np.stack(
        [
            runtime_outputs(_one_zero_point(zero), imported(_one_zero_point(zero), *SHAPE), frame)["y"][:, :, index]
            for index, zero in enumerate(zeros)
        ],
        axis=2,
    )
    np.testing.assert_array_equal(golden.run(graph, frame)["y"], expected)
    after_each_pass(graph, frame)


def _one_zero_point(zero: int) -> bytes:
    net = IntegerNet(7)
    return net.model(net.conv("x", "f", 5, weight_zero=[zero] * 5))


def binary(operator: str, scale: float, zero: int) -> Callable[[bool], bytes]:
    def make(signed: bool) -> bytes:
        net = IntegerNet(8, signed=signed)
        a, b = net.conv("x", "a", 4), net.conv("x", "b", 4, scale=0.021, zero=140)
        return net.model(net.two(operator, a, b, "f", scale, zero))

    return make


def unary(operator: str, scale: float, zero: int, **attributes: object) -> Callable[[bool], bytes]:
    def make(signed: bool) -> bytes:
        net = IntegerNet(9, signed=signed)
        return net.model(net.one(operator, net.conv("x", "a", 4), "f", scale, zero, **attributes))

    return make


def concatenated(signed: bool) -> bytes:
    net = IntegerNet(10, signed=signed)
    a, b, c = net.conv("x", "a", 4), net.conv("x", "b", 2, scale=0.011, zero=90), net.conv("x", "c", 4)
    joined = net.concat([a, b, c], "j", 0.03, 100)
    return net.model(net.conv(joined, "f", 3, inputs=10))


def pooled(signed: bool) -> bytes:
    net = IntegerNet(11, signed=signed)
    a = net.conv("x", "a", 4)
    net.facts["m"] = net.facts[a]
    net.node("MaxPool", [a], "m", kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 2])
    return net.model(net.conv("m", "f", 4))


def moved(signed: bool) -> bytes:
    net = IntegerNet(12, channels=4, signed=signed)
    a = net.conv("x", "a", 8)
    for name in ("r", "t", "p"):
        net.facts[name] = net.facts[a]
    net.node("Reshape", [a, net.constant("s1", np.array([0, 2, 2, 2, 9, 13]))], "r")
    net.node("Transpose", ["r"], "t", perm=[0, 1, 4, 2, 5, 3])
    net.node("Reshape", ["t", net.constant("s2", np.array([0, 2, 18, 26]))], "p")
    return net.model(net.conv("p", "f", 4, inputs=2))


def product(signed: bool) -> bytes:
    net = IntegerNet(13, signed=signed)
    mean = net.one("QLinearGlobalAveragePool", net.conv("x", "a", 6), "mean", 0.012, 90)
    net.facts["flat"] = net.facts[mean]
    net.node("Flatten", [mean], "flat")
    weights = net.random.integers(-127, 128, (6, 5)).astype(np.int8)
    operands = [*net.parameters("flat"), net.constant("w", weights)]
    operands += [net.constant("ws", np.float32(0.004)), net.constant("wz", np.int8(0)), *net.result("f", 0.02, 130)]
    net.node("QLinearMatMul", operands, "f")
    return net.model("f")


EXACT: dict[str, Callable[[bool], bytes]] = {
    "add": binary("QLinearAdd", 0.04, 120),
    "mul": binary("QLinearMul", 0.02, 120),
    "leaky relu": unary("QLinearLeakyRelu", 0.02, 60, alpha=0.2),
    "global average pool": unary("QLinearGlobalAveragePool", 0.011, 60),
    "average pool": unary("QLinearAveragePool", 0.03, 100, kernel_shape=[3, 3], pads=[1, 1, 0, 1]),
    "counted average pool": unary(
        "QLinearAveragePool", 0.03, 100, kernel_shape=[2, 3], pads=[1, 1, 0, 1], count_include_pad=1
    ),
    "concat": concatenated,
    "max pool": pooled,
    "shuffle": moved,
    "matrix product": product,
}


ROUNDS_WITH_THE_ZERO_POINT = ("add", "mul", "average pool", "counted average pool")


@pytest.mark.parametrize("name", EXACT)
def test_integer_operators_are_exact(name: str) -> None:
    exact(EXACT[name](False))


@pytest.mark.parametrize("name", [name for name in EXACT if name not in ROUNDS_WITH_THE_ZERO_POINT])
def test_integer_operators_on_int8_are_exact(name: str) -> None:
    exact(EXACT[name](True))


@pytest.mark.parametrize("name", ROUNDS_WITH_THE_ZERO_POINT)
def test_int8_sums_computed_as_uint8_differ_in_the_last_bit_of_a_tie_only(name: str) -> None:
    model = EXACT[name](True)
    graph = imported(model, *SHAPE)
    difference = against_runtime(model, graph, frame_of(graph))
    assert difference.largest <= 1
    assert difference.share <= 0.01


@pytest.mark.parametrize("signed", [False, True])
def test_a_sigmoid_is_within_one_step(signed: bool) -> None:
    model = unary("QLinearSigmoid", 1 / 256, 0)(signed)
    graph = imported(model, *SHAPE)
    difference = against_runtime(model, graph, frame_of(graph))
    assert difference.largest <= 1
    assert difference.share <= 0.01


@pytest.mark.parametrize("operator", ["ConvInteger", "MatMulInteger"])
def test_operators_without_a_result_scale_are_refused_with_a_remedy(operator: str) -> None:
    weights = helper.make_tensor("w", TensorProto.INT8, [4, 4, 1, 1], [1] * 16)
    node = helper.make_node(operator, ["x", "w"], ["y"], name="only")
    info = helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 4, 8, 8])
    out = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    model = helper.make_model(helper.make_graph([node], "g", [info], [out], [weights]))
    with pytest.raises(
        UnsupportedModel, match=rf"^only: operator {operator} has no scale for its result; export QLinear"
    ):
        imported(model.SerializeToString(), 8, 8)


def test_channels_last_is_refused() -> None:
    net = IntegerNet(1)
    net.one("QLinearGlobalAveragePool", "x", "f", 0.02, 3, channels_last=1)
    with pytest.raises(UnsupportedModel, match="f_QLinearGlobalAveragePool: channels_last; export in NCHW order"):
        imported(net.model("f"), *SHAPE)
