"""The verifier on stripes, rings and dispatches, on streams that the compiler never made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from compiler.verifier import Finding, verify_program
from compiler.verifier.regions import Region
from contracts.npu import Op, Program, ProgramWriter, Space, load_spec
from contracts.npu.program import FLAG_DISPATCH, FLAG_RESIDUAL_FIRST
from tests.compiler.striped import Net, striped_program

SPEC = load_spec("npu-4t")
Commands = npt.NDArray[np.void]
NET = Net(blocks=2, rows=2)
STRIPED = striped_program(NET)


def changed(change: Callable[[Commands], object]) -> list[Finding]:
    commands = STRIPED.commands(0).copy()
    change(commands)
    writer = ProgramWriter(STRIPED.target, STRIPED.build_id)
    writer.add_profile(STRIPED.profiles[0], commands)
    data = writer.to_bytes(STRIPED.names, STRIPED.constants.tobytes(), STRIPED.quant.tobytes())
    return verify_program(Program.open(data), SPEC)


def middle(commands: Commands, kernel: int = 1) -> int:
    """A stripe in the middle of a kernel."""
    own = np.flatnonzero((commands["op"] == Op.CONV) & (commands["kernel"] == kernel))
    return int(own[len(own) // 2])


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_a_sound_cascade_has_no_findings(rows: int, blocks: int) -> None:
    assert verify_program(striped_program(Net(blocks=blocks, rows=rows)), SPEC) == []


FIELDS = {
    "a row too far down the ring": ("ring_first", 1, {"rows", "overlap", "read before write"}),
    "a smaller ring": ("ring_rows", -1, {"rows", "overlap", "read before write", "region"}),
}


@pytest.mark.parametrize("region", ["src", "dst"])
@pytest.mark.parametrize("name", FIELDS)
def test_a_wrong_ring_is_found(name: str, region: str) -> None:
    field, delta, rules = FIELDS[name]
    found: set[str] = set()
    for position in np.flatnonzero(STRIPED.commands(0)["op"] == Op.CONV):

        def change(commands: Commands, position: int = int(position)) -> None:
            size = int(commands[region]["ring_rows"][position])
            value = int(commands[region][field][position]) + delta
            commands[region][field][position] = value % size if field == "ring_first" else value

        found |= {finding.rule for finding in changed(change)}
    assert found & rules


@pytest.mark.parametrize("field", ["clamp_lo", "out_zp", "pl", "kw", "weights_offset", "quant_offset"])
def test_a_stripe_made_otherwise_than_its_neighbours_is_found(field: str) -> None:
    def change(commands: Commands) -> None:
        index = middle(commands)
        other = int(commands[field][middle(commands, 2)])
        commands[field][index] = other if other != commands[field][index] else commands[field][index] + 1

    assert changed(change)


def test_a_stripe_that_adds_the_other_way_round_is_found() -> None:
    def change(commands: Commands) -> None:
        adding = np.flatnonzero((commands["op"] == Op.CONV) & (commands["residual"]["space"] != 0))
        commands["flags"][adding[len(adding) // 2]] ^= FLAG_RESIDUAL_FIRST

    assert changed(change)


def test_a_pad_inside_the_map_is_found() -> None:
    assert changed(lambda commands: commands["pt"].__setitem__(middle(commands), 1))


def test_a_stripe_without_a_dispatch_is_found() -> None:
    def change(commands: Commands) -> None:
        index = int(np.flatnonzero(commands["flags"] == FLAG_DISPATCH)[3])
        commands["flags"][index] = 0

    assert {finding.rule for finding in changed(change)} == {"launch"}


def test_a_dispatch_before_the_launch_is_found() -> None:
    def change(commands: Commands) -> None:
        commands["flags"][np.flatnonzero(commands["flags"])[0]] = FLAG_DISPATCH

    assert "launch" in {finding.rule for finding in changed(change)}


@pytest.mark.parametrize("op", [Op.DMA, Op.CONV])
def test_a_missing_wait_is_found(op: Op) -> None:
    def change(commands: Commands) -> None:
        waiting = np.flatnonzero((commands["wait"] > 0) & (commands["op"] == op))
        commands["wait"][waiting[len(waiting) // 2 :]] = 0

    assert "wait" in {finding.rule for finding in changed(change)}


def test_a_row_that_is_replaced_before_it_is_read_is_found() -> None:
    def change(commands: Commands) -> None:
        """The ring of the middle map is one row short from the third stripe on."""
        middle_map = commands["dst"]["offset"][middle(commands)]
        for region in ("src", "dst"):
            inside = np.flatnonzero(commands[region]["offset"] == middle_map)
            rows = commands[region]["rows"][inside]
            commands[region]["ring_rows"][inside] = np.maximum(rows, 3)
            commands[region]["ring_first"][inside] %= 3

    assert {finding.rule for finding in changed(change)} & {"rows", "overlap of live ranges", "region"}


def test_the_profile_says_what_the_stream_moves_and_needs() -> None:
    profile = STRIPED.profiles[0]
    for lie in (replace(profile, ddr_bytes=profile.ddr_bytes + 1), replace(profile, sram_peak=profile.sram_peak + 128)):
        writer = ProgramWriter(STRIPED.target, STRIPED.build_id)
        writer.add_profile(lie, STRIPED.commands(0))
        data = writer.to_bytes(STRIPED.names, STRIPED.constants.tobytes(), STRIPED.quant.tobytes())
        assert [finding.rule for finding in verify_program(Program.open(data), SPEC)] == ["profile"]


def ring(first: int, rows: int, offset: int = 0) -> Region:
    return Region(Space.SRAM, 0, 0, offset, rows, 4, 8, 32, 8, 8, first)


def test_a_run_that_wraps_covers_the_ends_of_its_buffer_and_nothing_between() -> None:
    assert list(ring(6, 4).starts()) == [192, 224, 0, 32]
    assert not ring(6, 4).meets(ring(2, 4))
    assert ring(6, 4).meets(ring(1, 1))
    assert ring(6, 2).same_place(Region(Space.SRAM, 0, 0, 192, 2, 4, 8, 32, 8))


def test_channels_of_the_same_pixels_do_not_overlap() -> None:
    one, other = (Region(Space.SRAM, 0, 0, offset, 4, 4, 4, 32, 8) for offset in (0, 4))
    assert not one.meets(other)
    assert one.meets(Region(Space.SRAM, 0, 0, 3, 4, 4, 4, 32, 8))
