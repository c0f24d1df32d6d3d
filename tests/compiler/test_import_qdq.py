"""QDQ operators: import, every pass, and ONNX Runtime's own answer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compiler import golden
from compiler.errors import BadQuantization
from compiler.ir import Clip, Pad, Permute
from compiler.printer import print_graph
from tests.compiler import qdq_nets
from tests.compiler.oracle import after_each_pass, against_runtime, frame_of, imported
from tests.compiler.qdq_cases import EXACT, NEAR, NEWER_OPSET, TIES
from tests.compiler.qdq_nets import SHAPE
from tests.support.models import vsr_qdq

ALL = {**EXACT, **NEAR, **TIES, **NEWER_OPSET}


@pytest.mark.parametrize("name", EXACT)
def test_an_operator_means_exactly_what_its_nodes_say(name: str) -> None:
    model = EXACT[name]()
    graph = imported(model, *SHAPE)
    frame = frame_of(graph)
    assert against_runtime(model, graph, frame).largest == 0


@pytest.mark.parametrize("name", NEAR)
def test_an_operator_is_within_one_step_of_its_float_nodes(name: str) -> None:
    model = NEAR[name]()
    graph = imported(model, *SHAPE)
    difference = against_runtime(model, graph, frame_of(graph))
    assert difference.largest <= 1
    assert difference.share <= 0.02


@pytest.mark.parametrize("name", TIES)
def test_an_average_differs_on_ties_only(name: str) -> None:
    model = TIES[name]()
    graph = imported(model, *SHAPE)
    difference = against_runtime(model, graph, frame_of(graph))
    assert difference.largest <= 1
    assert difference.share <= 0.25


@pytest.mark.parametrize("name", ALL)
def test_no_pass_changes_a_byte_and_every_operator_ends_with_a_command(name: str) -> None:
    model = ALL[name]()
    graph = imported(model, *SHAPE)
    frame = frame_of(graph)
    final = after_each_pass(graph, frame)
    assert not [op for op in final.operators if isinstance(op, Clip | Pad | Permute)]
    outputs = golden.run(final, frame)
    assert all(len(np.unique(image)) > 1 for image in outputs.values()), "the case must not be saturated"


@pytest.mark.parametrize("opset", range(13, onnx.defs.onnx_opset_version() + 1))
def test_every_opset_since_quantisation_by_channel_reads_alike(opset: int) -> None:
    proto = onnx.load_model_from_string(vsr_qdq(4, 4, 1))
    expected = print_graph(imported(proto.SerializeToString(), *SHAPE))
    proto.opset_import[0].version = opset
    assert print_graph(imported(proto.SerializeToString(), *SHAPE)) == expected


def test_batch_normalisation_behind_a_convolution_is_part_of_it() -> None:
    graph = imported(qdq_nets.batch_normalization(behind_convolution=True), *SHAPE)
    assert [type(operator).__name__ for operator in graph.operators] == ["Conv", "Clip"]
    assert graph.operators[0].origin == ("a_Conv", "f_BatchNormalization")


def test_a_negative_gain_that_turns_the_weight_minus_128_over_is_refused() -> None:
    proto = onnx.load_model_from_string(qdq_nets.batch_normalization(behind_convolution=True))
    for tensor in proto.graph.initializer:
        if tensor.name == "a_weight":
            tensor.CopyFrom(numpy_helper.from_array(np.full((4, 4, 3, 3), -128, np.int8), tensor.name))
    with pytest.raises(BadQuantization, match="f_BatchNormalization: a negative gain turns the weight -128 over"):
        imported(proto.SerializeToString(), *SHAPE)
