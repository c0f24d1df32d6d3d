"""Third stage: the product's search over the fine space at the hand-made network's emulated latency.

Quality in the search is the supernet's slice on crops of training scenes, so nothing that is held out decides. The
limit is the latency of C16 N6 on the same device and size. Both networks then train for the same seconds: the found one
from its slice, the hand-made one from first weights, by the better of two recipes (the one that fine-tunes the found
network, and the one of the first stage). This is how the reference measures what a supernet is worth: the supernet was
trained once for all sizes and devices. What the hand-made network reaches with all the seconds of the first stage and
these in addition is told beside it (`longer`).
"""

from __future__ import annotations

from functools import lru_cache

import torch

from benchmarks.teaching import level, sharing
from benchmarks.teaching.anchor import load_anchor, train_anchor
from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.eta import Tell, part
from benchmarks.teaching.judging import Judgement, judged
from benchmarks.teaching.kept import Json, Kept, kept, sources
from benchmarks.teaching.latency import Latencies, latencies, measured_us
from benchmarks.teaching.material import cropped, judge_sets, training_set
from benchmarks.teaching.plain import PlainNet
from flows.data.pairs import PairSet
from flows.quant.calibrate import calibrate
from flows.quant.export import export_vsr
from flows.quant.networks import QuantVsrNet
from flows.search.nsga import SearchResult, SearchSettings, search
from flows.tasks.training import one_thread
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import Supernet
from flows.tasks.vsr.weights import load_net, save_net

STARTING = sharing.CHAIN[2]
LIMIT = 1.0
_CODE = sources("flows/search", "benchmarks/teaching/choosing.py", "benchmarks/teaching/plain_export.py")


def place(seed: int) -> Kept:
    """Where the search of a seed lies."""
    configuration = {
        "supernet": sharing.place(seed).key, "anchor": level.place(seed).key, "seconds": budgets().tuned,
        "limit": LIMIT,
    }  # fmt: skip
    return kept("search", seed, configuration, _CODE)


def choice(seed: int, tell: Tell | None = None) -> Json:
    """What the search chose, its latency, and the judgement of both networks after the same training."""
    at = place(seed)
    if at.result is not None:
        return at.result
    level.level(seed, part(tell, 0.0, 0.3, "hand-made network"))
    shared = sharing.trained_supernet(seed, part(tell, 0.3, 0.6, "supernet"))
    costs = latencies(part(tell, 0.6, 0.7, ""))
    found = _searched(shared, costs, seed, part(tell, 0.7, 0.75, "search"))
    chosen = found.chosen.architecture
    mine = at.folder / "found.npz"
    if not mine.is_file():
        net = shared.extract(chosen)
        sharing.tune(
            net, seed, budgets().tuned, at.folder / "found.checkpoint", part(tell, 0.75, 0.85, "found network")
        )
        mine.write_bytes(save_net(net))
    first = _from_first_weights(seed, at, part(tell, 0.85, 0.92, "hand-made network"))
    recipe = max(first, key=lambda name: sharing.mean_level(first[name]))
    longer = load_anchor(level.place(seed).folder / f"anchor-seed{seed}.pt")
    sharing.tune(
        longer, seed, budgets().tuned, at.folder / "longer.checkpoint", part(tell, 0.92, 0.97, "hand-made, longer")
    )
    net = load_net(mine.read_bytes())
    return at.finish(
        {
            "architecture": chosen.to_json(),
            "parameters": chosen.parameters(),
            "macs": chosen.macs(240, 320),
            "predicted_ratio": costs.ratio(chosen),
            "measured_us": measured_us(quantised_model(net)),
            "plain_us": costs.plain_us,
            "judged_networks": len(found.evaluated),
            "surrogate_error_db": found.surrogate_error,
            "front": [[one.architecture.to_json(), one.psnr, one.latency_ratio] for one in found.front],
            "found": _all(net),
            "plain": _all(first[recipe]),
            "recipe": recipe,
            "other_recipe": {name: sharing.levels_of(one) for name, one in first.items() if name != recipe},
            "longer": _all(longer),
        }
    )


def found_network(seed: int, tell: Tell | None = None) -> VsrNet:
    """The found network with its trained weights."""
    choice(seed, tell)
    return load_net((place(seed).folder / "found.npz").read_bytes())


@lru_cache(maxsize=1)
def validation_pairs() -> PairSet:
    """Crops of the training scenes that the search judges slices by."""
    return cropped(training_set())


def quantised_model(net: VsrNet) -> bytes:
    """QDQ ONNX for the emulated device; the ranges do not matter to time."""
    network = QuantVsrNet(net)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        calibrate(network, [torch.rand(1, 3, 32, 32)])
    return export_vsr(network)


def _searched(shared: Supernet, costs: Latencies, seed: int, tell: Tell) -> SearchResult:
    pairs = validation_pairs()
    shared.eval()

    def quality(architecture: Architecture) -> float:
        return evaluate(shared.extract(architecture), pairs).psnr_y

    with one_thread():
        return search(
            sharing.SPACE, STARTING, tuple(range(sharing.SPACE.stages)), quality, costs.ratio,
            SearchSettings(limit=LIMIT, seed=seed), progress=lambda share: tell(share, ""),
        )  # fmt: skip


def _from_first_weights(seed: int, at: Kept, tell: Tell) -> dict[str, PlainNet]:
    """The hand-made network after the seconds that the found one gets, by recipe."""
    seconds = budgets().tuned
    torch.manual_seed(seed)
    like_found = sharing.tune(PlainNet(), seed, seconds, at.folder / "plain.checkpoint", part(tell, 0.0, 0.5, ""))
    anchor = load_anchor(train_anchor(seed, seconds, at.folder, part(tell, 0.5, 1.0, "")))
    return {"fine-tuning's": like_found, "the first stage's": anchor}


def _all(net: torch.nn.Module) -> dict[str, dict[str, float]]:
    found: dict[str, Judgement] = {name: judged(net, pairs) for name, pairs in judge_sets().items()}
    return {name: one.to_dict() for name, one in found.items()}
