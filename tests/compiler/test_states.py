"""Recurrent nets: features of the frame before are pooled, kept in 8 bits, joined without a copy and convolved."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from compiler import golden
from compiler.driver import read_model
from compiler.errors import BadProfile, CompileError, UnsupportedModel
from compiler.ir import Conv
from compiler.options import CompileOptions
from compiler.program_builder import build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice
from tests.support.models import recurrent_qdq

SPEC = load_spec("npu-4t")
SIZE = (32, 48)


def test_what_a_frame_leaves_is_what_the_next_one_reads() -> None:
    (profile,) = read_model("model", recurrent_qdq(), [SIZE]).profiles
    program = build_program([profile], SPEC, bytes(16))
    device = NpuDevice(SPEC, jitter=0.0)
    loaded = device.load(Program.open(program.data))
    random = np.random.default_rng(1)
    states: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.uint8]]] = {}
    first = None
    for _ in range(4):
        frame = random.integers(0, 256, (*SIZE, 3), dtype=np.uint8)
        first = frame if first is None else first
        wanted = golden.run(profile.imported, frame, states)
        outputs = device.infer(loaded, frame).outputs
        assert set(outputs) == {"y"}
        np.testing.assert_array_equal(outputs["y"], wanted["y"])
        states = {"history": wanted["history_next"]}
    device.reset()
    np.testing.assert_array_equal(device.infer(loaded, first).outputs["y"], golden.run(profile.imported, first)["y"])


def test_two_devices_in_one_memory_keep_their_own_states() -> None:
    (profile,) = read_model("model", recurrent_qdq(), [SIZE]).profiles
    data = build_program([profile], SPEC, bytes(16)).data
    devices = [NpuDevice(SPEC, jitter=0.0, shared=True) for _ in range(2)]
    loaded = [device.load(Program.open(data)) for device in devices]
    random = np.random.default_rng(2)
    frames = [random.integers(0, 256, (*SIZE, 3), dtype=np.uint8) for _ in range(2)]
    for device, program, frame in zip(devices, loaded, frames, strict=True):
        device.infer(program, frame)
    kept = golden.run(profile.imported, frames[0])["history_next"]
    wanted = golden.run(profile.imported, frames[1], {"history": kept})["y"]
    np.testing.assert_array_equal(devices[0].infer(loaded[0], frames[1]).outputs["y"], wanted)


def test_history_is_joined_without_a_copy_and_takes_a_sixteenth_of_the_memory() -> None:
    (profile,) = read_model("model", recurrent_qdq(), [SIZE]).profiles
    fused = profile.fused.graph
    history = fused.values[fused.states[0].value]
    features = fused.values[next(op.result for op in fused.operators if isinstance(op, Conv))]
    assert history.size * 16 == features.size
    joined = [value for value in fused.values.values() if value.window is not None]
    assert len(joined) == 2, "features and history lie in the map that the convolution reads"


def test_stripes_are_not_asked_of_a_net_that_cannot_have_them() -> None:
    (profile,) = read_model("model", recurrent_qdq(), [SIZE]).profiles
    program = build_program([profile], SPEC, bytes(16), CompileOptions(stripe_rows=4))
    assert program.profiles[0].segments == ()


BAD = {
    "no output follows": (recurrent_qdq(follows="other"), UnsupportedModel, "no output history_next"),
    "an extent of its own": (recurrent_qdq(dims=("rows", "3 * w")), UnsupportedModel, "neither a number nor a part"),
    "does not divide": (recurrent_qdq(dims=("h/5", "w/4")), BadProfile, "does not divide"),
    "another shape": (recurrent_qdq(dims=("h/8", "w/4")), CompileError, "make the other extents equal"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_state_that_cannot_be_one_is_an_error_with_a_remedy(name: str) -> None:
    model, error, words = BAD[name]
    with pytest.raises(error, match=words):
        read_model("model", model, [SIZE])


def test_several_streams_of_a_net_with_states_are_refused() -> None:
    options = CompileOptions(streams=2)
    profiles = read_model("model", recurrent_qdq(), [SIZE], options).profiles
    with pytest.raises(UnsupportedModel, match="one stream"):
        build_program(profiles, SPEC, bytes(16), options)


def test_onnx_accepts_the_test_model() -> None:
    onnx.checker.check_model(onnx.load_from_string(recurrent_qdq()))
