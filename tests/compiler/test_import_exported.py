"""What torch's exporter and ONNX Runtime's static quantisation write, in both formats: import, passes, device."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler import golden
from compiler.driver import read_model
from compiler.errors import UnsupportedModel
from compiler.ir import Conv, Graph, Move
from compiler.program_builder import build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice
from tests.compiler.exported_nets import NETS, SIZE, quantized
from tests.compiler.oracle import after_each_pass, against_runtime, frame_of, imported

FORMS = [
    (form, kind, by_channel) for form in ("QDQ", "QOperator") for kind, by_channel in (("u8", True), ("s8", False))
]


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(("form", "activations", "per_channel"), FORMS)
def test_a_quantised_net_means_what_onnx_runtime_computes(
    name: str, form: str, activations: str, per_channel: bool
) -> None:
    model = quantized(name, form, activations, per_channel)
    graph = imported(model, *SIZE)
    frame = frame_of(graph)
    difference = against_runtime(model, graph, frame)
    assert difference.largest <= 1
    assert difference.share <= 0.01
    final = after_each_pass(graph, frame)
    assert all(len(np.unique(image)) > 3 for image in golden.run(final, frame).values())


@pytest.mark.parametrize("name", NETS)
def test_a_quantised_net_runs_on_the_device_byte_for_byte(name: str) -> None:
    profiles = read_model("model", quantized(name, "QDQ", "u8", True), [SIZE]).profiles
    spec = load_spec("npu-4t")
    device = NpuDevice(spec, jitter=0.0)
    loaded = device.load(Program.open(build_program(profiles, spec, bytes(16)).data), bind_all=True)
    graph = profiles[0].imported
    frame = frame_of(graph)
    outputs = device.infer(loaded, frame, profiles[0].name).outputs
    for output, image in golden.run(graph, frame).items():
        np.testing.assert_array_equal(outputs[output], image)


def test_pixel_unshuffle_and_pixel_shuffle_of_torch_move_no_byte() -> None:
    graph = imported(quantized("vsr", "QDQ", "u8", True), *SIZE)
    final = after_each_pass(graph, frame_of(graph))
    assert _moves(graph) == 3
    assert _moves(final) == 0
    assert not [op for op in final.operators if isinstance(op, Conv) and op.kernel == (1, 1)]


def _moves(graph: Graph) -> int:
    return sum(isinstance(operator, Move) for operator in graph.operators)


def test_a_float_reader_beside_the_moves_stays_an_error() -> None:
    proto = onnx.load_model_from_string(quantized("vsr", "QDQ", "u8", True))
    proto.graph.node.append(helper.make_node("Transpose", ["x"], ["moved"], name="beside", perm=[0, 1, 3, 2]))
    proto.graph.node.append(helper.make_node("Neg", ["moved"], ["negative"], name="float_reader"))
    proto.graph.output.append(helper.make_tensor_value_info("negative", onnx.TensorProto.FLOAT, None))
    with pytest.raises(UnsupportedModel, match="the edge from x is float; put QuantizeLinear"):
        imported(proto.SerializeToString(), *SIZE)
