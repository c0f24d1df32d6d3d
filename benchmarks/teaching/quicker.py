"""The other side of the third stage: as good as the hand-made network, in how much less time.

Of the networks that the search has judged, the best one within 0.85 of the hand-made network's latency, fine-tuned for
the same seconds as both networks of that stage and judged alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.teaching import choosing, sharing
from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.eta import Tell, part
from benchmarks.teaching.judging import judged
from benchmarks.teaching.kept import Json, kept
from benchmarks.teaching.latency import measured_us
from benchmarks.teaching.material import judge_sets
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.weights import load_net, save_net

LIMIT = 0.85
_CODE = ("benchmarks/teaching/quicker.py",)


def searched(seed: int, tell: Tell | None = None) -> Json:
    """Both sides: what the search found at equal latency, and under `quicker` the network that is faster."""
    return {**choosing.choice(seed, part(tell, 0.0, 0.85, "")), "quicker": quicker(seed, part(tell, 0.85, 1.0, ""))}


def quicker(seed: int, tell: Tell | None = None) -> Json:
    """The faster network, its measured latency and its judgement after fine-tuning."""
    configuration = {"search": choosing.place(seed).key, "limit": LIMIT, "seconds": budgets().tuned}
    at = kept("quicker", seed, configuration, _CODE)
    if at.result is not None:
        return at.result
    found = choosing.choice(seed)
    chosen = best_within(found["front"], LIMIT)
    path = at.folder / "quicker.npz"
    if not path.is_file():
        net = sharing.trained_supernet(seed).extract(chosen)
        sharing.tune(
            net, seed, budgets().tuned, at.folder / "quicker.checkpoint", part(tell, 0.0, 0.95, "faster network")
        )
        path.write_bytes(save_net(net))
    net = load_net(path.read_bytes())
    return at.finish(
        {
            "architecture": chosen.to_json(),
            "measured_us": measured_us(choosing.quantised_model(net)),
            **{name: judged(net, pairs).to_dict() for name, pairs in judge_sets().items()},
        }
    )


def best_within(front: Sequence[Sequence[object]], limit: float) -> Architecture:
    """The network of highest quality whose latency ratio is at most `limit`; rows are network, dB, ratio.

    Raises ValueError when there is none.
    """
    rows = [row for row in front if float(str(row[2])) <= limit]
    if not rows:
        raise ValueError(f"no network of the front has {limit:g} x the latency or less")
    return Architecture.from_json(str(max(rows, key=lambda row: float(str(row[1])))[0]))
