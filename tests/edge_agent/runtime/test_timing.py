"""Simulated time, worked out by hand from docs/reference/npu-spec.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contracts.npu.program import FLAG_DISPATCH, FLAG_GLOBAL, FLAG_LAUNCH, Op, Program, Space
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu.commands import decode_stream
from edge_agent.runtime.npu.timing import FrameTime, Timer
from tests.edge_agent.runtime.assembler import Assembler, layer, region

SPEC = load_spec("npu-4t")
SIZE = (20, 30, 16)


def times(build: Assembler, array: str = "ideal", mhz: float | None = None) -> FrameTime:
    program = Program.open(build.program(SIZE, [("y", 65536, SIZE)], 1 << 20))
    commands = decode_stream(program.commands(0))[program.profiles[0].n_prologue :]
    return Timer(SPEC, SPEC.array_model(array), mhz).time(commands, program.names)


def convolution(build: Assembler, to: Space = Space.SRAM, flags: int = 1, **fields: Any) -> None:
    random = np.random.default_rng(0)
    item = layer(random, 16, 24)
    source = region(Space.SRAM, build.room(20 * 30 * 16), SIZE)
    target = fields.pop("dst", None)
    target = region(to, build.room(20 * 30 * 24), (20, 30, 24)) if target is None else target
    build.conv(source, target, item.weights, item.bias, item.mult, flags=flags, **fields)


MACS = 20 * 30 * 9 * 16 * 24


def padded_ns() -> float:
    """Return the time of the padded array, from its own fields: 9 taps, 16 inputs, 24 outputs."""
    model = SPEC.array_model("u85-like")
    pairs = zip(
        (9, 16, 24), (model.tap_multiple, model.input_channel_multiple, model.output_channel_multiple), strict=True
    )
    extents = [-(-extent // multiple) * multiple for extent, multiple in pairs]
    return 20 * 30 * float(np.prod(extents)) / model.macs_per_cycle  # one cycle is a nanosecond at 1 GHz


def test_a_convolution_costs_its_launch_and_its_macs() -> None:
    build = Assembler(names=["a"])
    convolution(build)
    assert times(build).total_ns == pytest.approx(78_000 + MACS / 2000)
    assert times(build, "u85-like").total_ns == pytest.approx(78_000 + padded_ns())


@pytest.mark.parametrize(("flags", "overhead"), [(0, 0), (FLAG_DISPATCH, 1_000), (FLAG_LAUNCH, 78_000)])
def test_a_chained_command_is_free_and_a_stripe_that_enters_again_costs_its_dispatch(flags: int, overhead: int) -> None:
    build = Assembler(names=["a"])
    convolution(build)
    convolution(build, flags=flags)
    time = times(build)
    assert time.total_ns == pytest.approx(78_000 + overhead + 2 * MACS / 2000)
    assert [row.commands for row in time.kernels] == [2]
    assert time.kernels[0].overhead_ns == 78_000 + overhead


def test_kernels_that_interleave_share_the_frame_between_them() -> None:
    build = Assembler(names=["a", "b"])
    for kernel, flags in ((0, FLAG_LAUNCH), (1, FLAG_LAUNCH), (0, FLAG_DISPATCH), (1, FLAG_DISPATCH)):
        convolution(build, kernel=kernel, flags=flags)
    time = times(build)
    one, two = time.kernels
    assert (one.busy_ns, two.busy_ns) == pytest.approx((79_000 + 2 * MACS / 2000,) * 2)
    assert one.busy_ns + two.busy_ns == pytest.approx(time.total_ns)
    assert one.end_ns - one.start_ns > one.busy_ns  # from its first stripe to its last


def test_a_store_to_ddr_streams_while_it_computes() -> None:
    build = Assembler(names=["a"])
    convolution(build, Space.DDR)
    stream = 100 + 20 * 30 * 24 / (32 * 0.9)
    time = times(build)
    assert time.total_ns == pytest.approx(78_000 + max(MACS / 2000, stream))
    assert time.ddr_bytes == 20 * 30 * 24


def test_stores_and_dma_share_one_channel() -> None:
    build = Assembler(names=["a"])
    convolution(build, Space.DDR)
    data = region(Space.DDR, 0, SIZE)
    for _ in range(2):
        build.command(Op.DMA, src=data, dst=region(Space.SRAM, build.room(9600), SIZE))
    stream = 100 + 20 * 30 * 24 / (32 * 0.9)
    moving = 100 + 20 * 30 * 16 / (32 * 0.9)
    assert times(build).total_ns == pytest.approx(78_000 + stream + 2 * moving)


def test_a_dma_overlaps_with_compute_until_someone_waits() -> None:
    moving = 100 + 20 * 30 * 16 / (32 * 0.9)
    for waits in (False, True):
        build = Assembler(names=["a"])
        data = region(Space.DDR, 0, SIZE)
        event = int(build.command(Op.DMA, src=data, dst=region(Space.SRAM, build.room(9600), SIZE))["event"])
        convolution(build, wait=event if waits else 0)
        alone = 78_000 + MACS / 2000
        assert times(build).total_ns == pytest.approx(alone + moving if waits else alone)


def test_a_strided_dma_pays_for_each_row() -> None:
    build = Assembler(names=["a"])
    wide = region(Space.SRAM, build.room(20 * 30 * 32), SIZE, row_stride=960, pixel_stride=32)
    build.command(Op.DMA, src=region(Space.DDR, 0, SIZE), dst=wide)
    assert times(build).total_ns == pytest.approx(20 * 100 + 9600 / (32 * 0.9))


def test_a_lower_clock_stretches_compute_and_launch_but_not_ddr() -> None:
    build = Assembler(names=["a"])
    convolution(build)
    assert times(build, mhz=500).total_ns == pytest.approx(2 * (78_000 + MACS / 2000))
    build = Assembler(names=["a"])
    data = region(Space.DDR, 0, SIZE)
    build.command(Op.DMA, src=data, dst=region(Space.SRAM, build.room(9600), SIZE))
    assert times(build, mhz=500).total_ns == pytest.approx(times(build).total_ns)


@pytest.mark.parametrize(
    ("op", "fields", "nanoseconds"),
    [
        (Op.SHUFFLE, {}, 9600 / 64),
        (Op.TABLE, {}, 9600 / 64),
        (Op.POOL, {"kh": 3, "kw": 2}, 6 * 9600 / 64),
        (Op.POOL, {"kh": 3, "kw": 2, "flags": FLAG_GLOBAL}, 9600 / 64),
        (Op.RESIZE, {"kh": 1, "kw": 3}, 9600 / 64),
        (Op.HOST, {"kh": 3, "kw": 3}, 30_000 + 9 * 9600 / 0.5),
        (Op.HOST, {"kh": 0, "kw": 0}, 30_000 + 9600 / 0.5),
    ],
)
def test_other_operations_cost_what_the_vector_unit_or_the_host_needs(
    op: Op, fields: dict[str, int], nanoseconds: float
) -> None:
    build = Assembler(names=["a"])
    source, target = (region(Space.SRAM, build.room(9600), SIZE) for _ in range(2))
    build.command(op, src=source, dst=target, **fields)
    assert times(build).total_ns == pytest.approx(nanoseconds)


def test_a_profile_switch_costs_its_prologue_once() -> None:
    build = Assembler(names=["a"])
    convolution(build, Space.DDR, dst=region(Space.DDR, 65536, (20, 30, 24)))
    program = build.program(SIZE, [("y", 65536, (20, 30, 24))], 1 << 20)
    device = NpuDevice("npu-4t", jitter=0.0)
    loaded = device.load(Program.open(program))
    frame = np.zeros(SIZE, np.uint8)
    first, second, third = (device.infer(loaded, frame).simulated_ms for _ in range(3))
    assert first > second == third
