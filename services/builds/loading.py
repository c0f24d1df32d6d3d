"""What loading a bundle's programs costs beside reading them: decoding constants that the file holds coded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compiler.coding import coding_of
from compiler.entropy import expanded
from contracts.bundle import Bundle
from contracts.npu import load_spec


@dataclass(frozen=True)
class Load:
    """One program with coded constants: simulated milliseconds of decoding them, and what that saves, a sentence."""

    target: str
    program: str
    decode_ms: float
    note: str


def loads_of(path: Path) -> tuple[Load, ...]:
    """The programs of a bundle whose constants are coded. Raises BundleError and DamagedProgram."""
    bundle, found = Bundle.open(path), list[Load]()
    for piece in sorted(name for name in bundle.names if name.endswith(".npu")):
        target, _, name = piece.removesuffix(".npu").partition("/")
        program = bundle.program(target, name)
        if program.coded is None:
            continue
        coding = coding_of(program, expanded(program), load_spec(program.target))
        found.append(Load(target, name, coding.decode_ms, coding.note))
    return tuple(found)
