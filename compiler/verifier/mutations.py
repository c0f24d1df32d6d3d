"""Mutations: a program with one field changed, to measure what the verifier and the device's checks let through.

A mutation is harmful when the device, run in any order that the queues allow, gives other pixels than before.
The judge that runs programs is a callback, because a compiler knows no device. Invariants: one field of one
command differs; same seed, same mutations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from compiler.verifier.verify import verify_program
from contracts.npu import COMMAND, REGION, NpuSpec, Program, ProgramWriter
from contracts.npu.program import FLAG_RESIDUAL_FIRST

Commands = npt.NDArray[np.void]
Path = tuple[str, ...]

IMMEDIATE = frozenset({"clamp_lo", "clamp_hi", "add_lo", "add_hi", "a_scale", "b_scale", "c_scale"})
"""Parameters of arithmetic that a command says once, and nothing else in the program tells what they should be; so is
the flag that exchanges the operands of a fused addition.
"""

_SPARE = frozenset({"reserved"})


@dataclass(frozen=True)
class Mutation:
    """`path` of command `command` becomes `after`."""

    command: int
    path: Path
    before: float
    after: float

    @property
    def field(self) -> str:
        """The field's name with that of its region."""
        return ".".join(self.path)

    @property
    def immediate(self) -> bool:
        """Whether it changes a parameter of arithmetic, not a place, an extent or an order."""
        order = self.path == ("flags",) and int(self.before) ^ int(self.after) == FLAG_RESIDUAL_FIRST
        return order or self.path[-1] in IMMEDIATE

    def __str__(self) -> str:
        return f"command {self.command}: {self.field} {self.before:g} -> {self.after:g}"


class Outcome(Enum):
    """What became of a mutation."""

    REFUSED = "refused by the verifier"
    CAUGHT = "caught by poisoned execution"
    BENIGN = "the same pixels in every order"
    MISSED = "other pixels, and nobody saw it"


@dataclass(frozen=True)
class Judgement:
    """What running a program shows: whether its pixels are those of the original, and whether the device's own checks
    found something.
    """

    same: bool
    found: bool


Judge = Callable[[Program], Judgement]


@dataclass
class Tally:
    """Counts of outcomes, and the mutations that were missed."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    missed: list[Mutation] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Mutations tried."""
        return sum(self.counts.values())

    def add(self, mutation: Mutation, outcome: Outcome) -> None:
        """Count one."""
        self.counts[outcome] += 1
        if outcome is Outcome.MISSED:
            self.missed.append(mutation)


def tally(
    program: Program, spec: NpuSpec, judge: Judge, mutations: Iterable[Mutation], profile: int = 0
) -> tuple[Tally, Tally]:
    """Try mutations of one profile: those of places, extents and order, and those of arithmetic parameters."""
    results = Tally(), Tally()
    for mutation in mutations:
        results[mutation.immediate].add(mutation, outcome(mutated(program, mutation, profile), spec, judge))
    return results


def outcome(program: Program, spec: NpuSpec, judge: Judge) -> Outcome:
    """What becomes of a changed program."""
    if verify_program(program, spec):
        return Outcome.REFUSED
    judgement = judge(program)
    if judgement.found:
        return Outcome.CAUGHT
    return Outcome.BENIGN if judgement.same else Outcome.MISSED


def mutations(program: Program, profile: int = 0, *, limit: int | None = None, seed: int = 0) -> list[Mutation]:
    """All mutations of a profile's stream, or `limit` of them drawn by `seed`, in stream order."""
    stream = program.commands(profile)
    every = [mutation for path in _paths() for mutation in _of_field(stream, path)]
    if limit is not None and limit < len(every):
        drawn = np.random.default_rng(seed).permutation(len(every))[:limit]
        every = [every[int(place)] for place in sorted(drawn)]
    return sorted(every, key=lambda mutation: (mutation.command, mutation.path))


def mutated(program: Program, mutation: Mutation, profile: int = 0) -> Program:
    """The program with one field changed, its digest made anew."""
    writer = ProgramWriter(program.target, program.build_id)
    for index, entry in enumerate(program.profiles):
        stream = program.commands(index).copy()
        if index == profile:
            place = stream
            for name in mutation.path:
                place = place[name]
            place[mutation.command] = mutation.after
        writer.add_profile(entry, stream)
    return Program.open(writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes()))


def _paths() -> Iterator[Path]:
    for name in COMMAND.names or ():
        if COMMAND[name] == REGION:
            yield from ((name, part) for part in REGION.names or ())
        elif name not in _SPARE:
            yield (name,)


def _of_field(stream: Commands, path: Path) -> Iterator[Mutation]:
    values = stream[path[0]] if len(path) == 1 else stream[path[0]][path[1]]
    numbers = values[:-1].tolist()
    donors = sorted(set(numbers))
    real = values.dtype.kind == "f"
    for index, before in enumerate(numbers):
        candidates = _scaled(before) if real else _stepped(stream, index, path, before, values.dtype)
        for after in sorted({*candidates, *_donated(donors, before)} - {before}):
            yield Mutation(index, path, before, after)


def _stepped(stream: Commands, index: int, path: Path, before: int, dtype: np.dtype[np.generic]) -> set[int]:
    """One more, one less, double, nothing; offsets also an alignment or a row further."""
    found = {before + 1, before - 1, 2 * before, 0, before ^ 2, before ^ 4}
    if path[-1].endswith("offset"):
        found |= {before + 128, before - 128, before + 4096}
    if path[-1] == "offset":
        row = int(stream[path[0]]["row_stride"][index])
        found |= {before + row, before - row}
    top = int(np.iinfo(dtype).max)  # type: ignore[type-var]  # a whole number, see _of_field
    return {value for value in found if 0 <= value <= top}


def _scaled(before: float) -> set[float]:
    return {2 * before, 0.5 * before, -before, 0.0, float(np.nextafter(np.float32(before), np.float32(1e9)))}


def _donated(donors: Sequence[float], before: float) -> set[float]:
    """The neighbours of a value among those that other commands have."""
    place = donors.index(before)
    return {*donors[max(0, place - 1) : place + 2], donors[0], donors[-1]}
