"""The golden interpreter equals ONNX Runtime's integer operators, bit for bit."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper, numpy_helper

from compiler import golden
from compiler.driver import read_model
from compiler.ir import Clamp, Conv, Graph, Value
from tests.support.integer_onnx import IntegerModel, session
from tests.support.models import quality_qdq, single_conv_qdq, vsr_qdq

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="ONNX Runtime rounds QLinearAdd differently on other processors (docs/reference/arithmetic.md)",
)

MODELS = {
    "vsr": (vsr_qdq(), (32, 48)),
    "vsr kernel 5": (vsr_qdq(kernel=[3, 5], mid=24, seed=1), (26, 38)),
    "vsr space-to-depth 4": (vsr_qdq(channels=8, space_to_depth=4, seed=2), (32, 40)),
    "quality, odd sizes": (quality_qdq(seed=3), (45, 67)),
    "single": (single_conv_qdq(5, 7, 5, seed=4, stride=2, relu=False), (21, 34)),
}


@pytest.mark.parametrize("name", MODELS)
def test_whole_nets_equal_the_integer_operators(name: str) -> None:
    model, size = MODELS[name]
    profile = read_model("model", model, [size]).profiles[0]
    frame = random_frame(profile.imported, seed=7)
    expected = IntegerModel(profile.imported).run(frame)
    for graph in (profile.imported, profile.fused.graph):
        result = golden.run(graph, frame)
        assert set(result) == set(expected)
        for output, image in expected.items():
            assert len(np.unique(image)) > 20, "the test net must not be saturated"
            np.testing.assert_array_equal(result[output], image)


GRID = list(itertools.product([False, True], [False, True], [(1, 1), (2, 1)], [(0, 1, 2, 3), (1, 1, 1, 1)], [1, 3]))


@pytest.mark.parametrize(("per_channel", "bias", "strides", "pads", "kernel"), GRID)
def test_convolutions_equal_the_integer_operator(
    per_channel: bool, bias: bool, strides: tuple[int, int], pads: tuple[int, int, int, int], kernel: int
) -> None:
    random = np.random.default_rng([per_channel, bias, *strides, *pads, kernel])
    graph = conv_graph(random, per_channel=per_channel, bias=bias, strides=strides, pads=pads, kernel=kernel)
    frame = random_frame(graph, seed=1)
    expected = IntegerModel(graph).run(frame)["y"]
    np.testing.assert_array_equal(golden.run(graph, frame)["y"], expected)


@pytest.mark.parametrize("groups", [2, 8])
def test_grouped_and_depthwise_convolutions_equal_the_integer_operator(groups: int) -> None:
    graph = conv_graph(np.random.default_rng(groups), groups=groups, dilations=(2, 1))
    frame = random_frame(graph, seed=2)
    np.testing.assert_array_equal(golden.run(graph, frame)["y"], IntegerModel(graph).run(frame)["y"])


@pytest.mark.parametrize("seed", range(24))
def test_additions_equal_the_integer_operator_over_all_pairs(seed: int) -> None:
    random = np.random.default_rng(seed)
    scales = random.integers(1, 30, 3) / 255 if seed % 2 else random.uniform(0.002, 0.2, 3)
    qa, qb, qc = (Value("v", 256, 256, 1, float(np.float32(s)), int(random.integers(256))) for s in scales)
    a, b = (grid.astype(np.uint8) for grid in np.meshgrid(np.arange(256), np.arange(256), indexing="ij"))
    expected = onnxruntime_add(a, b, qa, qb, qc)
    result = golden.add(a, b, qa, qb, qc, Clamp())
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [1, 7, 31, 33, 100])
def test_additions_of_any_length_equal_the_integer_operator(size: int) -> None:
    random = np.random.default_rng(size)
    a, b = random.integers(0, 256, (2, 1, size), dtype=np.uint8)
    qa, qb, qc = (Value("v", 1, size, 1, s, z) for s, z in ((0.1, 3), (0.07, 250), (0.05, 128)))
    np.testing.assert_array_equal(golden.add(a, b, qa, qb, qc, Clamp()), onnxruntime_add(a, b, qa, qb, qc))


def onnxruntime_add(
    a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], qa: Value, qb: Value, qc: Value
) -> npt.NDArray[np.uint8]:
    constants = []
    for name, value in (("a", qa), ("b", qb), ("c", qc)):
        constants.append(numpy_helper.from_array(np.asarray(value.scale, np.float32), f"{name}s"))
        constants.append(numpy_helper.from_array(np.asarray(value.zero_point, np.uint8), f"{name}z"))
    operands = ["a", "as", "az", "b", "bs", "bz", "cs", "cz"]
    node = helper.make_node("QLinearAdd", operands, ["y"], domain="com.microsoft")
    shape = (*a.shape, 1)
    run = session([node], {"a": shape, "b": shape}, ["y"], constants)
    return np.asarray(run.run(None, {"a": a[None, None], "b": b[None, None]})[0][0, 0])


def conv_graph(
    random: np.random.Generator,
    *,
    per_channel: bool = True,
    bias: bool = True,
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (1, 1, 1, 1),
    dilations: tuple[int, int] = (1, 1),
    kernel: int = 3,
    groups: int = 1,
) -> Graph:
    height, width, channels, outputs = 13, 17, 8, 16
    source = Value("x", height, width, channels, 0.02, int(random.integers(256)))
    weight_scale = random.uniform(0.001, 0.01, outputs if per_channel else 1).astype(np.float32)
    span = [dilations[axis] * (kernel - 1) + 1 for axis in (0, 1)]
    rows = (height + pads[0] + pads[1] - span[0]) // strides[0] + 1
    cols = (width + pads[2] + pads[3] - span[1]) // strides[1] + 1
    result = Value("r", rows, cols, outputs, 0.03, int(random.integers(256)))
    conv = Conv(
        name="conv",
        source="x",
        result="r",
        weights=random.integers(-127, 128, (outputs, channels // groups, kernel, kernel), dtype=np.int8),
        weight_scale=np.broadcast_to(weight_scale, outputs).copy(),
        weight_zero_point=np.zeros(outputs, np.int8),
        bias=random.integers(-3000, 3000, outputs).astype(np.int32) * bias,
        strides=strides,
        pads=pads,
        dilations=dilations,
        groups=groups,
        scale=result.scale,
        zero_point=result.zero_point,
    )
    return Graph("g", "x", (("y", "r"),), {"x": source, "r": result}, (conv,))


def random_frame(graph: Graph, seed: int) -> npt.NDArray[np.uint8]:
    shape = graph.values[graph.input].shape
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
