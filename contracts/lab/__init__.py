"""The lab protocol: services and flows run models on a device, emulated or real (docs/reference/lab.md)."""

from __future__ import annotations

from contracts.lab.client import LabClient
from contracts.lab.errors import (
    LabDied,
    LabError,
    LabProtocolError,
    LabRefused,
    LabTimeout,
    LabUnavailable,
)
from contracts.lab.results import KernelRow, LabInfo, LabProfile, LabResult

__all__ = [
    "KernelRow",
    "LabClient",
    "LabDied",
    "LabError",
    "LabInfo",
    "LabProfile",
    "LabProtocolError",
    "LabRefused",
    "LabResult",
    "LabTimeout",
    "LabUnavailable",
]
