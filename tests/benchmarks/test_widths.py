"""Widths are cut from the same integers, and every one of them computes what ONNX Runtime does."""

from __future__ import annotations

import numpy as np

from benchmarks.emulator import widths
from benchmarks.reference_nets import NetShape, narrowed, qdq_model, qoperator_model, quantized_net, smooth_frame
from tests.benchmarks.runtime import run_floats, run_integers


def test_a_narrower_net_has_the_first_channels_of_the_wider_one() -> None:
    whole = quantized_net(NetShape("small", 16, 2, 2, 24, 32))
    half = narrowed(whole, 8)
    assert half.head.weights.shape == (8, 12, 3, 3)
    assert half.tail.weights.shape == (48, 8, 3, 3)
    np.testing.assert_array_equal(half.blocks[1].second.weights, whole.blocks[1].second.weights[:8, :8])


def test_both_forms_of_a_narrower_net_agree() -> None:
    net = narrowed(quantized_net(NetShape("small", 16, 2, 2, 24, 32)), 8)
    frame = smooth_frame(24, 32, 6)
    wanted = np.rint(run_floats(qdq_model(net), frame) / np.float32(net.tail.result.scale)) + net.tail.result.zero_point
    assert np.abs(wanted - run_integers(qoperator_model(net, 24, 32), frame)).max() <= 1


def test_widths_in_one_program_share_constants_and_miss_no_pixel() -> None:
    program = widths.program_with_widths()
    assert [profile.name for profile in program.profiles] == ["36x64", "36x64@0.75", "36x64@0.5"]
    assert len(program.constants) < 0.7 * widths.separate_constants()
    assert widths.differences(program) == 0
