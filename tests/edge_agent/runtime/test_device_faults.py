"""Devices that fail as they are told, throttle, and differ a little from each other."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.npu.program import Program
from edge_agent.runtime.npu import (
    DeviceHang,
    DriverError,
    Faults,
    NpuDevice,
)
from tests.edge_agent.runtime import reference
from tests.edge_agent.runtime.assembler import residual_net


def frames(size: tuple[int, int, int], count: int = 3) -> list[np.ndarray]:
    random = np.random.default_rng(9)
    return [random.integers(0, 256, size, dtype=np.uint8) for _ in range(count)]


def test_driver_errors_come_at_their_rate_and_leave_the_device_usable() -> None:
    net = residual_net(blocks=1)
    device = NpuDevice("npu-4t", faults=Faults(driver_error_rate=0.3), seed=4)
    loaded = device.load(Program.open(net.program))
    frame, failed = frames(net.size)[0], 0
    for _ in range(200):
        try:
            assert np.array_equal(device.infer(loaded, frame).outputs["y"], reference.residual_net(net, frame))
        except DriverError:
            failed += 1
    assert 35 <= failed <= 85


def test_a_hang_ends_with_its_own_error() -> None:
    net = residual_net()
    device = NpuDevice("npu-4t", faults=Faults(hang_rate=1.0))
    with pytest.raises(DeviceHang, match="500 ms"):
        device.infer(device.load(Program.open(net.program)), frames(net.size)[0])


def test_a_bit_flip_changes_pixels_and_is_gone_in_the_next_healthy_run() -> None:
    net = residual_net()
    device = NpuDevice("npu-4t", faults=Faults(bit_flip_rate=1.0, match="tail"), seed=2)
    loaded = device.load(Program.open(net.program))
    frame = frames(net.size)[0]
    expected = reference.residual_net(net, frame)
    changed = device.infer(loaded, frame).outputs["y"] != expected
    assert np.count_nonzero(changed) == 1
    device.set_faults(Faults())
    assert np.array_equal(device.infer(device.load(Program.open(net.program)), frame).outputs["y"], expected)


def test_faults_that_match_another_build_leave_this_one_alone() -> None:
    net = residual_net()
    frame = frames(net.size)[0]
    other = NpuDevice("npu-4t", faults=Faults(driver_error_rate=1.0, match="ffee"))
    other.infer(other.load(Program.open(net.program)), frame)
    for match in ("000102", "^block1$"):
        device = NpuDevice("npu-4t", faults=Faults(driver_error_rate=1.0, match=match))
        with pytest.raises(DriverError):
            device.infer(device.load(Program.open(net.program)), frame)


def test_a_slow_clock_stretches_simulated_time() -> None:
    net = residual_net()
    frame = frames(net.size)[0]
    times = []
    for factor in (1.0, 3.0):
        device = NpuDevice("npu-4t", faults=Faults(slow_factor=factor), seed=1)
        times.append(device.infer(device.load(Program.open(net.program)), frame).simulated_ms)
    assert times[1] == pytest.approx(3 * times[0], rel=1e-6)


def test_a_throttled_device_takes_longer() -> None:
    net = residual_net()
    frame = frames(net.size)[0]
    times = []
    for point in (0, 2, 9):
        device = NpuDevice("npu-4t", faults=Faults(operating_point=point), seed=1)
        times.append(device.infer(device.load(Program.open(net.program)), frame).simulated_ms)
    assert times[1] == pytest.approx(2 * times[0], rel=0.02)  # 500 MHz of 1000, launches rule
    assert times[2] == times[1]


def test_two_devices_differ_a_little_and_one_repeats_itself() -> None:
    net = residual_net()
    frame = frames(net.size)[0]

    def latencies(seed: int) -> list[float]:
        device = NpuDevice("npu-4t", seed=seed)
        loaded = device.load(Program.open(net.program))
        return [device.infer(loaded, frame).simulated_ms for _ in range(50)]

    first, again, other = latencies(1), latencies(1), latencies(2)
    assert first == again
    assert first != other
    assert np.std(first[1:]) / np.mean(first[1:]) < 0.05
