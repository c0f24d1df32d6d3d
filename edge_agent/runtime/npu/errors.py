"""What the emulated NPU can refuse or fail at, split by what the caller can do.

NpuError
├── ProgramRefused        the program cannot run here: use another bundle
│   ├── DriverTooOld      ... until the device's driver is changed
│   └── PlanViolation     ... because its memory plan is wrong: report the build
├── FrameRefused          this frame does not fit the profile: give the right frame
└── DriverError           a run failed: count it, use the other backend, try later
    └── DeviceHang        ... and the device did not answer before its deadline
"""

from __future__ import annotations


class NpuError(Exception):
    """Base of everything that the emulated NPU raises: what, where, remedy."""

    def __init__(self, what: str, where: str, remedy: str) -> None:
        super().__init__(f"{what} ({where}): {remedy}")
        self.what = what
        self.where = where
        self.remedy = remedy


class ProgramRefused(NpuError):
    """The program cannot run on this device."""


class DriverTooOld(ProgramRefused):
    """The device's driver is outside of the range that the target accepts."""


class PlanViolation(ProgramRefused):
    """A command reaches outside of memory, or its regions do not fit each other."""


class FrameRefused(NpuError):
    """The frame has the wrong shape or type for every profile of the program."""


class DriverError(NpuError):
    """One run failed; the device may answer the next one."""


class DeviceHang(DriverError):
    """The device did not finish before the driver's deadline."""
