"""Fifth stage: a new hard cluster, answered by updating what is kept, and by beginning again.

Both sides know the same: the found network in production, the kept supernet of clean scenes, and calls under a new hard
condition. The incremental side does what the product does: find the affected stages, adapt only those of the kept
supernet, search only those, fine-tune from the better of production and slice. The full side trains a supernet anew on
both conditions, searches the whole space and fine-tunes its choice. Time is CPU seconds of everything after the data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from benchmarks.teaching import choosing, sharing
from benchmarks.teaching.anew import supernet_anew
from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.eta import Tell, part
from benchmarks.teaching.hardening import hard_pairs, judged_calls, normal_pairs
from benchmarks.teaching.judging import judged
from benchmarks.teaching.kept import Json, Kept, kept, sources
from benchmarks.teaching.latency import Latencies, latencies
from benchmarks.teaching.material import cropped
from flows.data.pairs import PairSet
from flows.search.adapt import adapt_supernet
from flows.search.nsga import SearchSettings, search
from flows.search.sensitivity import affected_stages, stage_responses
from flows.steps.learn import ADAPT, FINETUNE
from flows.tasks.training import Budget, one_thread
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import Supernet
from flows.tasks.vsr.train import finetune
from flows.tasks.vsr.weights import load_net, save_net

_CODE = sources(
    "flows/search", "benchmarks/teaching/anew.py", "benchmarks/teaching/hardening.py",
    "benchmarks/teaching/incremental.py",
)  # fmt: skip

TUNING = replace(FINETUNE, hard_share=1 / 2)
"""Both sides fine-tune on as many hard patches as normal ones, since both conditions count alike where they choose."""

Side = Callable[[int, Kept, Latencies, Tell], tuple[VsrNet, float]]


def answered(seed: int, tell: Tell | None = None) -> Json:
    """CPU seconds and judgement of both sides on the held-out person under the new condition."""
    spent = budgets()
    configuration = {
        "search": choosing.place(seed).key, "adapted": spent.adapted, "answered": spent.answered,
        "tuned": spent.tuned, "supernet": spent.supernet, "adapt": repr(ADAPT), "tuning": repr(TUNING),
    }  # fmt: skip
    at = kept("incremental", seed, configuration, _CODE)
    if at.result is not None:
        return at.result
    choosing.choice(seed, part(tell, 0.0, 0.4, ""))
    costs = latencies()
    sides: dict[str, Side] = {"incremental": _incremental, "full": _full}
    result: Json = {}
    for index, (name, side) in enumerate(sides.items()):
        begin = 0.4 + 0.3 * index
        record = at.folder / f"{name}.npz"
        marks = at.folder / f"{name}.seconds"
        if not (record.is_file() and marks.is_file()):
            net, seconds = side(seed, at, costs, part(tell, begin, begin + 0.3, name))
            record.write_bytes(save_net(net))
            marks.write_text(f"{seconds:.2f}")
        net = load_net(record.read_bytes())
        result[name] = {
            "seconds": float(marks.read_text()),
            "architecture": net.architecture.to_json(),
            "latency_ratio": costs.ratio(net.architecture),
            **{call: judged(net, pairs).to_dict() for call, pairs in judged_calls().items()},
        }
    return at.finish(result)


def _incremental(seed: int, at: Kept, costs: Latencies, tell: Tell) -> tuple[VsrNet, float]:
    production, shared = choosing.found_network(seed), sharing.trained_supernet(seed)
    normal, hard = normal_pairs(), hard_pairs()
    inherited = production.architecture
    began = time.process_time()
    with one_thread():
        responses = stage_responses(production, normal, hard, seed=seed)
        affected = affected_stages(responses) or tuple(range(sharing.SPACE.stages))  # as `flows.steps.learn.study`
    spent = time.process_time() - began
    adapt_supernet(
        shared, inherited, affected, normal, hard, _budget(budgets().adapted), replace(ADAPT, seed=seed),
        progress=part(tell, 0.0, 0.3, "adapting"),
    )  # fmt: skip
    began = time.process_time()
    with one_thread():
        chosen = _found(shared, inherited, affected, costs, seed)
        start = shared.extract(chosen)
        if chosen.trunk == inherited.trunk:
            heir = inherit(production, chosen)
            start = heir if _validated(heir) >= _validated(start) else start
    spent += time.process_time() - began
    seconds = budgets().answered
    net = _tuned(start, seed, at, "incremental", seconds, part(tell, 0.4, 1.0, "fine-tuning"))
    return net, spent + budgets().adapted + seconds


def _full(seed: int, at: Kept, costs: Latencies, tell: Tell) -> tuple[VsrNet, float]:
    shared = supernet_anew(seed, part(tell, 0.0, 0.7, "supernet"))
    began = time.process_time()
    with one_thread():
        chosen = _found(shared, choosing.STARTING, tuple(range(sharing.SPACE.stages)), costs, seed)
    spent = time.process_time() - began
    seconds = budgets().tuned
    net = _tuned(shared.extract(chosen), seed, at, "full", seconds, part(tell, 0.75, 1.0, "fine-tuning"))
    return net, spent + budgets().supernet + seconds


def _found(
    shared: Supernet, inherited: Architecture, affected: tuple[int, ...], costs: Latencies, seed: int
) -> Architecture:
    def quality(architecture: Architecture) -> float:
        return _validated(shared.extract(architecture))

    shared.eval()
    settings = SearchSettings(limit=choosing.LIMIT, seed=seed)
    return search(sharing.SPACE, inherited, affected, quality, costs.ratio, settings).chosen.architecture


def _tuned(net: VsrNet, seed: int, at: Kept, name: str, seconds: float, tell: Tell) -> VsrNet:
    checkpoint = at.folder / f"{name}.checkpoint"
    tuned = finetune(
        net, normal_pairs(), hard_pairs(), _budget(seconds), settings=replace(TUNING, seed=seed),
        progress=tell, checkpoint=checkpoint,
    )  # fmt: skip
    checkpoint.unlink(missing_ok=True)
    return tuned


def _validated(net: VsrNet) -> float:
    net.eval()
    return 0.5 * sum(evaluate(net, pairs).psnr_y for pairs in _validation())


def _budget(seconds: float) -> Budget:
    return Budget(seconds=seconds, wall_seconds=sharing.DAYS)


@lru_cache(maxsize=1)
def _validation() -> tuple[PairSet, PairSet]:
    return cropped(PairSet(normal_pairs().pairs[::2])), cropped(PairSet(hard_pairs().pairs[::2]))
