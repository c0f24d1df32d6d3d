"""Whether a program's constants are coded, what that saves in the file and what it costs at load.

`on` takes the smaller file. `auto` also asks that the section shrinks by 3 % or more (`compiler.entropy.WORTH`) and
that decoding it takes a load no longer than `LIMITS.decode_ms`. The time is `docs/reference/npu-spec.md`, "Loading",
computed here from the specification and by the device on its own; no frame pays for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.entropy import WORTH, coded
from compiler.limits import LIMITS
from compiler.options import AUTO, NONE
from contracts.npu import NpuSpec, Program


@dataclass(frozen=True)
class Coding:
    """The constants of one program: bytes in plain and in the file, milliseconds of decoding at load (0 in plain)."""

    plain: int
    stored: int
    decode_ms: float = 0.0
    note: str = ""
    """What was chosen and why, a sentence; empty where nobody asked."""

    @property
    def saved(self) -> float:
        """Share of the plain bytes that the file does not hold."""
        return 1.0 - self.stored / self.plain if self.plain else 0.0


def chosen(constants: bytes, spec: NpuSpec, choice: str) -> tuple[bytes | None, Coding]:
    """The section CODED, None where the constants stay plain, and what was weighed. `choice` is auto, on or none."""
    plain = Coding(len(constants), len(constants))
    if choice == NONE:
        return None, plain
    section = coded(constants)
    if section is None:
        return None, _kept(plain, "coding does not make them smaller")
    cost = decode_ms(len(constants), spec)
    saved = 1.0 - len(section) / len(constants)
    if choice == AUTO and len(section) >= WORTH * len(constants):
        return None, _kept(plain, f"coding saves {saved:.1%}, less than {1 - WORTH:.0%}")
    if choice == AUTO and cost > LIMITS.decode_ms:
        why = f"coding saves {saved:.1%}, but decoding takes {cost:.3f} ms, more than the {LIMITS.decode_ms:g} ms"
        return None, _kept(plain, f"{why} that a load may take")
    return section, Coding(len(constants), len(section), cost, _told(len(constants), len(section), cost))


def coding_of(stored_program: Program, program: Program, spec: NpuSpec) -> Coding:
    """The same figures read back: of a program as its file holds it, and the one with plain constants made of it."""
    plain = len(program.constants)
    if stored_program.coded is None:
        return Coding(plain, plain)
    stored, cost = len(stored_program.coded), decode_ms(plain, spec)
    return Coding(plain, stored, cost, _told(plain, stored, cost))


def decode_ms(count: int, spec: NpuSpec) -> float:
    """Simulated milliseconds that the host needs for `count` decoded bytes: one call and its rate."""
    return spec.host_call_us / 1000.0 + count / spec.host_elements_per_ns / 1e6


def _kept(plain: Coding, why: str) -> Coding:
    return Coding(plain.plain, plain.stored, note=f"constants plain: {why}")


def _told(plain: int, stored: int, cost: float) -> str:
    share = 1.0 - stored / plain
    return f"constants coded: {stored:,} bytes for {plain:,} ({share:.1%} less), decoded once at load in {cost:.3f} ms"
