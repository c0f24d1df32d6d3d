"""The program file: what is written is what is read, in place; damage is refused with a reason."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.npu import COMMAND, REGION, Op, OutputTensor, Profile, Program, ProgramError, ProgramWriter
from contracts.npu.commands import canonical_bytes
from contracts.npu.program import (
    FLAG_LAUNCH,
    FLAG_RESIDUAL_FIRST,
    DamagedProgram,
    ForeignProgram,
    TruncatedProgram,
)


def example(flags: int = 0) -> bytes:
    commands = np.zeros(3, COMMAND)
    commands[1]["flags"] = flags
    commands[0]["op"] = Op.DMA
    commands[0]["src"]["offset"] = 4711
    commands[1]["op"] = Op.CONV
    commands[1]["a_scale"] = np.float32(0.1)
    output = OutputTensor("y", 8, 8, 3, 0.25, 3, 128)
    profile = Profile("4x4", 4, 4, 3, 1 / 255, 0, 0, (output,), 1, 4096, 240, 640)
    writer = ProgramWriter("npu-4t", bytes(range(16)))
    writer.add_profile(profile, commands)
    return writer.to_bytes(["prologue", "head"], b"constants" * 30, b"scales")


def test_structures_have_their_fixed_size() -> None:
    assert (COMMAND.itemsize, REGION.itemsize) == (192, 32)


def test_a_program_reads_back_what_was_written() -> None:
    program = Program.open(example())
    assert program.target == "npu-4t"
    assert program.build_id == bytes(range(16))
    assert program.names == ("prologue", "head")
    assert program.profiles[0].outputs[0].scale == 0.25
    assert program.profiles[0].input == (4, 4, 3)
    assert bytes(program.constants) == b"constants" * 30
    assert bytes(program.quant) == b"scales"
    assert program.commands("4x4")[0]["src"]["offset"] == 4711
    assert program.commands(0)[1]["a_scale"] == np.float32(0.1)


def test_reading_copies_nothing_and_forbids_writing() -> None:
    data = np.frombuffer(example(), np.uint8)
    program = Program.open(data)
    assert np.shares_memory(program.constants, data)
    assert np.shares_memory(program.commands(0), data)
    assert not program.constants.flags.writeable


def test_every_section_is_aligned() -> None:
    data = np.frombuffer(example(), np.uint8)
    program = Program.open(data)
    base = data.__array_interface__["data"][0]
    for view in (program.constants, program.quant, program.commands(0)):
        assert (view.__array_interface__["data"][0] - base) % 128 == 0


def test_gaps_between_fields_are_written_as_zero() -> None:
    raw = np.full(2 * COMMAND.itemsize, 0xAB, np.uint8)
    commands = raw.view(COMMAND)
    data = np.frombuffer(canonical_bytes(commands), np.uint8).reshape(2, -1)
    gaps = [at + 3 for at in (12, 44, 76)]  # behind each region's block
    assert not data[:, gaps].any()
    assert (np.delete(data, gaps, 1) == 0xAB).all()


def test_the_same_parts_give_the_same_bytes() -> None:
    assert example() == example()


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match="4x4"):
        Program.open(example()).commands("360x640")


@pytest.mark.parametrize("length", [0, 5, 127, 128, 300, len(example()) - 1])
def test_a_truncated_program_is_refused(length: int) -> None:
    with pytest.raises(TruncatedProgram, match="fetch the file again"):
        Program.open(example()[:length])


def test_another_kind_of_file_is_refused() -> None:
    with pytest.raises(ForeignProgram, match="magic"):
        Program.open(b"PK\x03\x04" + example()[4:])


def test_another_format_version_is_refused() -> None:
    data = bytearray(example())
    data[4] = 9
    with pytest.raises(ForeignProgram, match="format 9"):
        Program.open(data)


def sealed(data: bytes, version: int) -> bytes:
    """The file under another format version, its hash made again."""
    changed = bytearray(data)
    changed[4:6] = version.to_bytes(2, "little")
    changed[56:88] = hashlib.sha256(changed[128:]).digest()
    return bytes(changed)


def test_a_file_says_the_oldest_format_that_has_what_it_uses() -> None:
    plain, newer = example(FLAG_LAUNCH), example(FLAG_LAUNCH | FLAG_RESIDUAL_FIRST)
    assert [int.from_bytes(data[4:6], "little") for data in (plain, newer)] == [2, 3]
    assert Program.open(newer).commands(0)[1]["flags"] == FLAG_LAUNCH | FLAG_RESIDUAL_FIRST


def test_the_newer_format_may_hold_what_the_older_one_can() -> None:
    assert np.array_equal(Program.open(sealed(example(), 3)).commands(0), Program.open(example()).commands(0))


def test_a_residual_that_comes_first_is_refused_in_the_older_format() -> None:
    with pytest.raises(DamagedProgram, match="a residual that comes first in format 2; compile the model again"):
        Program.open(sealed(example(FLAG_RESIDUAL_FIRST), 2))


@pytest.mark.parametrize("version", [0, 1, 5])
def test_formats_before_and_behind_are_refused(version: int) -> None:
    with pytest.raises(ForeignProgram, match=f"format {version}, arithmetic 1; this code reads 2 to 4 and 1"):
        Program.open(sealed(example(), version))


def test_a_stream_without_end_cannot_be_written() -> None:
    writer = ProgramWriter("npu-4t", bytes(16))
    profile = Profile("4x4", 4, 4, 3, 1.0, 0, 0, (), 0, 0, 0, 0)
    with pytest.raises(ValueError, match="END"):
        writer.add_profile(profile, np.ones(2, COMMAND))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(example()) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_refused_or_lies_in_the_header_identity(position: int, change: int) -> None:
    data = bytearray(example())
    data[position] ^= change
    unprotected = range(8, 40)  # target and build id: compared by the bundle, see test_bundle.py
    padding = range(88, 128)
    reserved = range(44, 48)
    if position in unprotected or position in padding or position in reserved:
        Program.open(data)
        return
    with pytest.raises(ProgramError):
        Program.open(data)


def test_a_section_table_that_leaves_the_file_is_refused() -> None:
    data = bytearray(example())
    data[128 + 8 : 128 + 16] = (1 << 40).to_bytes(8, "little")
    data[56:88] = hashlib.sha256(data[128:]).digest()
    with pytest.raises(DamagedProgram):
        Program.open(data)
