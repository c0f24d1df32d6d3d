"""The emulated NPU: executes a compiled program literally, in the target's own memory, on simulated time.

`NpuDevice` is the device with its driver; `errors` lists what can go wrong; `checking` runs a program in the
mode that turns a wrong memory plan into wrong pixels.
"""

from __future__ import annotations

from edge_agent.runtime.npu.climate import ClimateModel, Conditions
from edge_agent.runtime.npu.device import NpuDevice
from edge_agent.runtime.npu.errors import (
    DeviceHang,
    DriverError,
    DriverTooOld,
    FrameRefused,
    NpuError,
    PlanViolation,
    ProgramRefused,
)
from edge_agent.runtime.npu.faults import Faults
from edge_agent.runtime.npu.loaded import LoadedProgram, RunResult

__all__ = [
    "ClimateModel",
    "Conditions",
    "DeviceHang",
    "DriverError",
    "DriverTooOld",
    "Faults",
    "FrameRefused",
    "LoadedProgram",
    "NpuDevice",
    "NpuError",
    "PlanViolation",
    "ProgramRefused",
    "RunResult",
]
