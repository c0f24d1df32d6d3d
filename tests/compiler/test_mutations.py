"""One field of one command changes: whatever makes other pixels is seen by the verifier or by poisoned execution.

`python -m pytest tests/compiler/test_mutations.py -s` prints the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from compiler.driver import read_model
from compiler.options import CompileOptions
from compiler.program_builder import build_program
from compiler.verifier import verify_program
from compiler.verifier.mutations import Judgement, Outcome, Tally, mutated, mutations, outcome, tally
from contracts.npu import NpuSpec, Program, load_spec
from contracts.npu.program import FLAG_RESIDUAL_FIRST
from tests.compiler.judging import Judge
from tests.compiler.qdq_cases import EXACT, NEAR, TIES
from tests.compiler.qdq_nets import SHAPE
from tests.compiler.striped import Net, striped_program
from tests.support.models import quality_qdq, vsr_qdq

SPEC = load_spec("npu-4t")
SIZES = [(24, 32), (30, 26)]
OPERATORS = {**EXACT, **NEAR, **TIES}
CHOSEN = [
    "leaky relu", "prelu by channel", "max pool", "slice, window", "split channels", "nearest, two factors",
    "linear x3", "squeeze and excite", "concat rows", "concat cols", "concat of a concat", "slice, then conv",
    "average pool", "softmax over channels", "swish",
]  # fmt: skip


def small(sram_bytes: int = 256 * 1024) -> NpuSpec:
    return replace(SPEC, sram_bytes=sram_bytes)


def compiled(model: bytes, sizes: list[tuple[int, int]], spec: NpuSpec, options: CompileOptions) -> Program:
    profiles = read_model("model", model, sizes, options).profiles
    return Program.open(build_program(profiles, spec, bytes(16), options).data)


def vsr(sram_bytes: int, options: CompileOptions, blocks: int = 1) -> tuple[Program, NpuSpec]:
    spec = small(sram_bytes)
    return compiled(vsr_qdq(blocks=blocks), SIZES, spec, options), spec


def told(name: str, results: tuple[Tally, Tally]) -> list[str]:
    for kind, result in zip(("places, extents, order", "parameters of arithmetic"), results, strict=True):
        counts = ", ".join(f"{number} {outcome.value}" for outcome, number in sorted(result.counts.items(), key=str))
        print(f"{name}: {result.total} mutations of {kind}: {counts}")
    return [str(mutation) for result in results for mutation in result.missed]


NETS: dict[str, Callable[[], tuple[Program, NpuSpec]]] = {
    "whole operators": lambda: vsr(256 * 1024, CompileOptions(depth_first=False)),
    "streamed constants": lambda: vsr(18_000, CompileOptions(depth_first=False), blocks=2),
    "stripes": lambda: vsr(256 * 1024, CompileOptions(stripe_rows=4)),
    "stripes of a net with strides": lambda: (
        compiled(quality_qdq(), SIZES, small(), CompileOptions(stripe_rows=4)),
        small(),
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_no_harmful_change_of_a_compiled_program_passes(name: str) -> None:
    program, spec = NETS[name]()
    results = tally(program, spec, Judge(program, spec), mutations(program, limit=700, seed=1))
    assert told(name, results) == []


def test_no_harmful_change_of_stripes_passes_though_no_other_profile_tells() -> None:
    program = striped_program(Net(blocks=1, height=16, width=16, rows=2))
    results = tally(program, small(), Judge(program, small()), mutations(program, limit=700, seed=2))
    assert told("stripes by hand, one profile", results) == []


@pytest.mark.parametrize("name", CHOSEN)
def test_no_harmful_change_of_an_operator_passes(name: str) -> None:
    program = compiled(OPERATORS[name](), [SHAPE, (SHAPE[0] + 4, SHAPE[1] + 2)], small(), CompileOptions())
    results = tally(program, small(), Judge(program, small()), mutations(program, limit=120, seed=3))
    assert told(name, results) == []


def test_without_the_verifier_harmful_changes_are_harmful() -> None:
    """The judge sees other pixels: the counts above are not zero because nobody looks."""
    program, spec = NETS["stripes"]()
    judge = Judge(program, spec)
    seen = [judge(mutated(program, mutation)) for mutation in mutations(program, limit=60, seed=4)]
    assert sum(not judgement.same for judgement in seen) > 20


def test_what_the_verifier_accepts_and_the_device_computes_otherwise_is_missed() -> None:
    program, spec = NETS["whole operators"]()
    assert verify_program(program, spec) == []
    assert outcome(program, spec, lambda _: Judgement(same=False, found=False)) is Outcome.MISSED
    assert outcome(program, spec, lambda _: Judgement(same=False, found=True)) is Outcome.CAUGHT
    assert outcome(program, spec, lambda _: Judgement(same=True, found=False)) is Outcome.BENIGN


def test_the_order_of_a_sum_is_a_parameter_of_arithmetic_and_another_profile_tells() -> None:
    program, spec = NETS["whole operators"]()
    turned = [
        mutation
        for mutation in mutations(program)
        if mutation.field == "flags" and int(mutation.before) ^ int(mutation.after) == FLAG_RESIDUAL_FIRST
    ]
    assert turned
    for mutation in turned:
        assert mutation.immediate
        assert (
            outcome(mutated(program, mutation), spec, lambda _: Judgement(same=False, found=False)) is Outcome.REFUSED
        )


def test_the_same_seed_draws_the_same_mutations() -> None:
    program, _ = NETS["whole operators"]()
    assert mutations(program, limit=50, seed=5) == mutations(program, limit=50, seed=5)
    assert mutations(program, limit=50, seed=5) != mutations(program, limit=50, seed=6)
