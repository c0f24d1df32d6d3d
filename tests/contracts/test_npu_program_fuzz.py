"""Whatever the bytes, the reader of programs says ProgramError or gives a program: no crash, no hang, little memory."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
from dataclasses import asdict, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.npu import Profile, Program, ProgramError
from contracts.npu.program import ALIGNMENT, DamagedProgram, Section
from tests.contracts.test_npu_program import example

EXAMPLE = example()
QUICK = settings(max_examples=200, deadline=None)


def resealed(data: bytes | bytearray) -> bytes:
    """The bytes with length and digest made right, so that the reader looks further."""
    sealed = bytearray(data)
    sealed[48:56] = len(sealed).to_bytes(8, "little")
    sealed[56:88] = hashlib.sha256(sealed[ALIGNMENT:]).digest()
    return bytes(sealed)


def read(data: bytes) -> None:
    """Open, and touch everything; any error but ProgramError is a failure."""
    try:
        program = Program.open(data)
    except ProgramError:
        return
    for index in range(len(program.profiles)):
        assert len(program.commands(index)) >= 1


def with_section(kind: Section, content: bytes) -> bytes:
    """The example with another content of one section, at the end of the file."""
    data = bytearray(EXAMPLE)
    data += bytes(-len(data) % ALIGNMENT)
    count = int.from_bytes(data[40:44], "little")
    rows = [struct.unpack_from("<IIQQ", data, ALIGNMENT + 24 * index) for index in range(count)]
    body = bytearray()
    start = rows[0][2]
    for index, (own, profile, offset, length) in enumerate(rows):
        piece = content if own == kind else bytes(data[offset : offset + length])
        struct.pack_into("<IIQQ", data, ALIGNMENT + 24 * index, own, profile, start + len(body), len(piece))
        body += piece + bytes(-len(piece) % ALIGNMENT)
    return resealed(bytes(data[:start]) + bytes(body))


def test_a_section_may_be_replaced() -> None:
    assert Program.open(with_section(Section.NAMES, b'["a"]')).names == ("a",)


@QUICK
@given(st.binary(max_size=2000))
def test_random_bytes(data: bytes) -> None:
    read(data)
    read(EXAMPLE[:40] + data)


@QUICK
@given(st.integers(0, len(EXAMPLE)), st.booleans())
def test_cut_off(length: int, sealed: bool) -> None:
    data = EXAMPLE[:length]
    read(resealed(data) if sealed and length >= ALIGNMENT else data)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(EXAMPLE) * 8 - 1)), min_size=1, max_size=8))
def test_flipped_bits_behind_a_right_digest(flips: list[tuple[int]]) -> None:
    data = bytearray(EXAMPLE)
    for (bit,) in flips:
        data[bit // 8] ^= 1 << bit % 8
    read(resealed(data))


SIZES = st.sampled_from([0, 1, 127, 128, 2**31, 2**32 - 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@QUICK
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), SIZES, SIZES), max_size=12),
)
def test_hostile_section_tables(count: int, rows: list[tuple[int, int, int, int]]) -> None:
    data = bytearray(EXAMPLE)
    data[40:44] = count.to_bytes(4, "little")
    for index, row in enumerate(rows):
        struct.pack_into("<IIQQ", data, ALIGNMENT + 24 * index, *row)
    read(resealed(data))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@QUICK
@given(JSON, st.sampled_from([Section.PROFILES, Section.NAMES]))
def test_any_json(value: object, kind: Section) -> None:
    read(with_section(kind, json.dumps(value).encode()))


@QUICK
@given(st.sampled_from([entry.name for entry in fields(Profile)]), JSON)
def test_any_value_of_a_profile_field(field: str, value: object) -> None:
    profile = asdict(Program.open(EXAMPLE).profiles[0])
    read(with_section(Section.PROFILES, json.dumps([{**profile, field: value}]).encode()))


BOMBS = {
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000,
    "a long number": b"[" + b"9" * 1_000_000 + b"]",
    "many nothings": b"[" + b"null," * 100_000 + b"null]",
    "not text": b"\xff\xfe" * 1000,
    "infinity": b"[Infinity]",
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_json_is_refused(name: str) -> None:
    with pytest.raises(ProgramError):
        Program.open(with_section(Section.PROFILES, BOMBS[name]))


def test_a_table_of_huge_sections_takes_no_memory() -> None:
    data = bytearray(EXAMPLE)
    struct.pack_into("<IIQQ", data, ALIGNMENT, 1, 0, 2**63, 2**63)
    sealed = resealed(data)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedProgram):
            Program.open(sealed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
