"""The order of operands is the model's: device bytes equal ONNX Runtime's integer bytes, ties included, for random
scales and zero points, fused and not, stretched and constant operands, whichever comes first.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gridding.case import Case, on_device
from benchmarks.gridding.integer_net import IntegerNet
from benchmarks.gridding.runtime import runtime_outputs
from compiler import golden
from compiler.driver import read_model
from compiler.importer.operands import turns
from compiler.ir import Add, Conv, Graph, flat
from compiler.ir.core import Residual
from compiler.options import CompileOptions
from compiler.program_builder import build_program
from contracts.npu import Program, load_spec
from contracts.npu.program import FLAG_RESIDUAL_FIRST
from flows.inference import cpu_session
from tests.compiler.oracle import frame_of
from tests.compiler.qdq_nets import Net

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="ONNX Runtime rounds QLinearAdd differently on other processors (docs/reference/arithmetic.md)",
)
SIZE = (24, 36)
SPEC = load_spec("npu-4t")
Facts = tuple[float, int]
Operands = Callable[[IntegerNet, Facts, Facts], tuple[str, str]]


def trunk_and_convolution(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
    net.facts["x"] = (np.float32(one[0]), net.zero(one[1]))
    return "x", net.conv("x", "a", 4, scale=two[0], zero=two[1])


def two_convolutions(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
    a = net.conv("x", "a", 4, scale=one[0], zero=one[1])
    return a, net.conv("x", "b", 4, scale=two[0], zero=two[1])


def residual_block(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
    trunk = net.conv("x", "t", 4, scale=one[0], zero=one[1])
    return trunk, net.conv(net.conv(trunk, "m", 6), "b", 4, scale=two[0], zero=two[1], inputs=6)


def two_tables(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
    a = net.one("QLinearLeakyRelu", "x", "a", *one, alpha=0.3)
    return a, net.one("QLinearSigmoid", "x", "b", *two)


def two_numbers(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
    """Maps of one pixel and one channel."""
    a = net.one("QLinearGlobalAveragePool", net.conv("x", "c", 1), "a", *one)
    return a, net.one("QLinearGlobalAveragePool", net.conv("x", "d", 1), "b", *two)


def enlarged_and_spread(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
    """The anchor of super-resolution, and a PixelShuffle spelled out."""
    trunk = net.conv("x", "k", 4, scale=one[0], zero=one[1])
    tail = net.conv(trunk, "tail", 16, scale=two[0], zero=two[1])
    for name, source in (("r", tail), ("t", tail), ("p", tail), ("n", trunk)):
        net.facts[name] = net.facts[source]
    height, width = SIZE
    net.node("Reshape", [tail, net.constant("s1", np.array([0, 4, 2, 2, height, width]))], "r")
    net.node("Transpose", ["r"], "t", perm=[0, 1, 4, 2, 5, 3])
    net.node("Reshape", ["t", net.constant("s2", np.array([0, 4, 2 * height, 2 * width]))], "p")
    sizes = net.constant("sizes", np.array([1, 4, 2 * height, 2 * width]))
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return net.node("Resize", [trunk, "", "", sizes], "n", mode="nearest", **modes), "p"


def stretched(extents: tuple[int, int], channels: int = 4) -> Operands:
    """A map beside one that is stretched: a maximum over `extents`, or of fewer channels."""

    def make(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
        small = net.conv("x", "s", channels, scale=two[0], zero=two[1])
        if extents != (1, 1):
            net.facts["m"] = net.facts[small]
            small = net.node("MaxPool", [small], "m", kernel_shape=list(extents))
        return net.conv("x", "a", 4, scale=one[0], zero=one[1]), small

    return make


def constant(shape: tuple[int, ...]) -> Operands:
    def make(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
        net.facts["x"] = (np.float32(one[0]), net.zero(one[1]))
        net.facts["k"] = (np.float32(two[0]), net.zero(two[1]))
        return "x", net.constant("k", net.random.integers(0, 256, shape).astype(np.uint8))

    return make


def constant_for_a_vector(shape: tuple[int, ...]) -> Operands:
    """A constant beside [1, C], whose innermost axis is the channel."""

    def make(net: IntegerNet, one: Facts, two: Facts) -> tuple[str, str]:
        mean = net.one("QLinearGlobalAveragePool", "x", "mean", *one)
        net.facts["flat"], net.facts["k"] = net.facts[mean], (np.float32(two[0]), net.zero(two[1]))
        return net.node("Flatten", [mean], "flat"), net.constant("k", net.random.integers(0, 256, shape, np.uint8))

    return make


KINDS: Mapping[str, Operands] = {
    "trunk and convolution": trunk_and_convolution,
    "two convolutions": two_convolutions,
    "residual block": residual_block,
    "two tables": two_tables,
    "two numbers": two_numbers,
    "enlarged and spread": enlarged_and_spread,
    "by channel": stretched(SIZE),
    "by row": stretched((1, SIZE[1])),
    "by column": stretched((SIZE[0], 1)),
    "of one channel": stretched((1, 1), channels=1),
    "by row of one channel": stretched((1, SIZE[1]), channels=1),
    "constant": constant(()),
    "constant of one": constant((1,)),
    "constant of one channel": constant((1, 1, 1, 1)),
    "constant by channel": constant((4, 1, 1)),
    "constant by channel, with the batch": constant((1, 4, 1, 1)),
    "constant for a vector": constant_for_a_vector((4,)),
    "constant for a vector, with the batch": constant_for_a_vector((1, 4)),
    "one number for a vector": constant_for_a_vector((1, 1)),
}


def model(kind: str, operator: str, seed: int, *, turned: bool) -> bytes:
    """Scales in a ratio of small whole numbers, so that many sums lie between two bytes."""
    random = np.random.default_rng([seed, 77])
    one, two, result = (
        (float(np.float32(step / 255)), int(zero))
        for step, zero in zip(random.integers(1, 24, 3), random.integers(40, 216, 3), strict=True)
    )
    if operator == "QLinearMul":
        result = (float(np.float32(one[0] * two[0] * 60)), result[1])
    net = IntegerNet(seed)
    operands = KINDS[kind](net, one, two)
    return net.model(net.two(operator, *(operands[::-1] if turned else operands), "f", *result))


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned"])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_device_gives_the_bytes_of_onnx_runtime(kind: str, operator: str, turned: bool) -> None:
    for seed in range(6):
        data = model(kind, operator, seed, turned=turned)
        graph = read_model("model", data, [SIZE]).profiles[0].imported
        frame = frame_of(graph, seed)
        expected = runtime_outputs(data, graph, frame)
        device = on_device(Case(kind, data, SIZE), frame)
        for name, image in expected.items():
            np.testing.assert_array_equal(device[name], image, err_msg=f"seed {seed}")


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned"])
def test_a_qdq_model_gives_the_bytes_of_onnx_runtime_with_its_optimisations(turned: bool) -> None:
    """There the QDQ form becomes integer operators, as on the CPU of a device."""
    for seed in range(6):
        data = quantized_sum(seed, turned=turned)
        graph = read_model("model", data, [SIZE]).profiles[0].imported
        frame, output = frame_of(graph, seed), graph.values[dict(graph.outputs)["y"]]
        session = cpu_session(data)
        source = graph.values[graph.input]
        real = (frame.astype(np.float32) - source.zero_point) * np.float32(source.scale)
        (result,) = session.run(None, {"x": real.transpose(2, 0, 1)[None]})
        codes = np.rint(np.asarray(result)[0].transpose(1, 2, 0) / np.float32(output.scale)) + output.zero_point
        np.testing.assert_array_equal(on_device(Case("qdq", data, SIZE), frame)["y"], codes, err_msg=f"seed {seed}")


def quantized_sum(seed: int, *, turned: bool) -> bytes:
    random, net = np.random.default_rng([seed, 78]), Net(seed)
    steps, zeros = random.integers(1, 24, 2), random.integers(40, 216, 2)
    operands = [net.frame, net.features("a", 4, steps[0] / 255, int(zeros[0]))]
    return net.done(net.node("Add", operands[::-1] if turned else operands, "f"), steps[1] / 255, int(zeros[1]))


def test_the_order_shows_in_the_bytes() -> None:
    """The power of the tests above: sums of the other order differ somewhere."""
    differ = 0
    for seed in range(6):
        graph = read_model("model", model("two tables", "QLinearAdd", seed, turned=False), [SIZE]).profiles[0].imported
        exchanged = [replace(op, a=op.b, b=op.a) if isinstance(op, Add) else op for op in graph.operators]
        frame = frame_of(graph, seed)
        one, other = golden.run(graph, frame), golden.run(graph.with_operators(exchanged), frame)
        differ += sum(int((one[name] != other[name]).sum()) for name in one)
    assert differ > 3


@pytest.mark.parametrize("kind", ["trunk and convolution", "two convolutions", "residual block", "enlarged and spread"])
@pytest.mark.parametrize("turned", [False, True])
def test_both_orders_fuse_and_the_convolution_keeps_its_place(kind: str, turned: bool) -> None:
    graph = read_model("model", model(kind, "QLinearAdd", 1, turned=turned), [SIZE]).profiles[0].fused.graph
    residual = only_residual(graph)
    assert residual.first is not turned


def only_residual(graph: Graph) -> Residual:
    assert not [step for step in flat(graph.operators) if isinstance(step, Add)]
    (residual,) = [step.residual for step in flat(graph.operators) if isinstance(step, Conv) and step.residual]
    return residual


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("fuse", [False, True])
def test_a_subtraction_is_never_turned(fuse: bool, turned: bool) -> None:
    for seed in range(4):
        profiles = read_model("model", difference(seed, turned=turned), [SIZE], CompileOptions(fuse=fuse)).profiles
        graph = profiles[0].imported
        if fuse:
            assert only_residual(profiles[0].fused.graph).subtract
        frame = frame_of(graph, seed)
        device = on_device(Case("sub", difference(seed, turned=turned), SIZE), frame)
        floats = runtime_outputs(difference(seed, turned=turned), graph, frame)
        for name, image in golden.run(graph, frame).items():
            np.testing.assert_array_equal(device[name], image)
            assert np.abs(image.astype(int) - floats[name]).max() <= 1


def difference(seed: int, *, turned: bool) -> bytes:
    net = Net(seed)
    operands = [net.frame, net.features("a", 4)]
    return net.done(net.node("Sub", operands[::-1] if turned else operands, "f"), 0.05, 128)


def test_where_onnx_runtime_exchanges_operands_itself() -> None:
    """Each pair was tried; the second column says where it took the second operand first."""
    shapes = {
        ((1, 8, 32, 33), (1, 8, 32, 33)): False,
        ((1, 8, 32, 33), (1, 8, 1, 1)): False,
        ((1, 8, 1, 1), (1, 8, 32, 33)): True,
        ((1, 8, 1, 33), (1, 8, 32, 33)): False,
        ((1, 8, 32, 1), (1, 8, 1, 33)): True,
        ((1, 8, 32, 1), (1, 8, 1, 1)): False,
        ((1, 8, 1, 1), (1, 8, 32, 1)): True,
        ((1, 8, 32, 33), ()): False,
        ((), (1, 8, 32, 33)): True,
        ((1, 8, 32, 1), (1,)): True,
        ((1, 8, 32, 1), (1, 1)): False,
        ((1, 8, 1, 1), (1, 1)): True,
        ((8, 1), (8,)): True,
        ((8,), (8, 1)): False,
        ((1, 1, 1, 1), (1, 1, 1, 1)): True,
    }
    assert {pair: turns(*pair) for pair in shapes} == shapes


def test_an_old_driver_gets_the_same_bytes_from_an_addition_of_its_own() -> None:
    for seed in range(4):
        data = model("residual block", "QLinearAdd", seed, turned=False)
        old = CompileOptions(driver="1.2.0")
        profiles = read_model("model", data, [SIZE], old).profiles
        assert [edge.reason for edge in profiles[0].fused.unfused] == [
            "the driver that is asked for adds the result of a convolution first"
        ]
        stream = Program.open(build_program(profiles, SPEC, bytes(16), old).data).commands(0)
        assert not (stream["flags"] & FLAG_RESIDUAL_FIRST).any()
        frame = frame_of(profiles[0].imported, seed)
        expected = runtime_outputs(data, profiles[0].imported, frame)
        for name, image in golden.run(profiles[0].fused.graph, frame).items():
            np.testing.assert_array_equal(image, expected[name])
