"""The little kernel set: the same net, or a narrower width of it, compiled for the little core of a target's chip.

A device that is hot or nearly empty serves frames with it (`docs/reference/npu-spec.md`, "The little core"). It stands
beside the big set in the bundle as a program of its own, because the little core has less SRAM and so another plan.
Invariant: with the net `same` both sets compute the same integers, so a switch changes no byte of any frame.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from compiler.errors import CompileError, DoesNotFit
from compiler.limits import LIMITS
from compiler.options import AUTO, NONE, SAME, CompileOptions
from compiler.program_builder import CompiledProgram, FusedProfile, build_program
from contracts.npu import load_spec

PROGRAM = "model-little"


@dataclass(frozen=True)
class LittleSet:
    """The program, or why there is none; both empty when none was asked for."""

    program: CompiledProgram | None = None
    reason: str = ""


def check_little(which: str, widths: Collection[str]) -> None:
    """Raise CompileError unless ``which`` is ``auto``, ``same``, ``none`` or one of the widths."""
    if which in (AUTO, SAME, NONE, *widths):
        return
    known = ", ".join(widths) or "none is given"
    remedy = "write auto, same, none or the name of a --width"
    raise CompileError("little", f"{which!r} is no width of this model ({known})", remedy)


def build_little(profiles: Sequence[FusedProfile], target: str, build: bytes, options: CompileOptions) -> LittleSet:
    """Compile the set for the little core of ``target``; a net that does not fit there, or a target without such a
    core, leaves the bundle without one, and the reason says why.
    """
    if options.little == NONE:
        return LittleSet()
    name = load_spec(target).little
    if name is None:
        return LittleSet(reason=f"{target}: no little kernels, this chip has no little core")
    try:
        return LittleSet(build_program(_profiles(profiles, options.little), load_spec(name), build, options))
    except DoesNotFit as error:
        return LittleSet(
            reason=f"{target}: no little kernels, {error.node} does not fit the little core: {error.reason}"
        )


def too_large(whole: int, little: int, options: CompileOptions) -> str:
    """Why a bundle of ``whole`` bytes goes without the ``little`` ones of the little core; empty when they stay."""
    limit = LIMITS.bundle_bytes
    if options.little != AUTO or whole < limit or whole - little >= limit:
        return ""
    return (
        f"no little kernels: with them the bundle would have {whole:,} bytes, it stays under {limit:,} without; "
        "--little same makes them nevertheless, the name of a --width smaller ones"
    )


def _profiles(profiles: Sequence[FusedProfile], which: str) -> list[FusedProfile]:
    """The profiles of the chosen width, under the names of the full one."""
    variant = "" if which in (AUTO, SAME) else which
    chosen = [profile for profile in profiles if profile.variant == variant]
    return [replace(profile, name=profile.name.removesuffix(f"@{variant}"), variant="") for profile in chosen]
