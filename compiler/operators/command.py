"""What the fill functions share: the command, and how they find their constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from compiler.ir import Clamp, Graph, Simple, Value

Command = npt.NDArray[np.void]
Constant = Callable[[str], int]


class Filler(Protocol):
    """Writes the fields of one operator."""

    def __call__(self, command: Command, graph: Graph, step: Simple, constant: Constant) -> None:
        """Everything but the regions."""


def describe(command: Command, prefix: str, value: Value) -> None:
    """Scale and zero point of an operand (``a``, ``b`` or ``c``)."""
    command[f"{prefix}_scale"], command[f"{prefix}_zp"] = value.scale, value.zero_point


def requantize(command: Command, source: Value, result: Value, clamp: Clamp) -> None:
    """Zero points and clamp of an operator with one operand."""
    command["input_zp"], command["out_zp"] = source.zero_point, result.zero_point
    command["clamp_lo"], command["clamp_hi"] = clamp.low, clamp.high
