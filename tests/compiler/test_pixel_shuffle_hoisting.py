"""PixelShuffle hoisting: IR in, IR out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.errors import InternalError
from compiler.passes.base import apply
from compiler.passes.pixel_shuffle_hoisting import PixelShuffleHoisting
from compiler.passes.residual_fusion import ResidualFusion
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.support.models import QdqBuilder, vsr_qdq


def test_shuffle_and_anchor_fold_into_their_neighbours() -> None:
    graph = imported(vsr_qdq(channels=4, mid=4, blocks=0))
    assert_text("pixel_shuffle_hoisting", transcript(graph, applied(PixelShuffleHoisting(), graph)))


def test_a_shuffle_of_the_frame_stays_and_says_why() -> None:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 4)
    b.node("DepthToSpace", [value], "d2s", blocksize=2, mode="CRD")
    b.quantize("d2s", 1 / 255, 0, 1, output="y")
    graph = imported(b.model({"x": [1, 4, "h", "w"]}, {"y": [1, 1, "h2", "w2"]}))
    result = applied(PixelShuffleHoisting(), graph)
    assert [edge.reason for edge in result.unfused] == ["no convolution makes its source"]


def test_an_anchor_that_a_convolution_reads_stays_and_says_why() -> None:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    scales = b.constant("scales", _scales())
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    b.node("Resize", [value, "", scales], "up", **attributes)
    b.conv(b.quantize("up", 1 / 255, 0, 3), "conv", 3)
    b.quantize("conv", 0.02, 100, 3, output="y")
    graph = imported(b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 3, "h2", "w2"]}))
    result = applied(PixelShuffleHoisting(), graph)
    assert [edge.reason for edge in result.unfused] == ["conv_Conv cannot read an enlarged image"]


def test_running_after_residual_fusion_is_an_internal_error() -> None:
    graph = applied(ResidualFusion(), imported(vsr_qdq(channels=4, mid=4, blocks=1))).graph
    with pytest.raises(InternalError, match="already has a residual"):
        apply(PixelShuffleHoisting(), graph)


def _scales() -> NDArray[np.float32]:
    return np.array([1, 1, 2, 2], np.float32)
