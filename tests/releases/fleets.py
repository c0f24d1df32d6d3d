"""A simulated fleet for verdict tests: two device classes, device-level health, fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from services.releases.verdict import Arm, DeviceHealth, DeviceInstall, Evidence, gather

CLASSES = ("npu-2t", "npu-4t")
Values = dict[str, float]


@dataclass(frozen=True)
class FleetMember:
    """A device with its place in the rollout (0..1) and its own bias."""

    device_id: str
    stratum: str
    place: float
    bias: float


def fleet(size: int, generator: np.random.Generator) -> list[FleetMember]:
    return [
        FleetMember(f"d{index:04}", CLASSES[index % 2], float(generator.random()), float(generator.normal()))
        for index in range(size)
    ]


def healthy(member: FleetMember, generator: np.random.Generator, reports: int) -> Values:
    """Device means over `reports` reports: a device keeps its bias, reports only average the rest."""
    noise = generator.normal(size=3) / np.sqrt(reports)
    burst = generator.random() < 0.03
    return {
        "driver_error_share": float(generator.exponential(0.0004)) if burst else 0.0,
        "latency_log_ratio": -0.4 + 0.05 * member.bias + 0.05 * noise[0],
        "deadline_miss_share": float(max(0.0, 0.004 * noise[1])),
        "fidelity_lsb": 2.0 + 0.5 * member.bias + 0.3 * noise[2],
        "cpu_frame_share": 0.0,
    }


def look(
    members: list[FleetMember],
    exposed: float,
    heard: float,
    generator: np.random.Generator,
    canary: Callable[[FleetMember, Values], Values] = lambda _member, values: values,
    fails: Callable[[FleetMember], bool] = lambda _member: False,
    reports: int = 4,
) -> Evidence:
    """Evidence when `exposed` of the fleet is meant and `heard` of those have installed and reported."""
    health, installs = [], []
    for member in members:
        values = healthy(member, generator, reports)
        if member.place >= exposed:
            health.append(DeviceHealth(member.device_id, member.stratum, Arm.CONTROL, values))
        elif member.place < exposed * heard:
            failed = fails(member)
            installs.append(DeviceInstall(member.device_id, member.stratum, failed=failed, silent=False))
            if not failed:
                new = canary(member, values)
                health.append(DeviceHealth(member.device_id, member.stratum, Arm.CANARY, new))
    counts = {name: sum(member.stratum == name for member in members) for name in CLASSES}
    return gather(health, installs, counts)
