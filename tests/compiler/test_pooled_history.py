"""Pooled history: IR in, IR out, and what a frame leaves for the next."""

from __future__ import annotations

import numpy as np

from compiler import golden
from compiler.driver import read_model
from compiler.passes.base import apply
from compiler.passes.pipeline import fuse
from compiler.passes.pooled_history import WITH_POOLED_HISTORY, PooledHistory
from compiler.program_builder import FusedProfile, build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice
from tests.compiler.helpers import assert_text, imported, transcript
from tests.support.models import recurrent_qdq

SPEC = load_spec("npu-4t")


def test_a_state_becomes_a_sixteenth_of_itself() -> None:
    graph = imported(recurrent_qdq(pool=1), 16, 24)
    result = apply(PooledHistory(), graph)
    assert_text("pooled_history", transcript(graph, result))
    before, after = (g.values[g.states[0].value].size for g in (graph, result.graph))
    assert after * 16 == before


def test_the_next_frame_reads_the_mean_of_four_by_four_pixels_enlarged() -> None:
    graph = imported(recurrent_qdq(pool=1), 16, 24)
    pooled = apply(PooledHistory(), graph).graph
    random = np.random.default_rng(4)
    first, second = random.integers(0, 256, (2, 16, 24, 3), dtype=np.uint8)
    whole = golden.run(graph, first)["history_next"]
    kept = golden.run(pooled, first)["history_next"]
    means = whole.reshape(4, 4, 6, 4, 8).astype(np.float64).mean(axis=(1, 3))
    assert np.abs(kept - means).max() <= 0.5 + 1e-6
    enlarged = kept.repeat(4, axis=0).repeat(4, axis=1)
    expected = golden.run(graph, second, {"history": enlarged})["y"]
    np.testing.assert_array_equal(golden.run(pooled, second, {"history": kept})["y"], expected)


def test_it_runs_on_the_device_over_several_frames() -> None:
    (profile,) = read_model("model", recurrent_qdq(pool=1), [(32, 48)]).profiles
    pooled = apply(PooledHistory(), profile.imported).graph
    ready = FusedProfile(profile.name, pooled, fuse(profile.imported, WITH_POOLED_HISTORY))
    device = NpuDevice(SPEC, jitter=0.0)
    loaded = device.load(Program.open(build_program([ready], SPEC, bytes(16)).data))
    states: dict[str, golden.Image] = {}
    for seed in range(3):
        frame = np.random.default_rng(seed).integers(0, 256, (32, 48, 3), dtype=np.uint8)
        wanted = golden.run(pooled, frame, states)
        np.testing.assert_array_equal(device.infer(loaded, frame).outputs["y"], wanted["y"])
        states = {"history": wanted["history_next"]}


def test_a_state_that_does_not_divide_stays_and_says_why() -> None:
    result = apply(PooledHistory(), imported(recurrent_qdq(pool=1), 18, 24))
    assert [edge.reason for edge in result.unfused] == ["18x24 is not divisible by 4"]
