"""What a caller may switch off, to see what each part of the compiler is worth. The defaults are what ships."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from compiler.errors import CompileError
from compiler.memory.planner import Effort, Patience

AUTO, SAME, NONE, ON, OFF = "auto", "same", "none", "on", "off"
_VERSION = re.compile(r"^\d{1,4}(\.\d{1,4}){0,3}$")


@dataclass(frozen=True)
class CompileOptions:
    """`fuse`: merge operators into kernels. `plan`: share SRAM by lifetimes (without it every tensor lives in DDR).
    `depth_first`: stripes of rows across kernels. `double_buffer`: transfers run one stripe ahead.
    `stripe_rows`: rows of a stripe, chosen by search when None. `streams`: frames computed by one launch.
    `driver`: the oldest driver that must run the program; what it lacks is placed elsewhere. None asks for none.
    `little`: the net of the kernels for the little core: `same` as the big ones, `auto` (the same unless the bundle
    grows too large by it), the name of a width, or `none`.
    `effort`: `thorough` searches on for a lower SRAM peak, or a proof that there is none, up to `effort_seconds` for
    each profile; what it finds may then depend on how fast the machine is.
    `entropy`: `on` codes the constants of every program whose file gets smaller by it, `auto` where that is worth it
    (`compiler.coding`), `off` (kept as `none`) nowhere. Agents that know no format 4 refuse a program with coded ones.
    """

    fuse: bool = True
    plan: bool = True
    depth_first: bool = True
    double_buffer: bool = True
    stripe_rows: int | None = None
    streams: int = 1
    driver: str | None = None
    little: str = AUTO
    effort: str = Effort.FAST.value
    effort_seconds: float = 20.0
    entropy: str = NONE

    def __post_init__(self) -> None:
        if self.stripe_rows is not None and self.stripe_rows < 1:
            raise CompileError("stripe rows", f"{self.stripe_rows} rows", "give at least 1, or leave the option out")
        if self.driver is not None and not _VERSION.match(self.driver):
            raise CompileError("driver", f"{self.driver!r} is not a version", "write for example 1.2.0")
        if self.effort not in [effort.value for effort in Effort]:
            raise CompileError("effort", f"{self.effort!r} is no effort", "write fast or thorough")
        if self.entropy == OFF:
            object.__setattr__(self, "entropy", NONE)  # one word for it, so that build ids stay what they were
        if self.entropy not in (AUTO, ON, NONE):
            raise CompileError("entropy", f"{self.entropy!r} is no choice", "write auto, on or off")
        if not 0 < self.effort_seconds <= 3600:
            raise CompileError("effort seconds", f"{self.effort_seconds:g} s", "give more than 0 and up to 3600")
        if not 1 <= self.streams <= 64:
            raise CompileError("streams", f"{self.streams} streams", "give 1 to 64")

    def patience(self) -> Patience:
        """The patience with one profile, from now on."""
        effort = Effort(self.effort)
        return Patience(effort, time.monotonic() + self.effort_seconds if effort is Effort.THOROUGH else None)


DEFAULT = CompileOptions()
