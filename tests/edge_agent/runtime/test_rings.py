"""Regions that are runs of a ring: the same rows whether they wrap or not, in every layout and operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.npu.program import Layout, Op, Program, Space
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu import NpuDevice, PlanViolation
from edge_agent.runtime.npu.places import reader, views, writer
from edge_agent.runtime.npu.regions import Region, overlap, same_place
from edge_agent.runtime.npu.scratch import Scratch
from tests.edge_agent.runtime.assembler import Assembler, region

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
@settings(deadline=None)
def test_a_run_that_does_not_wrap_is_the_memory_itself(run: Region) -> None:
    memory = np.zeros(MEMORY, np.uint8)
    place = reader(memory, run, "here", Scratch(), "source")
    packed = run.pixel_stride == run.channels and run.row_stride == run.cols * run.channels
    if packed and run.ring_first + run.rows <= run.ring_rows:
        assert place.steps == ()
        assert np.shares_memory(place.array, memory)


@given(runs(), runs())
@settings(deadline=None)
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
