"""Whatever a stream says, the device runs it or refuses it in words: no crash, no hang, no memory without bound."""

from __future__ import annotations

import resource
from contextlib import suppress
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.npu.program import COMMAND, Op, Program, ProgramError, ProgramWriter, Space
from edge_agent.runtime.npu import NpuDevice, NpuError, PlanViolation
from edge_agent.runtime.npu.checking import check_profile
from tests.edge_agent.runtime.assembler import Assembler, region, residual_net
from tests.edge_agent.runtime.striped import striped_net

DEVICE = NpuDevice("npu-4t")
FIELDS = [name for name in COMMAND.names or () if name not in ("src", "residual", "dst", "reserved")]
REGION_FIELDS = ["space", "layout", "block", "offset", "rows", "cols", "channels", "row_stride", "pixel_stride"]
REGION_FIELDS += ["ring_rows", "ring_first"]
NUMBERS = st.one_of(
    st.integers(0, 9), st.sampled_from([127, 128, 255, 256, 65535, 2**31, 2**32 - 1]), st.integers(0, 5000)
)


@lru_cache
def sound(name: str) -> Program:
    nets = {"layerwise": residual_net, "striped": striped_net}
    return Program.open(nets[name](blocks=1).program)


@st.composite
def changed_streams(draw: st.DrawFn) -> Program:
    """Draw a sound program with one to three numbers of its stream replaced."""
    program = sound(draw(st.sampled_from(["layerwise", "striped"])))
    stream = program.commands(0).copy()
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(stream) - 2))
        part = draw(st.sampled_from(["command", "src", "residual", "dst"]))
        name = draw(st.sampled_from(FIELDS if part == "command" else REGION_FIELDS))
        target = stream if part == "command" else stream[part]
        width = target.dtype[name].itemsize
        if target.dtype[name].kind == "f":
            target[name][position] = draw(st.floats(width=32, allow_nan=True))
        else:
            target[name][position] = draw(NUMBERS) % (1 << 8 * width)
    writer = ProgramWriter(program.target, program.build_id)
    writer.add_profile(program.profiles[0], stream)
    return Program.open(writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes()))


@given(changed_streams())
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_a_changed_stream_runs_or_is_refused(program: Program) -> None:
    with suppress(NpuError):
        loaded = DEVICE.load(program, bind_all=True)
        DEVICE.infer(loaded, np.zeros(program.profiles[0].input, np.uint8))
        DEVICE.occupancy(loaded, 0)


@given(changed_streams())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_the_checking_mode_survives_a_changed_stream(program: Program) -> None:
    with suppress(NpuError):
        check_profile(program, 0, DEVICE.spec)


@pytest.mark.parametrize(("op", "refused"), [(Op.DMA, False), (Op.SHUFFLE, False), (Op.HOST, True)])
def test_rows_of_weights_without_groups_are_no_crash(op: Op, refused: bool) -> None:
    """The compiler leaves the groups of a copy at 0, unlike the assembler."""
    build, shape = Assembler(names=["a"]), (4, 4, 2)
    source, target = region(Space.DDR, 0, shape), region(Space.DDR, 128, shape)
    offsets = region(Space.DDR, 256, (4, 4, 18))
    more = {"residual": offsets, "mode": 2, "kh": 3, "kw": 3} if op is Op.HOST else {}
    build.command(op, src=source, dst=target, flags=1, weights_row=1, groups=0, **more)
    made = Program.open(build.program(shape, [("y", 128, shape)], 1024))
    if not refused:
        NpuDevice("npu-4t").load(made, bind_all=True)
        return
    with pytest.raises(PlanViolation, match="no group of channels"):
        NpuDevice("npu-4t").load(made, bind_all=True)


@given(st.binary(max_size=4096), st.integers(0, 4000))
@settings(deadline=None, max_examples=100)
def test_bytes_that_are_no_program_are_refused(noise: bytes, at: int) -> None:
    file = bytearray(residual_net(blocks=1).program)
    file[at : at + len(noise)] = noise
    with suppress(ProgramError, NpuError):
        DEVICE.load(Program.open(bytes(file)))


def test_a_small_map_repeated_without_bound_is_refused_before_it_takes_memory() -> None:
    build = Assembler(names=["a"])
    source = region(Space.DDR, 0, (2048, 2048, 16), layout=3, block=16)
    build.command(Op.SHUFFLE, src=source, dst=region(Space.DDR, 0, (1, 1, 16)))
    program = Program.open(build.program((1, 1, 1), [("y", 0, (1, 1, 1))], 1 << 27))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PlanViolation, match="a tensor of"):
        DEVICE.load(program, bind_all=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
