"""Entropy-coded constants: smaller where that wins, the same program after decoding, and honest about damage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.driver import compile_program
from compiler.entropy import LANES, coded, decoded, expanded, quantised_frequencies
from compiler.errors import CompileError
from compiler.options import AUTO, CompileOptions
from compiler.verifier import verify_program
from contracts.npu import Program, load_spec
from contracts.npu.errors import DamagedProgram
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu.coded import decoded as device_decoded
from edge_agent.runtime.npu.errors import ProgramRefused
from flows.model_store import SEEDS
from tests.support.scalar_coder import VECTOR, encode, sample

MODEL = (SEEDS / "v1.onnx").read_bytes()
SIZES = ((72, 88), (136, 160))
_WORD = 1032


def bell(count: int, seed: int = 0, spread: float = 12.0) -> bytes:
    values = np.random.default_rng(seed).normal(0.0, spread, count).round().clip(-127, 127).astype(np.int8)
    return values.tobytes()


def as_device(section: bytes) -> bytes:
    """What the device makes of a section."""
    program = Program(
        "t", b"", (), (), np.empty(0, np.uint8), np.empty(0, np.uint8), (), np.frombuffer(section, np.uint8)
    )
    return device_decoded(program).constants.tobytes()


def test_golden_vector_is_what_the_text_says_and_both_decoders_read_it() -> None:
    vector = json.loads(VECTOR.read_text())
    constants, section = bytes.fromhex(vector["constants"]), bytes.fromhex(vector["section"])
    assert (constants, section) == (sample()[0], encode(*sample())), (
        "python -m tests.support.scalar_coder writes it again"
    )
    assert decoded(np.frombuffer(section, np.uint8)).tobytes() == constants
    assert as_device(section) == constants


def test_the_compiler_codes_exactly_as_the_text_says() -> None:
    data = bell(64 * LANES)
    found = coded(data)
    assert found is not None
    frequencies = quantised_frequencies(np.bincount(np.frombuffer(data, np.uint8), minlength=256))
    assert found == encode(data, [int(share) for share in frequencies])
    assert len(found) < len(data)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(0.2, 60.0), st.integers(0, 3))
def test_whatever_is_coded_comes_back_on_both_sides(rows: int, seed: int, spread: float, kind: int) -> None:
    data = bytes(rows * LANES) if kind == 3 else bell(rows * LANES, seed, spread)
    found = coded(data)
    if found is None:
        return
    assert len(found) < len(data)
    assert decoded(np.frombuffer(found, np.uint8)).tobytes() == data
    assert as_device(found) == data


def test_what_does_not_win_is_left_plain() -> None:
    noise = np.random.default_rng(1).integers(0, 256, 64 * LANES, dtype=np.uint8).tobytes()
    assert coded(noise) is None
    assert coded(b"") is None
    assert coded(bytes(4 * LANES)) is None, "the head alone is larger"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_one_changed_byte_is_refused_or_gives_other_constants_never_a_crash(place: int, change: int) -> None:
    section = bytearray(coded(bell(64 * LANES)) or b"")
    section[place % len(section)] ^= change
    answers = []
    for decode, refusal in (
        (lambda data: decoded(np.frombuffer(data, np.uint8)).tobytes(), DamagedProgram),
        (as_device, ProgramRefused),
    ):
        try:
            answers.append(decode(bytes(section)))
        except refusal:
            answers.append(None)
    assert answers[0] == answers[1], "compiler and device judge alike"


@pytest.mark.parametrize("keep", [0, 7, 8, 519, 1031, _WORD, -2])
def test_cut_section_is_refused(keep: int) -> None:
    section = (coded(bell(64 * LANES)) or b"")[:keep]
    with pytest.raises(DamagedProgram, match="section CODED"):
        decoded(np.frombuffer(section, np.uint8))
    with pytest.raises(ProgramRefused, match="section CODED"):
        as_device(section)


def test_huge_length_is_refused_before_it_is_decoded() -> None:
    section = bytearray(coded(bell(64 * LANES)) or b"")
    section[:4] = (2**32 - LANES).to_bytes(4, "little")
    with pytest.raises(ProgramRefused):
        as_device(bytes(section))


@pytest.fixture(scope="module")
def both() -> tuple[bytes, bytes]:
    """The seed model's program, plain and coded."""
    plain, _ = compile_program(MODEL, "npu-4t", SIZES)
    small, _ = compile_program(MODEL, "npu-4t", SIZES, CompileOptions(entropy=AUTO))
    return plain, small


def test_coded_program_is_smaller_and_the_same_after_decoding(both: tuple[bytes, bytes]) -> None:
    plain, small = Program.open(both[0]), Program.open(both[1])
    assert len(both[1]) < len(both[0])
    assert (plain.coded, small.constants.size) == (None, 0)
    assert np.array_equal(expanded(small).constants, plain.constants)
    assert all(np.array_equal(plain.commands(index), small.commands(index)) for index in range(len(SIZES)))
    assert verify_program(expanded(small), load_spec("npu-4t")) == []


def test_plain_program_stays_in_its_old_format(both: tuple[bytes, bytes]) -> None:
    formats = [int.from_bytes(data[4:6], "little") for data in both]
    assert formats[0] < 4
    assert formats[1] == 4


def test_device_gives_the_same_pixels_and_pays_once_at_load(both: tuple[bytes, bytes]) -> None:
    frame = np.random.default_rng(3).integers(0, 256, (72, 88, 3), dtype=np.uint8)
    devices = [NpuDevice(load_spec("npu-4t"), seed=1) for _ in both]
    loaded = [device.load(Program.open(data)) for device, data in zip(devices, both, strict=True)]
    results = [device.infer(program, frame) for device, program in zip(devices, loaded, strict=True)]
    assert np.array_equal(next(iter(results[0].outputs.values())), next(iter(results[1].outputs.values())))
    assert results[0].simulated_ms == results[1].simulated_ms, "a frame pays nothing"
    spec = load_spec("npu-4t")
    count = len(loaded[0].program.constants)
    wanted = spec.host_call_us * 1000 + count / spec.host_elements_per_ns
    assert [program.decode_ns(spec) for program in loaded] == [0.0, wanted]
    assert results[1].began_s - results[0].began_s == pytest.approx(wanted / 1e9)


def test_coded_section_in_an_older_format_is_refused(both: tuple[bytes, bytes]) -> None:
    data = bytearray(both[1])
    data[4:6] = (3).to_bytes(2, "little")
    with pytest.raises(DamagedProgram, match="coded constants in format 3"):
        Program.open(bytes(data))


def test_unknown_choice_is_refused() -> None:
    with pytest.raises(CompileError, match="write auto or none"):
        CompileOptions(entropy="zip")
