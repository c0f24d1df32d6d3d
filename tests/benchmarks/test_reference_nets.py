"""The reference nets are what the reference says, and both of their forms hold the same integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benchmarks.reference_nets import NETS, NetShape, net_named, qdq_model, qoperator_model, quantized_net, smooth_frame
from tests.benchmarks.runtime import run_floats, run_integers, session

SMALL = NetShape("small", 16, 3, 2, 48, 64)
GIGA_MACS = {"c64x16": 69.94, "c88x8": 66.97, "c64x8": 35.96, "c32x8": 9.49, "c64x8-s2d4": 10.48}


@pytest.mark.parametrize("name", GIGA_MACS)
def test_a_net_costs_what_the_reference_says(name: str) -> None:
    assert round(net_named(name).macs / 1e9, 2) == GIGA_MACS[name]


def test_all_five_nets_are_there() -> None:
    assert {net.name for net in NETS} == set(GIGA_MACS)


def test_an_unknown_net_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"c64x16, c88x8"):
        net_named("c1x1")


def test_the_operators_of_the_articles_net_are_54_with_batch_normalisation() -> None:
    net = net_named("c88x8")
    assert (sum(net.operators.values()), net.training_operators) == (37, 54)
    assert net.counting().endswith("54")


def test_the_exported_graph_has_the_operators_that_are_counted() -> None:
    model = onnx.load_model_from_string(qdq_model(quantized_net(SMALL)))
    kinds = [node.op_type for node in model.graph.node]
    assert {kind: kinds.count(kind) for kind in SMALL.operators} == SMALL.operators


def test_both_forms_pass_the_checker_and_are_the_same_bytes_each_time() -> None:
    net = quantized_net(SMALL)
    quantized_net.cache_clear()
    again = quantized_net(SMALL)
    for first, second in ((qdq_model(net), qdq_model(again)), (qoperator_model(net), qoperator_model(again))):
        assert first == second
    for anchor in (False, True):
        onnx.checker.check_model(onnx.load_model_from_string(qdq_model(net, anchor=anchor)))


@pytest.mark.parametrize("block", [2, 4])
def test_both_forms_give_the_same_codes(block: int) -> None:
    net = quantized_net(NetShape("small", 16, 3, block, 48, 64))
    frame = smooth_frame(48, 64, 3)
    codes = run_integers(qoperator_model(net), frame)
    floats = run_floats(qdq_model(net), frame)
    wanted = np.rint(floats / np.float32(net.tail.result.scale)) + net.tail.result.zero_point
    assert codes.shape == (96, 128, 3)
    # The float path rounds sums of products apart from the integers; a tie may fall to the other side.
    assert np.abs(wanted - codes).max() <= 1
    assert np.count_nonzero(wanted != codes) <= codes.size // 1000


def test_the_anchored_net_adds_the_enlarged_frame() -> None:
    net = quantized_net(SMALL)
    frame = smooth_frame(48, 64, 3)
    change = run_floats(qdq_model(net), frame)
    enlarged = frame.repeat(2, axis=0).repeat(2, axis=1) / np.float32(255)
    wanted = np.clip(np.rint((change + enlarged) * 255), 0, 255)
    codes = np.rint(run_floats(qdq_model(net, anchor=True), frame) * 255)
    assert np.abs(codes - wanted).max() <= 1


@pytest.mark.parametrize("shape", [SMALL, net_named("c64x8-s2d4").resized(64, 96)], ids=["small", "c64x8-s2d4"])
def test_activations_are_spread_and_hardly_saturate(shape: NetShape) -> None:
    model = onnx.load_model_from_string(qoperator_model(quantized_net(shape), shape.height, shape.width))
    names = [node.output[0] for node in model.graph.node if node.op_type in ("QLinearConv", "QLinearAdd")]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None) for name in names)
    frame = smooth_frame(shape.height, shape.width, 9)
    for name, image in zip(names, session(model.SerializeToString()).run(names, {"x": frame[None]}), strict=True):
        assert image.std() > 12, name
        assert (image == 255).mean() < 0.02, name
        assert ((image > 0) & (image < 255)).mean() > 0.3, name


def test_frames_are_the_same_each_time_and_differ_by_seed() -> None:
    assert np.array_equal(smooth_frame(40, 60, 1), smooth_frame(40, 60, 1))
    assert not np.array_equal(smooth_frame(40, 60, 1), smooth_frame(40, 60, 2))
