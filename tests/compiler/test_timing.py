"""The timing model: figures worked out by hand, floors, and agreement with the emulated device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.driver import read_model
from compiler.options import DEFAULT, CompileOptions
from compiler.program_builder import CompiledProgram, build_program
from compiler.timing import estimate
from contracts.npu import NpuSpec, Program, load_spec
from edge_agent.runtime.npu import NpuDevice
from tests.support.models import quality_qdq, single_conv_qdq, vsr_qdq

SPEC = load_spec("npu-4t")


def compiled(
    model: bytes, size: tuple[int, int], spec: NpuSpec = SPEC, options: CompileOptions = DEFAULT
) -> CompiledProgram:
    return build_program(read_model("model", model, [size], options).profiles, spec, bytes(16), options)


def test_a_single_convolution_takes_what_the_page_says() -> None:
    profile = compiled(single_conv_qdq(16, 16, 3), (100, 200)).profiles[0]
    compute = 100 * 200 * 9 * 16 * 16 / 2000
    transfer = 2 * 100 + 2 * 100 * 200 * 16 / (32 * 0.9)
    assert profile.ideal.total_ns == pytest.approx(78_000 + max(compute, transfer))
    padded = 100 * 200 * 12 * 16 * 16 / 2048
    assert profile.u85_like.total_ns == pytest.approx(78_000 + max(padded, transfer))
    assert profile.ideal.ddr_bytes == 2 * 100 * 200 * 16


@pytest.mark.parametrize(("rows", "stripes"), [(32, 1), (16, 3), (8, 5)])
def test_each_further_stripe_of_a_kernel_costs_a_dispatch(rows: int, stripes: int) -> None:
    """32 rows; a block runs two rows behind its source, so that its last ones need a stripe more."""
    frame = compiled(vsr_qdq(), (64, 96), options=CompileOptions(stripe_rows=rows)).profiles[0].ideal
    block = next(kernel for kernel in frame.kernels if kernel.name == "block0")
    assert (block.launches, block.dispatches, block.commands) == (1, stripes - 1, 2 * stripes)
    assert block.overhead_ns == 78_000 + (stripes - 1) * 1_000


def test_launches_are_counted_once_for_each_kernel() -> None:
    frame = compiled(vsr_qdq(blocks=3), (64, 96)).profiles[0].ideal
    assert frame.launches == 5
    assert [kernel.name for kernel in frame.kernels] == ["head", "block0", "block1", "block2", "tail"]


@pytest.mark.parametrize("target", ["npu-4t", "npu-2t"])
def test_no_figure_lies_below_the_physical_floor(target: str) -> None:
    spec = load_spec(target)
    frame = compiled(vsr_qdq(channels=32, mid=32), (360, 640), spec).profiles[0].ideal
    assert frame.total_ns >= frame.macs / spec.peak_macs_per_ns + frame.launches * spec.launch_us * 1000
    assert frame.total_ns >= frame.ddr_bytes / spec.ddr_bytes_per_ns


def test_the_macs_are_those_of_the_network() -> None:
    frame = compiled(vsr_qdq(channels=16, mid=16, blocks=2), (64, 96)).profiles[0].ideal
    assert frame.macs == 32 * 48 * 9 * (12 * 16 + 4 * 16 * 16 + 16 * 48)


CASES = [
    (vsr_qdq(), SPEC.sram_bytes),
    (vsr_qdq(kernel=[3, 5], mid=24), SPEC.sram_bytes),
    (vsr_qdq(), 60_000),
    (vsr_qdq(), 40_000),
    (vsr_qdq(), 20_000),
    (quality_qdq(), SPEC.sram_bytes),
]


@pytest.mark.parametrize(("model", "sram_bytes"), CASES)
def test_estimate_and_simulation_agree(model: bytes, sram_bytes: int) -> None:
    spec = replace(SPEC, sram_bytes=sram_bytes)
    program = compiled(model, (64, 96), spec)
    device = NpuDevice(spec, jitter=0.0)
    loaded = device.load(Program.open(program.data))
    for frame in program.profiles[0].estimates:
        simulated = device.nominal_time(loaded, 0, frame.array_model)
        assert simulated.total_ns == pytest.approx(frame.total_ns, rel=0.01)
        assert simulated.ddr_bytes == frame.ddr_bytes


def test_a_prefetch_hides_behind_the_kernel_before() -> None:
    program = compiled(
        vsr_qdq(channels=32, mid=32), (64, 96), replace(SPEC, sram_bytes=150_000), CompileOptions(depth_first=False)
    )
    profile = program.profiles[0]
    assert not profile.plan.weights_resident
    commands = profile.stream.commands[profile.stream.n_prologue :].copy()
    overlapped = estimate(commands, program.names, SPEC, SPEC.array_model("ideal")).total_ns
    serial = sum(
        kernel.overhead_ns + max(kernel.compute_ns, 0) + kernel.transfer_ns for kernel in profile.ideal.kernels
    )
    assert overlapped < serial
    assert np.isfinite(overlapped)


def test_a_streamed_operand_waits_for_the_dma_before_it() -> None:
    program = compiled(single_conv_qdq(16, 16, 3), (100, 200))
    stream = program.profiles[0].stream
    fetch = stream.commands[0].copy()
    for side in ("src", "dst"):
        fetch[side]["channels"] = fetch[side]["pixel_stride"] = fetch[side]["row_stride"] = 1 << 22
    commands = np.array([fetch, *stream.commands[stream.n_prologue :]], stream.commands.dtype)
    frame = estimate(commands, program.names, SPEC, SPEC.array_model("ideal"))
    moved = (1 << 22) + 2 * 100 * 200 * 16
    assert frame.total_ns == pytest.approx(3 * 100 + moved / (32 * 0.9))
