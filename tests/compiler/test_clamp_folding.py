"""Clamp folding: IR in, IR out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.errors import InternalError
from compiler.ir import Graph
from compiler.passes.base import apply
from compiler.passes.clamp_folding import ClampFolding
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.support.models import QdqBuilder


def relu_and_clip() -> Graph:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    b.conv(value, "first", 4)
    value = b.quantize(b.node("Relu", ["first"], "relu"), 0.02, 30, 4)
    b.conv(value, "second", 4)
    low, high = b.constant("low", _scalar(-0.5)), b.constant("high", _scalar(1.5))
    b.quantize(b.node("Clip", ["second", low, high], "clip"), 0.01, 90, 4, output="y")
    return imported(b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 4, "h", "w"]}))


def _scalar(value: float) -> NDArray[np.float32]:
    return np.asarray(value, np.float32)


def test_relu_and_clip_become_clamps_of_their_convolutions() -> None:
    graph = relu_and_clip()
    assert_text("clamp_folding", transcript(graph, applied(ClampFolding(), graph)))


def test_a_relu_beside_another_reader_stays_and_says_why() -> None:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    b.conv(value, "conv", 4)
    b.quantize("conv", 0.02, 100, 4, output="raw")
    b.quantize(b.node("Relu", ["raw"], "relu"), 0.02, 100, 4, output="y")
    graph = imported(b.model({"x": [1, 3, "h", "w"]}, {"raw": [1, 4, "h", "w"], "y": [1, 4, "h", "w"]}))
    result = applied(ClampFolding(), graph)
    assert [edge.reason for edge in result.unfused] == ["raw_q has another reader"]


def test_a_clip_that_changes_the_scale_is_an_internal_error() -> None:
    graph = relu_and_clip()
    name = "relu_dq_q.raw"
    values = {**graph.values, name: replace(graph.values[name], scale=0.5)}
    with pytest.raises(InternalError, match=r"precondition.*changes the quantisation"):
        apply(ClampFolding(), replace(graph, values=values))
