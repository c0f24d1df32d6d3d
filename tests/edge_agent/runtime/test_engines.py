"""Engines agree with plain arithmetic, and the start-up test sees a CPU that saturates."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edge_agent.runtime.npu.engines import ort_engine, select
from edge_agent.runtime.npu.engines.base import Bytes, ConvolutionKernel, Step
from edge_agent.runtime.npu.engines.numpy_engine import NumpyEngine, PairTable
from edge_agent.runtime.npu.engines.onnx_bytes import one_node_model
from edge_agent.runtime.npu.engines.ort_engine import OrtConvolution, OrtEngine
from edge_agent.runtime.npu.requantize import ConvolutionTensors, PairParameters, addition_table, multiplication_table
from edge_agent.runtime.npu.windows import Window
from tests.edge_agent.runtime import reference


class Saturating:
    """A kernel as an AVX2 CPU without VNNI computes it: sums of two products cut to 16 bits."""

    def __init__(self, tensors: ConvolutionTensors, window: Window, *zero_points: int) -> None:
        self._parts = (tensors, window, zero_points)

    def bind(self, source: Bytes, target: Bytes) -> Step:
        tensors, window, (input_zp, output_zp) = self._parts
        pairs = source.reshape(*source.shape[:2], -1, 2).astype(np.int64)
        cut = np.clip(pairs.sum(axis=-1) * 127, -32768, 32767) // 127
        smaller = np.stack((cut // 2, cut - cut // 2), axis=-1).reshape(source.shape).clip(0, 255)
        exact = NumpyEngine().convolution(tensors, window, input_zp, output_zp)
        return exact.bind(smaller.astype(np.uint8), target)


class SaturatingEngine:
    name = "saturating"

    def convolution(
        self, tensors: ConvolutionTensors, window: Window, input_zero_point: int, output_zero_point: int
    ) -> ConvolutionKernel:
        return Saturating(tensors, window, input_zero_point, output_zero_point)

    def addition(self, parameters: PairParameters) -> PairTable:
        return PairTable(addition_table(parameters))

    def multiplication(self, parameters: PairParameters) -> PairTable:
        return PairTable(multiplication_table(parameters))


def page_names(parameters: PairParameters) -> dict[str, float]:
    """Return the parameters under the names of the arithmetic page."""
    return {name.replace("zero_point", "zp"): value for name, value in vars(parameters).items()}


def random_tensors(random: np.random.Generator, inputs: int, outputs: int, kernel: int) -> ConvolutionTensors:
    return ConvolutionTensors(
        random.integers(-128, 128, (outputs, inputs, kernel, kernel)).astype(np.int8),
        random.integers(-9000, 9000, outputs).astype(np.int32),
        random.uniform(1e-4, 3e-3, outputs).astype(np.float32),
        np.zeros(outputs, np.int8),
    )


def test_a_saturating_engine_fails_the_start_up_test() -> None:
    assert not select.passes_self_test(SaturatingEngine())


def test_a_saturating_cpu_gets_the_next_engine_that_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = NumpyEngine()
    monkeypatch.setattr(select, "_CANDIDATES", (SaturatingEngine(), exact))
    select.best_engine.cache_clear()
    try:
        assert select.best_engine() is exact
    finally:
        select.best_engine.cache_clear()


def test_an_engine_that_falls_back_by_itself_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrtConvolution, "bind", Saturating.bind)
    monkeypatch.setattr(ort_engine, "_agree", lambda *_: False)
    assert not select.passes_self_test(OrtEngine())


def test_a_kernel_that_differs_is_replaced_by_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: OrtConvolution, source: Bytes, target: Bytes) -> Step:
        return lambda: target.fill(3)

    monkeypatch.setattr(OrtConvolution, "bind", wrong)
    random = np.random.default_rng(0)
    tensors, window = random_tensors(random, 4, 6, 3), Window(3, 3)
    kernel = OrtEngine().convolution(tensors, window, 5, 9)
    assert not isinstance(kernel, OrtConvolution)


@pytest.mark.parametrize("seed", range(12))
def test_any_window_gives_the_same_in_every_engine(seed: int) -> None:
    random = np.random.default_rng(seed)
    kernel, inputs, outputs = int(random.choice([1, 3, 5])), *map(int, random.integers(1, 40, 2))
    groups = int(random.choice([1, 1, 2]))
    window = Window(
        kernel,
        kernel,
        *map(int, random.integers(1, 3, 4)),
        *map(int, random.integers(0, 3, 4)),
        groups=groups,
    )
    tensors = random_tensors(random, inputs, outputs * groups, kernel)
    source = random.integers(0, 256, (19, 23, inputs * groups), dtype=np.uint8)
    zero_points = tuple(map(int, random.integers(0, 256, 2)))
    results = []
    for name in ("ort", "ort-u8u8", "numpy"):
        target = np.zeros((*window.output_size(19, 23), outputs * groups), np.uint8)
        select.engine_named(name).convolution(tensors, window, *zero_points).bind(source, target)()
        results.append(target)
    assert np.array_equal(results[0], results[2])
    assert np.array_equal(results[1], results[2])


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("zero_points", [(-3, 0, 7, 100), (5, 5, 5, 5), (-128, -128, -128, -128)])
def test_weight_zero_points_are_exact(zero_points: tuple[int, ...], unsigned: bool) -> None:
    random = np.random.default_rng(1)
    plain = random_tensors(random, 5, 4, 3)
    shift = np.array(zero_points, np.int8)
    shifted = ConvolutionTensors(plain.weights // 2, plain.bias, plain.multiplier, shift)
    source = random.integers(0, 256, (6, 6, 5), dtype=np.uint8)
    target, expected = np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8)
    OrtEngine(unsigned_weights=unsigned).convolution(shifted, Window(3, 3), 3, 9).bind(source, target)()
    windows = np.lib.stride_tricks.sliding_window_view(source.astype(float) - 3, (3, 3), axis=(0, 1))
    weights = (plain.weights // 2).astype(float) - shift[:, None, None, None]
    total = np.einsum("ywcij,ocij->ywo", windows, weights) + plain.bias
    expected[...] = np.clip(np.rint(total.astype(np.float32) * plain.multiplier) + 9, 0, 255)
    assert np.array_equal(target, expected)


@pytest.mark.parametrize("seed", range(8))
def test_subtractions_and_products_agree_for_every_pair(seed: int) -> None:
    random = np.random.default_rng(seed)
    scales = [float(np.float32(value)) for value in random.uniform(0.002, 0.1, 3)]
    if seed < 2:
        scales = [0.5, 0.25, 1.0]
    zero_points = list(map(int, random.integers(0, 256, 3)))
    minus = PairParameters(scales[0], -scales[1], scales[2], *zero_points)
    times = PairParameters(scales[0], scales[1], 40 * scales[2], *zero_points)
    left, right = (codes.reshape(-1) for codes in np.indices((256, 256), np.uint8))
    for name in ("ort", "numpy"):
        engine = select.engine_named(name)
        for kernel, expected in (
            (engine.addition(minus), reference.add(left, right, page_names(minus))),
            (engine.multiplication(times), reference.multiply(left, right, page_names(times))),
        ):
            target = np.zeros(left.size, np.uint8)
            kernel.bind(left, right, target)()
            assert np.array_equal(target, expected)
            assert len(np.unique(target)) > 5


@pytest.mark.parametrize("seed", range(20))
def test_additions_agree_for_every_pair_and_every_length(seed: int) -> None:
    random = np.random.default_rng(seed)
    scales = [float(np.float32(value)) for value in random.uniform(0.002, 0.1, 3)]
    if seed < 4:
        scales = [0.5, 0.25, 1.0]  # many results lie exactly between two codes
    parameters = PairParameters(*scales, *map(int, random.integers(0, 256, 3)))
    table = addition_table(parameters)
    for size in (1, 7, 33, 65536):
        left, right = random.integers(0, 256, (2, size), dtype=np.uint8)
        for name in ("ort", "numpy"):
            target = np.zeros(size, np.uint8)
            select.engine_named(name).addition(parameters).bind(left, right, target)()
            assert np.array_equal(target, table[left, right])


@pytest.mark.parametrize("name", ["ort", "numpy"])
def test_a_sum_of_one_element_keeps_the_order_of_its_operands(name: str) -> None:
    """ONNX Runtime exchanges them there, which shows where the sum lies between two codes."""
    parameters = PairParameters(1 / 51, 13 / 255, 22 / 255, 131, 93, 187)
    exact, turned = addition_table(parameters), addition_table(parameters.exchanged()).T
    pairs = np.argwhere(exact != turned)
    assert len(pairs) > 5
    kernel = select.engine_named(name).addition(parameters)
    for left, right in pairs[:6].astype(np.uint8):
        target = np.zeros(1, np.uint8)
        kernel.bind(np.full(1, left), np.full(1, right), target)()
        assert target[0] == exact[left, right]


@pytest.mark.parametrize("scales", [(0.5, 0.25, 1.0), (0.02, 0.03, 0.04), (0.0213, 0.0077, 0.0319)])
def test_the_addition_is_the_page_s_formula_ties_included(scales: tuple[float, float, float]) -> None:
    left, right = np.indices((256, 256), np.uint8)
    names = ("a_scale", "b_scale", "c_scale")
    values = dict(zip(names, scales, strict=True)) | {"a_zp": 3, "b_zp": 200, "c_zp": 7}
    table = addition_table(PairParameters(*scales, 3, 200, 7))
    assert np.array_equal(table, reference.add(left, right, values))


def test_hand_written_models_are_valid_onnx() -> None:
    initialisers = {"as": np.array(1.0, np.float32), "az": np.array(0, np.uint8)}
    arguments = ["a", "as", "az", "b", "as", "az", "as", "az"]
    model = onnx.load_from_string(one_node_model("QLinearAdd", arguments, initialisers, {"k": (1, 300)}, 1))
    assert [node.op_type for node in model.graph.node] == ["QLinearAdd"]
    assert [value.name for value in model.graph.input] == ["a", "b"]
    assert list(model.graph.node[0].attribute[0].ints) == [1, 300]


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(select.EngineUnknown, match="numpy"):
        select.engine_named("abacus")


def test_engines_share_one_kernel_for_equal_content() -> None:
    engine, random = OrtEngine(), np.random.default_rng(2)
    tensors = random_tensors(random, 4, 4, 3)
    again = ConvolutionTensors(*(part.copy() for part in vars(tensors).values()))
    assert engine.convolution(tensors, Window(3, 3), 1, 2) is engine.convolution(again, Window(3, 3), 1, 2)
    assert engine.convolution(tensors, Window(3, 3), 1, 2) is not engine.convolution(tensors, Window(3, 3), 1, 3)
