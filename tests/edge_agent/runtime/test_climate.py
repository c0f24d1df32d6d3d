"""Devices heat up, slow down, cool, recover and run empty; kernel sets follow without flapping."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.npu.program import Op, Program, ProgramWriter
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu import ClimateModel, NpuDevice
from edge_agent.runtime.npu.climate import Conditions, DeviceClimate
from edge_agent.runtime.npu.kernel_sets import KernelSet, KernelSetLimits, switch_due
from tests.edge_agent.runtime.assembler import residual_net

SPEC = load_spec("npu-4t")
HOT = ClimateModel(ambient_c=60.0)
shares = st.floats(0.0, 1.0)
work = st.lists(st.tuples(st.floats(0.0, 120.0), shares), max_size=40)


@given(work, st.floats(-20.0, 80.0))
@settings(deadline=None)
def test_the_temperature_never_passes_the_steady_state_of_full_work(
    steps: list[tuple[float, float]], ambient: float
) -> None:
    climate = DeviceClimate(SPEC, ClimateModel(ambient_c=ambient))
    highest = climate.steady_c(1.0, point=0)
    for seconds, busy in steps:
        now = climate.pass_time(seconds, busy)
        assert ambient - 1e-6 <= now.temperature_c <= highest + 1e-6


@given(work)
@settings(deadline=None)
def test_time_and_charge_only_go_one_way(steps: list[tuple[float, float]]) -> None:
    climate = DeviceClimate(SPEC, ClimateModel(battery_wh=0.5))
    for seconds, busy in steps:
        before, now = climate.now, climate.pass_time(seconds, busy)
        assert now.seconds == pytest.approx(before.seconds + seconds)
        assert 0.0 <= now.charge <= before.charge


@given(work, st.integers(2, 20))
@settings(deadline=None, max_examples=40)
def test_one_step_or_many_end_at_the_same_temperature(steps: list[tuple[float, float]], parts: int) -> None:
    whole, split = (DeviceClimate(SPEC, ClimateModel(ambient_c=30.0)) for _ in range(2))  # too cool to throttle
    for seconds, busy in steps:
        whole.pass_time(seconds, busy)
        for _ in range(parts):
            split.pass_time(seconds / parts, busy)
    assert whole.now.temperature_c == pytest.approx(split.now.temperature_c, abs=1e-6)
    assert whole.now.charge == pytest.approx(split.now.charge)


def run(climate: DeviceClimate, seconds: float, busy: float) -> list[Conditions]:
    return [climate.pass_time(0.5, busy) for _ in range(int(seconds / 0.5))]


def test_heat_slows_the_clock_and_cooling_gives_it_back() -> None:
    climate = DeviceClimate(SPEC, HOT)
    working = run(climate, 600, 1.0)
    assert {now.point for now in working} >= {0, 1}
    assert max(now.temperature_c for now in working) < SPEC.thermal.throttle_c + 2
    resting = run(climate, 600, 0.0)
    assert resting[-1].point == 0
    assert resting[-1].temperature_c < SPEC.thermal.release_c


def test_a_slower_clock_draws_less_than_its_share_of_power() -> None:
    climate = DeviceClimate(SPEC)
    active = [climate.power_w(1.0, point) - SPEC.thermal.idle_w for point in range(len(SPEC.dvfs))]
    for watts, point in zip(active, SPEC.dvfs, strict=True):
        assert watts <= active[0] * point.mhz / SPEC.dvfs[0].mhz + 1e-9
    assert active == sorted(active, reverse=True)


def test_the_clock_steps_at_most_once_in_its_step_time() -> None:
    climate = DeviceClimate(SPEC, ClimateModel(ambient_c=95.0, step_s=10.0))
    points = [0, *(now.point for now in run(climate, 30, 1.0))]
    changes = [index for index in range(1, len(points)) if points[index] != points[index - 1]]
    assert all(b - a >= 20 for a, b in pairwise(changes))
    assert points[-1] == len(SPEC.dvfs) - 1


def test_a_battery_lasts_as_long_as_its_capacity_says() -> None:
    climate = DeviceClimate(SPEC, ClimateModel(battery_wh=1.0, other_w=0.5))
    climate.pass_time(1800, 1.0)
    assert climate.now.charge == pytest.approx(max(0.0, 1.0 - (SPEC.thermal.peak_w + 0.5) / 2))
    mains = DeviceClimate(SPEC, ClimateModel(battery_wh=0.0))
    mains.pass_time(1e6, 1.0)
    assert mains.now.charge == 1.0


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        DeviceClimate(SPEC).pass_time(-1.0)


def test_a_device_with_a_climate_gets_slower_as_it_heats_up_and_recovers_when_idle() -> None:
    net = residual_net()
    device = NpuDevice("npu-4t", jitter=0.0, climate=ClimateModel(ambient_c=90.0, step_s=0.0))
    loaded = device.load(Program.open(net.program))
    frame = np.zeros(net.size, np.uint8)
    results = [device.infer(loaded, frame) for _ in range(4)]
    assert results[3].simulated_ms == pytest.approx(2 * results[1].simulated_ms, rel=0.4)
    assert device.mhz == SPEC.dvfs[-1].mhz
    assert [result.began_s for result in results] == sorted({result.began_s for result in results})
    cool = NpuDevice("npu-4t", jitter=0.0, climate=ClimateModel(ambient_c=20.0))
    cool.infer(cool.load(Program.open(net.program)), frame)
    assert cool.mhz == SPEC.dvfs[0].mhz
    cool.idle(100.0)
    assert cool.conditions is not None
    assert cool.conditions.temperature_c == pytest.approx(20.0 + 12.0 * SPEC.thermal.idle_w, abs=1.0)


@pytest.mark.parametrize("climate", [None, HOT])
def test_a_frame_without_work_takes_no_time_and_heats_nothing(climate: ClimateModel | None) -> None:
    program = Program.open(residual_net().program)
    stream = program.commands(0).copy()
    stream["op"][program.profiles[0].n_prologue] = Op.END
    writer = ProgramWriter(program.target, program.build_id)
    writer.add_profile(program.profiles[0], stream)
    made = Program.open(writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes()))
    device = NpuDevice("npu-4t", jitter=0.0, climate=climate)
    result = device.infer(device.load(made), np.zeros(made.profiles[0].input, np.uint8))
    assert result.time.total_ns == 0.0
    assert device.conditions is None or device.conditions.temperature_c == pytest.approx(60.0, abs=0.1)


def test_a_device_without_a_climate_has_no_conditions() -> None:
    net = residual_net()
    device = NpuDevice("npu-4t")
    assert device.infer(device.load(Program.open(net.program)), np.zeros(net.size, np.uint8)).conditions is None
    assert device.conditions is None


def at(temperature: float, charge: float = 1.0) -> Conditions:
    return Conditions(0.0, temperature, charge, 0)


LIMITS = KernelSetLimits()


@pytest.mark.parametrize(
    ("current", "now", "after"),
    [
        (KernelSet.BIG, at(60.0), None),
        (KernelSet.BIG, at(80.0), KernelSet.LITTLE),
        (KernelSet.BIG, at(30.0, 0.15), KernelSet.LITTLE),
        (KernelSet.LITTLE, at(75.0), None),
        (KernelSet.LITTLE, at(65.0, 0.2), None),
        (KernelSet.LITTLE, at(65.0, 0.3), KernelSet.BIG),
    ],
)
def test_the_kernel_set_follows_heat_and_charge(current: KernelSet, now: Conditions, after: KernelSet | None) -> None:
    switch = switch_due(current, now, LIMITS)
    assert (switch.after if switch else None) == after


@given(st.lists(st.tuples(st.floats(20.0, 100.0), shares), min_size=2, max_size=50))
@settings(deadline=None)
def test_the_same_conditions_twice_never_switch_twice(moments: list[tuple[float, float]]) -> None:
    current = KernelSet.BIG
    for moment in moments:
        for repeat in range(2):
            switch = switch_due(current, at(*moment), LIMITS)
            assert not (repeat and switch)
            current = switch.after if switch else current


def test_thresholds_without_a_gap_are_refused() -> None:
    with pytest.raises(ValueError, match="flap"):
        KernelSetLimits(hot_c=70.0, cool_c=70.0)
