"""Regions that are runs of a ring: the same rows whether they wrap or not, in every layout and operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.npu.program import Layout, Op, Program, Space
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu import Faults, NpuDevice, PlanViolation
from edge_agent.runtime.npu.checking import check_profile
from edge_agent.runtime.npu.commands import decode_stream
from edge_agent.runtime.npu.places import reader, views, writer
from edge_agent.runtime.npu.regions import Region, overlap, same_place
from edge_agent.runtime.npu.ring_rows import torn_reads
from edge_agent.runtime.npu.scratch import Scratch
from tests.edge_agent.runtime import reference
from tests.edge_agent.runtime.assembler import Assembler, region, residual_net
from tests.edge_agent.runtime.striped import striped_net
from tests.edge_agent.runtime.test_checking import changed

SPEC = load_spec("npu-4t")
SRAM, NHWC = int(Space.SRAM), int(Layout.NHWC)
MEMORY = 1 << 14


@st.composite
def runs(draw: st.DrawFn, layouts: tuple[int, ...] = (0,)) -> Region:
    """Draw a run of any ring: dense or strided, wrapped or not."""
    layout = draw(st.sampled_from(layouts))
    block = draw(st.integers(1, 3)) if layout else 0
    step = block if layout in (Layout.S2D, Layout.D2S) else 1
    rows, cols = step * draw(st.integers(1, 4)), step * draw(st.integers(1, 4))
    channels = draw(st.integers(1, 5)) * (block**2 if layout == Layout.D2S else 1)
    pixel = channels + draw(st.sampled_from([0, 0, 3]))
    row = cols * pixel + draw(st.sampled_from([0, 0, 5]))
    ring = rows + draw(st.integers(0, 3))
    first = draw(st.integers(0, ring - 1))
    return Region(SRAM, layout, block, 128, rows, cols, channels, row, pixel, ring, first)


def unrolled(memory: np.ndarray, run: Region) -> np.ndarray:
    """Return the run's bytes, row by row, as the page defines them."""
    result = np.empty(run.shape, np.uint8)
    for y, x, k in np.ndindex(run.shape):
        row = (run.ring_first + y) % run.ring_rows
        result[y, x, k] = memory[run.offset + row * run.row_stride + x * run.pixel_stride + k]
    return result


def seen(image: np.ndarray, layout: int, block: int) -> np.ndarray:
    rows, cols, channels = image.shape
    if layout == Layout.S2D:
        parts = image.reshape(rows // block, block, cols // block, block, channels)
        return parts.transpose(0, 2, 1, 3, 4).reshape(rows // block, cols // block, -1)
    if layout == Layout.NEAREST:
        return image.repeat(block, axis=0).repeat(block, axis=1)
    return image


@given(runs((NHWC, int(Layout.S2D), int(Layout.NEAREST))), st.integers(0, 99))
@settings(deadline=None)
def test_a_reader_sees_the_rows_in_order(run: Region, seed: int) -> None:
    memory = np.random.default_rng(seed).integers(0, 256, MEMORY, dtype=np.uint8)
    place = reader(memory, run, "here", Scratch(), "source")
    for step in place.steps:
        step()
    assert np.array_equal(place.array, seen(unrolled(memory, run), run.layout, run.block))
    assert place.array.flags.c_contiguous


@given(runs((NHWC, int(Layout.D2S))), st.integers(0, 99))
@settings(deadline=None)
def test_a_writer_changes_exactly_its_rows(run: Region, seed: int) -> None:
    random = np.random.default_rng(seed)
    memory = random.integers(0, 256, MEMORY, dtype=np.uint8)
    place = writer(memory, run, "here", Scratch(), "target")
    before = memory.copy()
    values = random.integers(0, 256, run.logical, dtype=np.uint8)
    place.array[...] = values
    for step in place.steps:
        step()
    if run.layout == Layout.D2S:
        high, wide, depth = values.shape
        parts = values.reshape(high, wide, depth // run.block**2, run.block, run.block)
        values = parts.transpose(0, 3, 1, 4, 2).reshape(run.shape)
    assert np.array_equal(unrolled(memory, run), values)
    changed = memory.copy()
    for part in views(changed, run, "here"):
        part[...] = 0
    for part in views(before, run, "here"):
        part[...] = 0
    assert np.array_equal(changed, before)


@given(runs())
def test_a_run_that_does_not_wrap_is_the_memory_itself(run: Region) -> None:
    memory = np.zeros(MEMORY, np.uint8)
    place = reader(memory, run, "here", Scratch(), "source")
    packed = run.pixel_stride == run.channels and run.row_stride == run.cols * run.channels
    if packed and run.ring_first + run.rows <= run.ring_rows:
        assert place.steps == ()
        assert np.shares_memory(place.array, memory)


@given(runs(), runs())
def test_two_runs_overlap_exactly_when_they_share_a_byte(one: Region, other: Region) -> None:
    places = []
    for run in (one, other):
        memory = np.zeros(MEMORY, np.uint8)
        for part in views(memory, run, "here"):
            part[...] = 1
        places.append(memory)
    if (places[0] & places[1]).any():
        assert overlap(one, other)
    if not overlap(one, other):
        assert not (places[0] & places[1]).any()


def test_the_parts_of_a_concatenation_do_not_overlap_although_they_interleave() -> None:
    one = Region(SRAM, 0, 0, 0, 4, 4, 3, 32, 8)
    other = Region(SRAM, 0, 0, 3, 4, 4, 5, 32, 8)
    assert not overlap(one, other)
    assert overlap(one, Region(SRAM, 0, 0, 2, 4, 4, 5, 32, 8))


def test_the_same_rows_written_down_otherwise_are_the_same_place() -> None:
    plain = Region(SRAM, 0, 0, 128 + 2 * 64, 2, 8, 8, 64, 8)
    ring = Region(SRAM, 0, 0, 128, 2, 8, 8, 64, 8, ring_rows=5, ring_first=2)
    assert same_place(plain, ring)
    assert not same_place(plain, Region(SRAM, 0, 0, 128, 2, 8, 8, 64, 8, ring_rows=5, ring_first=4))


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_depth_first_program_gives_the_pixels_of_the_layers_one_by_one(rows: int, staged: bool) -> None:
    net = striped_net(rows=rows, staged=staged, channels=9, blocks=3)
    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(net.program))
    for seed in range(2):
        frame = np.random.default_rng(seed).integers(0, 256, net.size, dtype=np.uint8)
        expected = reference.residual_net(net, frame)
        assert np.array_equal(device.infer(loaded, frame).outputs["y"], expected)
        assert len(np.unique(expected)) > 50


def test_a_depth_first_program_is_the_layerwise_one_in_less_memory() -> None:
    layerwise, striped = residual_net(48, 32, 8, 2, seed=3), striped_net(48, 32, 8, 2, seed=3, rows=2)
    frame = np.random.default_rng(0).integers(0, 256, layerwise.size, dtype=np.uint8)
    device, images, peaks = NpuDevice("npu-4t"), [], []
    for net in (layerwise, striped):
        program = Program.open(net.program)
        images.append(device.infer(device.load(program), frame).outputs["y"])
        peaks.append(program.profiles[0].sram_peak - len(program.constants))
    assert np.array_equal(images[0], images[1])
    assert peaks[1] < peaks[0]


@pytest.mark.parametrize("staged", [False, True])
def test_the_checking_mode_finds_nothing_in_a_sound_depth_first_program(staged: bool) -> None:
    program = Program.open(striped_net(rows=2, staged=staged).program)
    assert check_profile(program, 0, SPEC) == []


def test_a_stripe_that_reads_a_row_before_it_is_written_is_found() -> None:
    def change(stream: np.ndarray) -> None:
        ring = stream["src"]["ring_rows"] > 0
        (first, *_) = np.flatnonzero((stream["op"] == Op.CONV) & ring & (stream["src"]["space"] == Space.SRAM))
        stream["src"]["ring_first"][first] = stream["src"]["rows"][first]

    findings = check_profile(changed(striped_net(rows=2).program, change), 0, SPEC)
    assert any("nothing wrote" in text for text in findings)


@pytest.mark.parametrize("missing", ["store for tail", "tail for store", "head for fetch"])
def test_a_missing_wait_between_rings_is_found(missing: str) -> None:
    def change(stream: np.ndarray) -> None:
        unordered = {
            "store for tail": (stream["op"] == Op.DMA) & (stream["dst"]["space"] == Space.DDR),
            "tail for store": (stream["op"] == Op.CONV) & (stream["dst"]["layout"] == Layout.D2S),
            "head for fetch": (stream["op"] == Op.CONV) & (stream["src"]["layout"] == Layout.S2D),
        }
        stream["wait"][unordered[missing]] = 0

    findings = check_profile(changed(striped_net(rows=2, staged=True).program, change), 0, SPEC)
    assert any("no wait orders" in text for text in findings)


@pytest.mark.parametrize("missing", [1, 2])
def test_a_ring_that_is_too_short_is_found(missing: int) -> None:
    net = striped_net(rows=2, blocks=2, missing_trunk_rows=missing)
    program = Program.open(net.program)
    findings = check_profile(program, 0, SPEC)
    assert findings
    assert all("no neighbours" in text for text in findings)  # nothing else sees it
    frame = np.random.default_rng(0).integers(0, 256, net.size, dtype=np.uint8)
    device = NpuDevice("npu-4t")
    wrong = device.infer(device.load(program), frame).outputs["y"]
    assert not np.array_equal(wrong, reference.residual_net(net, frame))


def test_a_row_that_is_updated_before_its_last_reader_is_found() -> None:
    stream = Program.open(striped_net(rows=2, blocks=2).program).commands(0).copy()
    adds = np.flatnonzero((stream["op"] == Op.CONV) & (stream["residual"]["space"] == SRAM))
    for name in ("residual", "dst"):  # one sum lands two rows later
        stream[name]["ring_first"][adds[2]] = (stream[name]["ring_first"][adds[2]] + 2) % stream[name]["ring_rows"][
            adds[2]
        ]
    assert any("only some were updated" in text for text in torn_reads(decode_stream(stream)))


def rows_of(ring: int, *runs: tuple[str, int, int]) -> list[str]:
    """Return what is wrong with writes and reads of (first, count) rows of one ring, one command each."""
    build = Assembler(names=["a"])
    for what, first, count in runs:
        rows = region(Space.SRAM, 0, (count, 4, 8), ring_rows=ring, ring_first=first % ring)
        outside = region(Space.DDR, 0, (count, 4, 8))
        build.command(Op.DMA, **({"src": outside, "dst": rows} if what == "write" else {"src": rows, "dst": outside}))
    program = Program.open(build.program((1, 1, 1), [("y", 0, (1, 1, 1))], 4096))
    return list(torn_reads(decode_stream(program.commands(0))))


def test_two_writers_may_fill_one_map_in_turn() -> None:
    runs = [("write", 0, 4), ("write", 10, 2), ("write", 4, 6), ("write", 12, 2), ("read", 0, 14)]
    assert rows_of(14, *runs) == []


def test_a_ring_may_serve_one_map_after_another() -> None:
    first = [("write", 0, 4), ("write", 4, 4), ("read", 4, 4), ("write", 8, 2), ("read", 6, 4)]
    second = [("write", 0, 2), ("write", 2, 2), ("read", 0, 4)]
    assert rows_of(4, *first, *second) == []
    assert len(rows_of(4, *first, ("write", 0, 2), ("read", 0, 4))) == 1  # half of it is the map before


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_the_rows_of_a_sound_program_belong_together(rows: int, staged: bool) -> None:
    program = Program.open(striped_net(rows=rows, staged=staged, blocks=3).program)
    assert list(torn_reads(decode_stream(program.commands(0)))) == []


def one_ring(**wrong: int) -> Program:
    """A frame that is copied to a ring by two DMAs and back by one that wraps."""
    size = (4, 4, 8)
    build = Assembler(names=["a", "prologue"])
    ring = {"ring_rows": 5}
    offset = build.room(5 * 32)

    def rows(first: int, count: int, **changed: int) -> Any:
        fields = {**ring, "ring_first": first % 5, **changed}
        return region(Space.SRAM, offset, (count, 4, 8), **fields)

    whole = {"ring_rows": 4}
    build.command(Op.DMA, src=region(Space.DDR, 0, (3, 4, 8), **whole), dst=rows(3, 3))
    late = region(Space.DDR, 0, (1, 4, 8), ring_first=3, **whole)
    build.command(Op.DMA, src=late, dst=rows(6, 1))
    build.command(Op.DMA, src=rows(3, 4, **wrong), dst=region(Space.DDR, 128, size))
    return Program.open(build.program(size, [("y", 128, size)], 256))


def test_a_dma_that_wraps_on_one_side_moves_every_row() -> None:
    device = NpuDevice("npu-4t")
    loaded = device.load(one_ring(), bind_all=True)
    frame = np.random.default_rng(0).integers(0, 256, (4, 4, 8), dtype=np.uint8)
    assert np.array_equal(device.infer(loaded, frame).outputs["y"], frame)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"ring_rows": 3}, "of a ring of 3"),
        ({"ring_rows": 5, "ring_first": 5}, "of a ring of 5"),
        ({"ring_rows": 0, "ring_first": 1}, "a ring that has no rows"),
        ({"ring_rows": 65535, "ring_first": 0, "row_stride": 65536}, "ends at byte"),
        ({"row_stride": 31}, "overlap"),
    ],
)
def test_a_ring_that_contradicts_itself_is_refused(wrong: dict[str, int], words: str) -> None:
    with pytest.raises(PlanViolation, match=words):
        NpuDevice("npu-4t").load(one_ring(**wrong), bind_all=True)


def test_constants_are_no_ring() -> None:
    build = Assembler(names=["a"])
    build.load(bytes(64))
    source = region(Space.CONST, 0, (2, 4, 8), ring_rows=2)
    build.command(Op.DMA, src=source, dst=region(Space.SRAM, 1024, (2, 4, 8)))
    program = Program.open(build.program((1, 1, 1), [("y", 0, (1, 1, 1))], 128))
    with pytest.raises(PlanViolation, match="outside of SRAM and DDR"):
        NpuDevice("npu-4t").load(program, bind_all=True)


def test_a_bit_flip_reaches_both_parts_of_a_wrapped_stripe() -> None:
    net = striped_net(rows=3)
    device = NpuDevice("npu-4t", faults=Faults(bit_flip_rate=1.0, match="block"), seed=3)
    loaded = device.load(Program.open(net.program))
    frame = np.random.default_rng(0).integers(0, 256, net.size, dtype=np.uint8)
    expected = reference.residual_net(net, frame)
    changed = [int((device.infer(loaded, frame).outputs["y"] != expected).sum()) for _ in range(8)]
    assert max(changed) > 0
