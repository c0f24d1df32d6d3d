"""Going from one profile to another on a device: what is loaded again, what it costs, what it must not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contracts.npu.program import Program, ProgramWriter
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu.bound import BoundProfile
from edge_agent.runtime.npu.switching import measure_switch
from tests.edge_agent.runtime import reference
from tests.edge_agent.runtime.assembler import Net, residual_net
from tests.edge_agent.runtime.striped import striped_net


def two_profiles(small: Net, large: Net) -> Program:
    """Return one program of two nets of the same constants, which lie at the same place."""
    programs = [Program.open(net.program) for net in (small, large)]
    assert np.array_equal(programs[0].constants, programs[1].constants)
    writer = ProgramWriter(programs[0].target, programs[0].build_id)
    for index, program in enumerate(programs):
        writer.add_profile(replace(program.profiles[0], name=f"p{index}"), program.commands(0))
    first = programs[0]
    return Program.open(writer.to_bytes(first.names, first.constants.tobytes(), first.quant.tobytes()))


NETS = striped_net(24, 16, seed=5), striped_net(32, 24, seed=5)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of profiles whose constants were loaded, in order."""
    seen: list[str] = []
    load = BoundProfile.load_constants

    def counted(self: BoundProfile) -> None:
        seen.append(self.profile.name)
        load(self)

    monkeypatch.setattr(BoundProfile, "load_constants", counted)
    return seen


@pytest.mark.parametrize("shared", [False, True])
def test_profiles_that_share_their_constants_load_them_once(loads: list[str], shared: bool) -> None:
    device = NpuDevice("npu-4t", shared=shared)
    loaded = device.load(two_profiles(*NETS), bind_all=True)
    for seed in range(3):
        for net in NETS:
            frame = np.random.default_rng(seed).integers(0, 256, net.size, dtype=np.uint8)
            assert np.array_equal(device.infer(loaded, frame).outputs["y"], reference.residual_net(net, frame))
    assert len(loads) <= 1 if shared else len(loads) == 1


def test_profiles_with_constants_elsewhere_load_them_again(loads: list[str]) -> None:
    nets = residual_net(24, 16, seed=5), striped_net(32, 24, seed=5)
    device = NpuDevice("npu-4t")
    loaded = [device.load(Program.open(net.program), bind_all=True) for net in nets]
    for seed in range(2):
        for net, program in zip(nets, loaded, strict=True):
            frame = np.random.default_rng(seed).integers(0, 256, net.size, dtype=np.uint8)
            assert np.array_equal(device.infer(program, frame).outputs["y"], reference.residual_net(net, frame))
    assert len(loads) == 4


def test_a_frame_that_writes_over_its_constants_never_shares_them(loads: list[str]) -> None:
    programs = []
    for net in NETS:
        program = Program.open(net.program)
        stream = program.commands(0).copy()
        dma = stream["dst"]["offset"][0]
        writes = np.flatnonzero((np.arange(len(stream)) >= program.profiles[0].n_prologue) & (stream["op"] == 2))
        stream["dst"]["offset"][writes[0]] = dma
        writer = ProgramWriter(program.target, program.build_id)
        writer.add_profile(program.profiles[0], stream)
        programs.append(writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes()))
    broken = [replace(net, program=program) for net, program in zip(NETS, programs, strict=True)]
    device = NpuDevice("npu-4t")
    loaded = device.load(two_profiles(*broken), bind_all=True)
    for _ in range(2):
        for net in broken:
            device.infer(loaded, np.zeros(net.size, np.uint8))
    assert len(loads) == 4


def test_a_switch_is_free_in_simulated_time_and_takes_no_memory() -> None:
    device = NpuDevice("npu-4t", jitter=0.0)
    loaded = device.load(two_profiles(*NETS), bind_all=True)
    cost = measure_switch(device, loaded, ["p0", "p1"])
    assert cost.simulated_ms == 0.0
    assert cost.array_bytes == 0
    assert cost.peak_bytes < 4096  # Python's own numbers and tuples, no map and no constant
    frame = np.zeros(NETS[1].size, np.uint8)
    steady = [device.infer(loaded, frame).simulated_ms for _ in range(2)]
    assert steady[0] == steady[1]


def test_a_switch_needs_two_profiles() -> None:
    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(NETS[0].program))
    with pytest.raises(ValueError, match="two profiles"):
        measure_switch(device, loaded, [0])
