"""Programs with one field changed: what the verifier refuses, what poisoned execution catches, what gets through.

Small nets, compiled once as whole operators and once in stripes, so that rings, dispatches and waits are among the
fields. Parameters that a command says once and nothing else in the program repeats (clamps, scales of an addition)
are counted apart: no check can know what they should have been.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.emulator.runners import TARGET
from benchmarks.reference_nets import NetShape, qdq_model, quantized_net, smooth_frame
from compiler.driver import compile_program
from compiler.options import CompileOptions
from compiler.verifier.mutations import Judgement, Outcome, Tally, mutations, tally
from contracts.npu import Program, ProgramError, load_spec
from edge_agent.runtime.npu import NpuDevice, NpuError
from edge_agent.runtime.npu.checking import check_profile

SHAPE = NetShape("small", 16, 2, 2, 24, 32)
WAYS = {"whole": CompileOptions(depth_first=False), "stripes": CompileOptions(stripe_rows=2)}
LIMIT = 2500
SEED = 5


@dataclass(frozen=True)
class Counts:
    """How many mutations ended in what way; `missed` in words."""

    tried: int
    refused: int
    caught: int
    benign: int
    missed: tuple[str, ...]


def counted(limit: int = LIMIT, say: Callable[[str], None] = lambda _: None) -> tuple[Counts, Counts]:
    """Mutations of places, extents and order, and those of arithmetic parameters; `limit` for each way to compile."""
    found: tuple[list[tuple[str, Tally]], list[tuple[str, Tally]]] = ([], [])
    for way, options in WAYS.items():
        say(f"mutations of {way}")
        program = Program.open(compile_program(_model(), TARGET, [(SHAPE.height, SHAPE.width)], options=options)[0])
        drawn = mutations(program, limit=limit, seed=SEED)
        for kind, result in zip(found, tally(program, load_spec(TARGET), judge(program), drawn), strict=True):
            kind.append((way, result))
    return _summed(found[0]), _summed(found[1])


def judge(original: Program) -> Callable[[Program], Judgement]:
    """Runs a changed program beside the original, in checking mode too."""
    frame = smooth_frame(SHAPE.height, SHAPE.width, SEED)
    wanted = _pixels(original, frame)

    def judged(program: Program) -> Judgement:
        try:
            found = bool(check_profile(program, 0, load_spec(TARGET)))
            return Judgement(same=np.array_equal(_pixels(program, frame), wanted), found=found)
        except (NpuError, ProgramError):
            return Judgement(same=False, found=True)

    return judged


def _pixels(program: Program, frame: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    device = NpuDevice(TARGET)
    (image,) = device.infer(device.load(program), frame).outputs.values()
    return image


def _model() -> bytes:
    return qdq_model(quantized_net(SHAPE), anchor=True)


def _summed(parts: list[tuple[str, Tally]]) -> Counts:
    def count(outcome: Outcome) -> int:
        return sum(result.counts[outcome] for _, result in parts)

    return Counts(
        tried=sum(result.total for _, result in parts),
        refused=count(Outcome.REFUSED),
        caught=count(Outcome.CAUGHT),
        benign=count(Outcome.BENIGN),
        missed=tuple(f"{way}: {mutation}" for way, result in parts for mutation in result.missed),
    )
