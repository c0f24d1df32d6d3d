"""Programs that go depth first through rings: right pixels, and everything that the checking mode must see."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.npu.program import Layout, Op, Program, Space
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu import Faults, NpuDevice
from edge_agent.runtime.npu.checking import check_profile
from edge_agent.runtime.npu.commands import decode_stream
from edge_agent.runtime.npu.ring_rows import torn_reads
from tests.edge_agent.runtime import reference
from tests.edge_agent.runtime.assembler import Assembler, region, residual_net
from tests.edge_agent.runtime.striped import striped_net
from tests.edge_agent.runtime.test_checking import changed

SPEC = load_spec("npu-4t")
SRAM = int(Space.SRAM)


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


def test_a_bit_flip_reaches_both_parts_of_a_wrapped_stripe() -> None:
    net = striped_net(rows=3)
    device = NpuDevice("npu-4t", faults=Faults(bit_flip_rate=1.0, match="block"), seed=3)
    loaded = device.load(Program.open(net.program))
    frame = np.random.default_rng(0).integers(0, 256, net.size, dtype=np.uint8)
    expected = reference.residual_net(net, frame)
    changed = [int((device.infer(loaded, frame).outputs["y"] != expected).sum()) for _ in range(8)]
    assert max(changed) > 0
