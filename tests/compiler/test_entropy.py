"""Entropy-coded constants: smaller where that wins, the same program after decoding, and honest about damage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.coding import chosen
from compiler.driver import compile_bundle, compile_program
from compiler.entropy import LANES, coded, decoded, expanded, quantised_frequencies
from compiler.errors import CompileError
from compiler.inspection import inspect_file
from compiler.limits import LIMITS
from compiler.options import AUTO, NONE, OFF, ON, CompileOptions
from compiler.report import CompileReport
from compiler.verifier import verify_program
from contracts.bundle import Bundle
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
    assert -(-len(found) // 128) < -(-len(data) // 128), "a file holds whole blocks of 128 bytes"
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
    with pytest.raises(CompileError, match="write auto, on or off"):
        CompileOptions(entropy="zip")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, CompileReport]]:
    """The seeds as bundles: what a release holds, by the choice of its constants."""
    folder, made = tmp_path_factory.mktemp("bundles"), {}
    quality, observer = ((SEEDS / name).read_bytes() for name in ("quality.onnx", "observer.npz"))
    for choice in (OFF, AUTO, ON):
        out = folder / f"{choice}.elb"
        options = CompileOptions(entropy=choice)
        made[choice] = (
            out,
            compile_bundle(MODEL, quality, observer, ("npu-4t", "npu-2t"), SIZES[:1], {}, out, "1", 1, options=options),
        )
    return made


def test_auto_codes_what_is_worth_it_and_on_whatever_gets_smaller(
    bundles: dict[str, tuple[Path, CompileReport]],
) -> None:
    sizes = [bundles[choice][1].size for choice in (OFF, AUTO, ON)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3
    saved = {
        choice: {one.program: one.coding.saved for one in bundles[choice][1].programs} for choice in (OFF, AUTO, ON)
    }
    assert set(saved[OFF].values()) == {0.0}
    assert saved[AUTO]["model"] == saved[AUTO]["model-little"] == saved[ON]["model"] > 0.03
    assert (saved[AUTO]["quality"], 0.0 < saved[ON]["quality"] < 0.03) == (0.0, True)


@pytest.mark.parametrize("choice", [AUTO, ON])
@pytest.mark.parametrize("target", ["npu-4t", "npu-2t"])
def test_every_program_of_a_coded_bundle_computes_the_same_bytes(
    bundles: dict[str, tuple[Path, CompileReport]], target: str, choice: str
) -> None:
    frame = np.random.default_rng(5).integers(0, 256, (72, 88, 3), dtype=np.uint8)
    plain, small = Bundle.open(bundles[OFF][0]), Bundle.open(bundles[choice][0])
    for report in bundles[choice][1].programs:
        if report.target != target:
            continue
        outputs = []
        for bundle in (plain, small):
            device = NpuDevice(load_spec(target), seed=1)
            loaded = device.load(bundle.program(target, report.program))
            outputs.append(device.infer(loaded, frame).outputs)
        assert outputs[0].keys() == outputs[1].keys()
        assert all(np.array_equal(outputs[0][name], outputs[1][name]) for name in outputs[0])
        charged = loaded.decode_ns(load_spec(target)) / 1e6
        assert report.coding.decode_ms == pytest.approx(charged), "compiler and device charge alike"


def test_off_and_none_write_what_was_always_written(bundles: dict[str, tuple[Path, CompileReport]]) -> None:
    assert CompileOptions(entropy=OFF) == CompileOptions(entropy=NONE) == CompileOptions()
    bundle = Bundle.open(bundles[OFF][0])
    assert all(bundle.program(one.target, one.program).coded is None for one in bundles[OFF][1].programs)


def test_the_report_says_what_was_saved_what_it_costs_and_why_not(
    bundles: dict[str, tuple[Path, CompileReport]],
) -> None:
    told = {(one["target"], one["program"]): one for one in inspect_file(bundles[AUTO][0])["programs"]}  # type: ignore[attr-defined]
    model, quality = told["npu-4t", "model"], told["npu-4t", "quality"]
    assert model["constants_stored"] < model["constants_bytes"]
    assert 0.0 < model["decode_ms"] < LIMITS.decode_ms
    share = 1 - model["constants_stored"] / model["constants_bytes"]
    assert f"({share:.1%} less), decoded once at load in {model['decode_ms']:.3f} ms" in model["constants_note"]
    assert (quality["constants_stored"], quality["decode_ms"]) == (quality["constants_bytes"], 0.0)
    assert quality["constants_note"].startswith("constants plain: coding saves 2.")
    plain = inspect_file(bundles[OFF][0])["programs"]
    assert {(one["decode_ms"], one["constants_note"]) for one in plain} == {(0.0, "")}  # type: ignore[attr-defined]


def test_auto_leaves_plain_what_would_hold_up_a_load() -> None:
    data, spec = bell(64 * LANES), load_spec("npu-4t")
    slow = replace(spec, host_elements_per_ns=len(data) / (LIMITS.decode_ms * 1e6))
    assert chosen(data, spec, AUTO)[0] is not None
    section, coding = chosen(data, slow, AUTO)
    assert (section, coding.stored, coding.decode_ms) == (None, len(data), 0.0)
    assert "more than the 2 ms that a load may take" in coding.note
    assert chosen(data, slow, ON)[0] is not None, "on asks for nothing but a smaller file"
