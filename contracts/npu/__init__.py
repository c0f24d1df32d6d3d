"""What compiler and device agree on about the NPU: specification, program format, arithmetic (as text)."""

from __future__ import annotations

from contracts.npu.program import (
    COMMAND,
    REGION,
    Layout,
    Op,
    OutputTensor,
    Profile,
    Program,
    ProgramError,
    ProgramWriter,
    Space,
    StateTensor,
)
from contracts.npu.spec import ArrayModel, NpuSpec, UnknownTarget, chip_of, core_name, load_spec, target_names

__all__ = [
    "COMMAND",
    "REGION",
    "ArrayModel",
    "Layout",
    "NpuSpec",
    "Op",
    "OutputTensor",
    "Profile",
    "Program",
    "ProgramError",
    "ProgramWriter",
    "Space",
    "StateTensor",
    "UnknownTarget",
    "chip_of",
    "core_name",
    "load_spec",
    "target_names",
]
