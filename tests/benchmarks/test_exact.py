"""The fast sums of products of the bench are the golden interpreter's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.emulator.exact import convolve, fast_convolutions, golden_outputs
from benchmarks.reference_nets import NetShape, qdq_model, qoperator_model, quantized_net, smooth_frame
from compiler import golden
from compiler.ir import Conv
from tests.benchmarks.runtime import run_integers


def _conv(random: np.random.Generator, groups: int, stride: int, dilation: int, weight: int, inputs: int) -> Conv:
    outputs = 6
    return Conv(
        name="conv",
        source="x",
        result="y",
        weights=random.choice(np.array([-weight, 1, weight], np.int8), (outputs, inputs // groups, 3, 2)),
        weight_scale=np.full(outputs, 0.01, np.float32),
        weight_zero_point=random.integers(-3, 4, outputs).astype(np.int8),
        bias=random.integers(-(2**20), 2**20, outputs).astype(np.int32),
        strides=(stride, 1),
        pads=(1, 2, 0, 3),
        dilations=(1, dilation),
        groups=groups,
        scale=0.1,
        zero_point=3,
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
def test_accumulators_equal_the_literal_sums(groups: int, stride: int, dilation: int) -> None:
    random = np.random.default_rng(groups * 100 + stride * 10 + dilation)
    conv = _conv(random, groups, stride, dilation, 127, 8)
    image = random.integers(0, 256, (9, 11, 8), dtype=np.uint8)
    np.testing.assert_array_equal(convolve(image, conv, 130), golden.convolve(image, conv, 130))


def test_sums_beyond_float32_stay_exact() -> None:
    random = np.random.default_rng(4)
    conv = _conv(random, 1, 1, 1, 127, 640)
    conv = replace(conv, weights=np.abs(conv.weights))
    image = random.choice(np.array([0, 255], np.uint8), (4, 5, 640))
    exact = golden.convolve(image, conv, 0)
    assert np.abs(exact).max() > 2**25
    np.testing.assert_array_equal(convolve(image, conv, 0), exact)


def test_the_literal_interpreter_is_back_afterwards() -> None:
    literal = golden.convolve
    with fast_convolutions():
        assert golden.convolve is convolve
    assert golden.convolve is literal


def test_golden_and_onnxruntime_agree_on_a_small_net() -> None:
    net = quantized_net(NetShape("small", 16, 2, 2, 24, 32))
    frame = smooth_frame(24, 32, 2)
    (image,) = golden_outputs(qdq_model(net), frame).values()
    np.testing.assert_array_equal(image, run_integers(qoperator_model(net), frame))
