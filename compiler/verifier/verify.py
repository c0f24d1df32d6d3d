"""Walk each stream once and check every rule of ``docs/reference/program.md``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from compiler.verifier.commands import Command, decode, form_problem, reserved_set
from compiler.verifier.constants import Coverage, Roles
from compiler.verifier.convolution import check_conv, check_pool
from compiler.verifier.elementwise import check_pair, check_table
from compiler.verifier.findings import Finding
from compiler.verifier.frame import Frame
from compiler.verifier.host import check_host, check_resize
from compiler.verifier.movement import check_dma, check_shuffle
from compiler.verifier.queues import COMPUTE, DMA
from compiler.verifier.traffic import check_traffic
from compiler.verifier.witness import Key, Said
from contracts.npu import NpuSpec, Op, OutputTensor, Profile, Program, Space, StateTensor

CHECKS: dict[int, Callable[[Frame, int, Command], None]] = {
    Op.DMA: check_dma,
    Op.CONV: check_conv,
    Op.ADD: check_pair,
    Op.SHUFFLE: check_shuffle,
    Op.TABLE: check_table,
    Op.POOL: check_pool,
    Op.MUL: check_pair,
    Op.RESIZE: check_resize,
    Op.HOST: check_host,
}


def verify_program(program: Program, spec: NpuSpec) -> list[Finding]:
    """All broken rules; an empty list means that the program may run."""
    if program.target != spec.name:
        return [Finding("-", -1, "target", f"compiled for {program.target}, not {spec.name}")]
    findings = _quant_findings(program, spec)
    coverage = Coverage()
    said: dict[Key, Said] = {}
    for index, profile in enumerate(program.profiles):
        senseless = _senseless(profile)
        if senseless:
            findings.append(Finding(str(profile.name), -1, "profile", f"{senseless} is no number of the right kind"))
            continue
        frame = Frame(program, spec, profile, Roles(profile.name, spec.alignment, coverage))
        _walk(frame, program.commands(index))
        frame.witness.finish(frame.report, frame.memory.values, profile.name, said)
        findings += frame.report.findings
    sections = {int(Space.CONST): program.constants, int(Space.QUANT): program.quant}
    for space, low, high in coverage.gaps(spec.alignment, sections):
        text = f"bytes {low}..{high} of section {Space(space).name} are brought and never read"
        findings.append(Finding("-", -1, "constants", text))
    return findings


def _senseless(profile: Profile) -> str | None:
    """The first field of a profile that is not of its type; JSON may hold anything."""
    owners: tuple[Profile | OutputTensor | StateTensor, ...] = (profile, *profile.outputs, *profile.states)
    for owner in owners:
        for entry in fields(owner):
            value = getattr(owner, entry.name)
            whole = entry.type == "int" and (type(value) is not int or value < 0)
            real = entry.type == "float" and type(value) not in (int, float)
            if whole or real or (entry.type == "str" and not isinstance(value, str)):
                return entry.name
    return None


def _walk(frame: Frame, stream: npt.NDArray[np.void]) -> None:
    _profile(frame, len(stream))
    commands = decode(stream)
    for index in reserved_set(stream):
        frame.report.add(index, "form", "reserved bytes are set")
    for index, command in enumerate(commands[:-1]):
        if index == frame.profile.n_prologue:
            _begin(frame)
        _command(frame, index, command)
    if frame.profile.n_prologue >= len(commands) - 1:
        _begin(frame)
    frame.memory.queues.drain(len(commands))
    left: tuple[OutputTensor | StateTensor, ...] = (*frame.profile.outputs, *frame.profile.states)
    for output in left:
        _output(frame, len(commands) - 1, output)
    frame.memory.finish()
    frame.stripes.finish()
    frame.memory.roles.finish(frame.report)
    check_traffic(frame.report, frame.profile, frame.spec, commands, frame.sram_end)


def _profile(frame: Frame, commands: int) -> None:
    profile, spec = frame.profile, frame.spec
    if not 0 <= profile.n_prologue < commands:
        frame.report.add(-1, "profile", f"a prologue of {profile.n_prologue} commands in a stream of {commands}")
    if profile.streams < 1 or profile.input_height % max(profile.streams, 1):
        frame.report.add(-1, "profile", f"{profile.input_height} rows are not {profile.streams} frames")
    if profile.sram_peak > spec.sram_bytes or profile.ddr_extent > spec.ddr_bytes:
        text = f"peak {profile.sram_peak} or DDR {profile.ddr_extent} exceeds the target"
        frame.report.add(-1, "profile", text)


def _begin(frame: Frame) -> None:
    region = frame.image(-1, frame.profile.input_offset, frame.profile.input, "input")
    if region is not None:
        for stream, part in enumerate(region.split(frame.profile.streams)):
            frame.memory.begin_frame(f"frame {stream}", part, frame.profile.input_zero_point, frame.input_scale())
    for state in frame.profile.states:
        what = f"state {state.name}"
        region = frame.image(-1, state.ddr_offset, (state.height, state.width, state.channels), what)
        if region is not None:
            frame.memory.begin_frame(what, region, state.zero_point, float(np.float32(state.scale)))


def _command(frame: Frame, index: int, command: Command) -> None:
    queue = DMA if command.op == Op.DMA else COMPUTE
    if command.op not in CHECKS:
        frame.report.add(index, "operation", f"op {command.op} is unknown")
        return
    trouble = form_problem(command)
    if trouble or command.kernel >= len(frame.program.names):
        frame.report.add(index, "form", trouble or f"kernel {command.kernel} has no name")
    frame.memory.queues.begin(index, queue, command.wait)
    if queue == COMPUTE:
        frame.launches.command(index, command)
        if index < frame.profile.n_prologue:
            frame.report.add(index, "prologue", "only DMA commands may stand in the prologue")
    CHECKS[command.op](frame, index, command)
    frame.memory.queues.signal(index, queue, command.event)


def _output(frame: Frame, end: int, output: OutputTensor | StateTensor) -> None:
    what = f"output {output.name}"
    region = frame.image(end, output.ddr_offset, (output.height, output.width, output.channels), what)
    if region is None:
        return
    for part in region.split(frame.profile.streams):
        operand = frame.operand(end, part, output.zero_point, what)
        frame.scale(end, operand, float(np.float32(output.scale)), what)
        frame.whole(end, operand, what)


def _quant_findings(program: Program, spec: NpuSpec) -> list[Finding]:
    size = len(program.quant)
    if size % 4 or size > spec.quant_zone_bytes:
        text = f"table of {size} bytes is no list of float32 within {spec.quant_zone_bytes}"
        return [Finding("-", -1, "quantisation", text)]
    table = program.quant.view("<f4")
    if np.isfinite(table).all() and (table >= 0).all():
        return []
    return [Finding("-", -1, "quantisation", "the table holds a multiplier that is negative or not finite")]
