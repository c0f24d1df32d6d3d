"""What an operation is given: contiguous operands, a contiguous target, and its constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.scratch import Scratch
from edge_agent.runtime.npu.weights import Constants

REMEDY = "the program does not follow docs/reference/arithmetic.md; compile again and report the build"


@dataclass(frozen=True)
class Operands:
    """Arrays [h, w, c] of one command. `constants` are those of every frame, None when frames differ: then
    `fetch` reads the arena, in every frame.
    """

    sources: tuple[Bytes, ...]
    target: Bytes
    constants: Constants | None
    fetch: Callable[[], Constants]
    scratch: Scratch

    @property
    def source(self) -> Bytes:
        """The first operand."""
        return self.sources[0]

    def both(self, command: Command) -> tuple[Bytes, Bytes]:
        """Return two operands; raises PlanViolation when there is one."""
        if len(self.sources) != 2:
            raise PlanViolation("an operation of two operands has one", command.where, REMEDY)
        return self.sources[0], self.sources[1]

    def expect(self, command: Command, shape: tuple[int, ...]) -> None:
        """Raise PlanViolation when the target has another shape."""
        if self.target.shape != shape:
            raise PlanViolation(f"a result of {shape} for {self.target.shape}", command.where, REMEDY)
