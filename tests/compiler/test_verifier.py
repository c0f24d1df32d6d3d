"""The verifier sees broken rules from the command stream alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from compiler.driver import compile_program, read_model
from compiler.program_builder import build_program
from compiler.verifier import Finding, verify_program
from contracts.npu import COMMAND, Op, Profile, Program, ProgramWriter, load_spec
from contracts.npu.program import FLAG_LAUNCH, FLAG_RESIDUAL_FIRST
from tests.support.models import quality_qdq, vsr_qdq

SPEC = load_spec("npu-4t")
Commands = npt.NDArray[np.void]


def built(model: bytes, sram_bytes: int = SPEC.sram_bytes) -> Program:
    profiles = read_model("model", model, [(64, 96)]).profiles
    return Program.open(build_program(profiles, replace(SPEC, sram_bytes=sram_bytes), bytes(16)).data)


RESIDENT = built(vsr_qdq())
STREAMED = built(vsr_qdq(), 60_000)


def mutated(
    program: Program,
    change: Callable[[Commands], Commands | None],
    profile: Profile | None = None,
    quant: bytes | None = None,
) -> list[Finding]:
    commands = program.commands(0).copy()
    changed = change(commands)
    writer = ProgramWriter(program.target, program.build_id)
    writer.add_profile(profile or program.profiles[0], commands if changed is None else changed)
    data = writer.to_bytes(
        program.names, program.constants.tobytes(), program.quant.tobytes() if quant is None else quant
    )
    return verify_program(Program.open(data), SPEC)


def convolutions(commands: Commands) -> npt.NDArray[np.intp]:
    return np.flatnonzero(commands["op"] == Op.CONV)


@pytest.mark.parametrize("model", [vsr_qdq(), vsr_qdq(kernel=5), quality_qdq()])
@pytest.mark.parametrize("sram_bytes", [SPEC.sram_bytes, 60_000, 20_000])
def test_what_the_compiler_makes_has_no_findings(model: bytes, sram_bytes: int) -> None:
    assert verify_program(built(model, max(sram_bytes, 40_000)), SPEC) == []


def test_unchanged_streams_have_no_findings() -> None:
    for program in (RESIDENT, STREAMED):
        assert mutated(program, lambda commands: None) == []


def _set(position: int, field: str, value: int) -> Callable[[Commands], None]:
    def change(commands: Commands) -> None:
        commands[convolutions(commands)[position]][field] = value

    return change


def _set_region(position: int, region: str, field: str, value: int) -> Callable[[Commands], None]:
    def change(commands: Commands) -> None:
        commands[region][field][convolutions(commands)[position]] = value

    return change


def _shift(position: int, region: str, delta: int) -> Callable[[Commands], None]:
    def change(commands: Commands) -> None:
        commands[region]["offset"][convolutions(commands)[position]] += np.uint32(delta % 2**32)

    return change


def _without(position: int) -> Callable[[Commands], Commands]:
    return lambda commands: np.delete(commands, position)


def _reserved(commands: Commands) -> None:
    commands["reserved"][2][0] = 1


def _clamp_upside_down(commands: Commands) -> None:
    commands["clamp_lo"][convolutions(commands)[1]] = 9
    commands["clamp_hi"][convolutions(commands)[1]] = 8


def _swapped(commands: Commands) -> Commands:
    order = np.arange(len(commands))
    order[[3, 4]] = order[[4, 3]]
    return commands[order]


MUTATIONS: dict[str, tuple[Callable[[Commands], Commands | None], str]] = {
    "source moved": (_shift(1, "src", 128), "read before write"),
    "destination moved": (_shift(1, "dst", 128), "read before write|overlap"),
    "destination over its source": (_set_region(1, "dst", "offset", 0), "overlap|read before write|prologue"),
    "misaligned": (_shift(1, "src", 1), "region"),
    "beyond SRAM": (_set_region(1, "dst", "offset", 4 << 20), "region"),
    "beyond DDR": (_set_region(0, "src", "offset", 1 << 28), "region"),
    "weights over the end": (_set(1, "weights_offset", (4 << 20) - 128), "region"),
    "weights that nobody brought": (_set(1, "weights_offset", 3 << 20), "read before write"),
    "bias misaligned": (_set(1, "bias_offset", 4), "region"),
    "multipliers that nobody brought": (_set(1, "quant_offset", 3 << 20), "read before write"),
    "foreign zero point": (_set(1, "input_zp", 77), "zero point"),
    "foreign output zero point": (_set(0, "out_zp", 77), "zero point"),
    "foreign residual zero point": (_set(2, "b_zp", 77), "zero point"),
    "clamp upside down": (_clamp_upside_down, "quantisation"),
    "larger kernel": (_set(1, "kh", 5), "extents"),
    "larger stride": (_set(1, "sh", 2), "extents"),
    "no stride": (_set(1, "sh", 0), "extents"),
    "no groups": (_set(1, "groups", 0), "extents"),
    "wrong layout": (_set_region(1, "src", "layout", 2), "region"),
    "unknown space": (_set_region(1, "src", "space", 9), "region"),
    "constants as source of a convolution": (_set_region(1, "src", "space", 3), "region"),
    "unknown operation": (_set(1, "op", 99), "operation"),
    "a residual that comes first without a residual": (_set(1, "flags", FLAG_LAUNCH | FLAG_RESIDUAL_FIRST), "form"),
    "the first operand taken off": (_set(2, "b_scale", -1), "quantisation"),
    "no launch": (_set(0, "flags", 0), "launch"),
    "launch inside a kernel": (_set(2, "flags", 1), "launch"),
    "kernel without a name": (_set(1, "kernel", 99), "form"),
    "reserved bytes": (_reserved, "form"),
    "weights not brought": (_without(1), "read before write"),
    "convolution left out": (_without(3), "read before write|dead write|launch|overlap of live"),
    "order changed": (_swapped, "read before write|launch"),
    "addition without a residual": (_set_region(2, "residual", "space", 0), "form|zero point|overlap of live"),
    "wait for nothing": (_set(1, "wait", 5), "event"),
    "early END": (_set(1, "op", 0), "operation"),
}


@pytest.mark.parametrize("flag", [0, FLAG_RESIDUAL_FIRST])
def test_the_second_operand_alone_may_be_taken_off(flag: int) -> None:
    def taken_off(field: str) -> Callable[[Commands], None]:
        def change(commands: Commands) -> None:
            index = convolutions(commands)[2]
            commands["flags"][index] = commands["flags"][index] & ~np.uint8(FLAG_RESIDUAL_FIRST) | np.uint8(flag)
            commands[field][index] *= -1

        return change

    fields = ["a_scale", "b_scale"] if flag else ["b_scale", "a_scale"]
    assert mutated(RESIDENT, taken_off(fields[0])) == []
    assert [finding.rule for finding in mutated(RESIDENT, taken_off(fields[1]))] == ["quantisation"]


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_harmful_change_is_found(name: str) -> None:
    change, rule = MUTATIONS[name]
    findings = mutated(RESIDENT, change)
    assert findings, name
    assert any(finding.rule in rule.split("|") or _starts(finding.rule, rule) for finding in findings), findings


def _starts(found: str, rules: str) -> bool:
    return any(found.startswith(rule) for rule in rules.split("|") if rule)


def test_missing_waits_between_the_queues_are_found() -> None:
    def change(commands: Commands) -> None:
        commands["wait"] = 0

    assert {finding.rule for finding in mutated(STREAMED, change)} == {"wait"}


WAITING = [i for i, c in enumerate(STREAMED.commands(0)) if c["wait"] and c["op"] == Op.CONV]


@pytest.mark.parametrize("position", WAITING)
def test_a_kernel_must_wait_for_its_weights(position: int) -> None:
    def change(commands: Commands) -> None:
        commands["wait"][position] = 0

    assert mutated(STREAMED, change)


def test_events_must_rise() -> None:
    def change(commands: Commands) -> None:
        signalling = np.flatnonzero(commands["event"])
        commands["event"][signalling[1]] = commands["event"][signalling[0]]

    assert any(finding.rule == "event" for finding in mutated(STREAMED, change))


def test_two_values_in_one_place_are_found_as_a_dead_write() -> None:
    def change(commands: Commands) -> None:
        index = convolutions(commands)
        commands["dst"]["offset"][index[1]] = commands["dst"]["offset"][index[0]]

    rules = {finding.rule for finding in mutated(RESIDENT, change)}
    assert rules & {"overlap", "overlap of live ranges", "read before write"}


def test_a_value_that_is_overwritten_before_anyone_reads_it_is_found() -> None:
    def change(commands: Commands) -> Commands:
        first = convolutions(commands)[0]
        doubled = commands[np.insert(np.arange(len(commands)), first, first)]
        doubled["flags"][first + 1] = 0
        return doubled

    rules = [finding.rule for finding in mutated(RESIDENT, change)]
    assert rules == ["overlap of live ranges", "profile"]  # the traffic is no longer what the profile says


def test_an_output_that_is_never_written_is_found() -> None:
    profile = RESIDENT.profiles[0]
    moved = replace(profile, outputs=(replace(profile.outputs[0], ddr_offset=0),))
    findings = mutated(RESIDENT, lambda commands: None, moved)
    assert {finding.rule for finding in findings} & {"rows", "read before write"}


def test_a_multiplier_that_is_not_finite_is_found() -> None:
    quant = bytearray(RESIDENT.quant.tobytes())
    quant[:4] = np.float32("nan").tobytes()
    assert [f.rule for f in mutated(RESIDENT, lambda c: None, quant=bytes(quant))] == ["quantisation"]


def test_a_program_for_another_target_is_found() -> None:
    data, _ = compile_program(vsr_qdq(), "npu-2t", [(64, 96)])
    assert [finding.rule for finding in verify_program(Program.open(data), SPEC)] == ["target"]


def test_random_commands_never_crash_the_verifier() -> None:
    random = np.random.default_rng(0)
    for _ in range(150):

        def change(commands: Commands) -> None:
            raw = commands.view(np.uint8).reshape(len(commands), COMMAND.itemsize)
            for _ in range(int(random.integers(1, 6))):
                raw[random.integers(0, len(raw) - 1), random.integers(0, 157)] = random.integers(0, 256)

        mutated(RESIDENT, change)


@pytest.mark.parametrize(
    "field", ["input_height", "input_zero_point", "input_offset", "n_prologue", "ddr_extent", "sram_peak"]
)
@pytest.mark.parametrize("value", ["7", None, -1, 2.5, [3]])
def test_a_profile_without_sense_is_a_finding(field: str, value: object) -> None:
    lie = replace(RESIDENT.profiles[0], **{field: value})
    assert [finding.rule for finding in mutated(RESIDENT, lambda commands: None, lie)] == ["profile"]
