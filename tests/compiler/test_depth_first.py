"""Depth-first programs: every pixel as the golden says, whatever the stripes, and memory as the arithmetic says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.reference_nets import net_named, qdq_model, quantized_net
from compiler import golden
from compiler.driver import compile_one, read_model
from compiler.options import CompileOptions
from compiler.program_builder import CompiledProfile, CompiledProgram, FusedProfile, build_program
from contracts.npu import NpuSpec, Op, Program, Space, load_spec
from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH
from edge_agent.runtime.npu import NpuDevice
from tests.support.models import quality_qdq, vsr_qdq

SPEC = load_spec("npu-4t")
SIZE = (48, 64)


def built(model: bytes, options: CompileOptions, spec: NpuSpec = SPEC) -> tuple[CompiledProgram, list[FusedProfile]]:
    profiles = read_model("model", model, [SIZE], options).profiles
    return build_program(profiles, spec, bytes(16), options), profiles


def frame_of(profile: FusedProfile, seed: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    shape = profile.imported.values[profile.imported.input].shape
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def assert_golden(program: CompiledProgram, profiles: Sequence[FusedProfile], spec: NpuSpec = SPEC) -> None:
    device = NpuDevice(spec, jitter=0.0)
    loaded = device.load(Program.open(program.data), bind_all=True)
    for profile in (*profiles, profiles[0]):
        frame = frame_of(profile)
        outputs = device.infer(loaded, frame, profile.name).outputs
        for name, image in golden.run(profile.imported, frame).items():
            np.testing.assert_array_equal(outputs[name], image)


@pytest.mark.parametrize("double_buffer", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 5, 7, 24])
def test_every_pixel_equals_the_golden_for_every_stripe_height(rows: int, double_buffer: bool) -> None:
    options = CompileOptions(stripe_rows=rows, double_buffer=double_buffer)
    program, profiles = built(vsr_qdq(blocks=3, seed=11), options)
    assert program.profiles[0].segments == (("head", "tail", rows),)
    assert_golden(program, profiles)


def test_kernels_of_five_and_of_three_rows_share_a_ring() -> None:
    program, profiles = built(vsr_qdq(kernel=[3, 5, 3], blocks=3, mid=24, seed=3), CompileOptions(stripe_rows=4))
    assert_golden(program, profiles)


def test_a_net_that_halves_its_rows_is_cut_into_stripes_too() -> None:
    program, profiles = built(quality_qdq(), CompileOptions(stripe_rows=8))
    assert program.profiles[0].segments
    assert_golden(program, profiles)


@pytest.mark.parametrize("sram_bytes", [60_000, 40_000, 30_000, 24_000])
def test_short_sram_cuts_the_net_and_stays_exact(sram_bytes: int) -> None:
    spec = replace(SPEC, sram_bytes=sram_bytes)
    program, profiles = built(vsr_qdq(blocks=4, seed=5), CompileOptions(), spec)
    assert program.profiles[0].plan.peak <= sram_bytes
    assert_golden(program, profiles, spec)


def test_the_trunk_of_all_blocks_is_one_ring_of_a_row_for_each_halo() -> None:
    program, _ = built(vsr_qdq(blocks=4, seed=2), CompileOptions(stripe_rows=2))
    plan = program.profiles[0].plan
    trunk = next(buffer for buffer in plan.buffers if len(buffer.values) == 5)
    width, channels = SIZE[1] // 2, 16
    rows, rest = divmod(trunk.size, width * channels)
    assert rest == 0
    assert rows == 2 * 4 + 2 * 2, "two rows of halo for each block, the rows at work and those that the tail reads"


def test_each_kernel_is_launched_once_and_dispatched_for_each_further_stripe() -> None:
    program, _ = built(vsr_qdq(blocks=2, seed=2), CompileOptions(stripe_rows=6))
    profile = program.profiles[0]
    frame = profile.stream.commands[profile.stream.n_prologue :]
    for index, name in enumerate(program.names[:-1]):
        own = frame[(frame["kernel"] == index) & (frame["op"] == Op.CONV)]
        assert int((own["flags"] & FLAG_LAUNCH != 0).sum()) == 1, name
        assert int((own["flags"] & FLAG_DISPATCH != 0).sum()) >= 24 // 6 - 1, name


def test_intermediates_never_touch_ddr() -> None:
    program, profiles = built(vsr_qdq(blocks=2, seed=2), CompileOptions(stripe_rows=6))
    profile = program.profiles[0]
    frame = profile.stream.commands[profile.stream.n_prologue :]
    graph = profiles[0].imported
    outside = [graph.values[graph.input].size, *(graph.values[value].size for _, value in graph.outputs)]
    assert profile.ideal.ddr_bytes == sum(outside)
    compute = frame[(frame["op"] != Op.DMA) & (frame["op"] != Op.END)]
    assert not (compute["src"]["space"] == Space.DDR).any()
    assert not (compute["dst"]["space"] == Space.DDR).any()


def test_transfers_one_stripe_ahead_are_hidden_behind_computing() -> None:
    def profile(double_buffer: bool) -> CompiledProfile:
        model = qdq_model(quantized_net(net_named("c32x8")))
        options = CompileOptions(stripe_rows=6, double_buffer=double_buffer)
        return compile_one(model, "npu-4t", [(360, 640)], options)[0].profiles[0]

    ahead, behind = profile(True), profile(False)
    assert ahead.ideal.dma_hidden_share > 0.8 > behind.ideal.dma_hidden_share
    assert ahead.ideal.total_ns < behind.ideal.total_ns


def test_the_reference_net_fits_without_an_intermediate_in_ddr() -> None:
    program, _ = compile_one(qdq_model(quantized_net(net_named("c88x8"))), "npu-4t", [(360, 640)])
    profile = program.profiles[0]
    assert len(program.names) - 1 <= 12
    assert profile.plan.peak <= SPEC.sram_bytes < profile.naive_sram
    assert profile.ideal.ddr_bytes <= 6e6
    floor = profile.ideal.macs / SPEC.peak_macs_per_ns + profile.ideal.launch_ns
    assert floor <= profile.ideal.total_ns <= 1.06 * floor


def test_several_streams_give_each_its_own_frame_for_one_launch_a_kernel() -> None:
    model = vsr_qdq(blocks=2, seed=8)
    single, profiles = built(model, CompileOptions())
    batch, _ = built(model, CompileOptions(streams=3))
    assert batch.profiles[0].ideal.launches == single.profiles[0].ideal.launches
    device = NpuDevice(SPEC, jitter=0.0)
    loaded = device.load(Program.open(batch.data))
    frames = [frame_of(profiles[0], seed) for seed in range(3)]
    outputs = device.infer(loaded, np.concatenate(frames)).outputs
    for stream, frame in enumerate(frames):
        for name, image in golden.run(profiles[0].imported, frame).items():
            rows = image.shape[0]
            np.testing.assert_array_equal(outputs[name][stream * rows : (stream + 1) * rows], image)


def test_stripes_that_do_not_help_are_not_used_and_the_report_says_so() -> None:
    program, _ = built(vsr_qdq(blocks=1, seed=2), CompileOptions())
    profile = program.profiles[0]
    assert profile.notes
    assert (profile.segments != ()) == ("not worth it" not in profile.notes[0])
