"""`edgeloop bench history`: what a pooled INT8 history costs a recurrent x2 net, in dB on held-out scenes.

One small net, three trainings of the same length, seed and order of crops: with the whole history, with the history
averaged over 4 x 4 pixels, with none. Input is noisy (sigma 10 LSB), which is where earlier frames help. All play as
INT8 programs on the emulated device; the compiler's pooling pass makes the pooled ones. Also the net that was trained
with the whole history, pooled or robbed of it afterwards. Promise of the feature: under 0.15 dB, memory down by 75 %.
The training is a minute for each net: the difference between the rows is what counts, not their height.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.recurrence.clips import NOISE_LSB, Scene, scenes
from benchmarks.recurrence.exporting import exported
from benchmarks.recurrence.net import History
from benchmarks.recurrence.playing import Played, played
from benchmarks.recurrence.training import STEPS, trained
from edgeloop.figures import Figure, Value
from flows.data.corpus import Split

TRAINED_FRAMES, JUDGED_FRAMES = 60, 24
WANTED_DB, WANTED_MEMORY = 0.15, 0.25


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the history."""
    tell(0.0, "clips")
    material, judged = scenes(Split.TRAIN, TRAINED_FRAMES), scenes(Split.HELD_OUT, JUDGED_FRAMES)
    models: dict[History, bytes] = {}
    spent = time.process_time()
    for index, history in enumerate(History):
        begin = 0.02 + 0.28 * index

        def say(share: float, at: float = begin, name: str = history.value) -> None:
            tell(at + 0.28 * share, f"training, history {name}")

        models[history] = exported(trained(history, material, say), material)
    spent = time.process_time() - spent
    tell(0.88, "playing on the emulated device")
    return figures(runs(models, judged), judged, spent)


def runs(models: dict[History, bytes], judged: Sequence[Scene]) -> dict[str, Played]:
    """Every way to play, by name."""
    whole, pooled, none = (models[history] for history in History)
    return {
        "full": played(whole, judged),
        "pooled": played(pooled, judged, pooled=True),
        "none": played(none, judged, forget=True),
        "full_then_pooled": played(whole, judged, pooled=True),
        "full_then_none": played(whole, judged, forget=True),
    }


def figures(found: dict[str, Played], judged: Sequence[Scene], spent: float) -> list[Figure]:
    """PSNR of each way, what each loses against the whole history, and what the history takes."""
    full, pooled = found["full"], found["pooled"]
    rows = [_printed(f"history.psnr.{name}", round(one.mean, 3), _spread(one.psnr)) for name, one in found.items()]
    for name, one in found.items():
        if one is not full:
            costs = tuple(a - b for a, b in zip(full.psnr, one.psnr, strict=True))
            rows.append(_printed(f"history.cost.{name}", round(float(np.mean(costs)), 3), _spread(costs)))
    share = pooled.state_bytes / full.state_bytes
    return [
        *rows,
        _printed("history.promise.cost", bool(full.mean - pooled.mean < WANTED_DB), f"under {WANTED_DB} dB"),
        _printed("history.promise.memory", bool(share <= WANTED_MEMORY), f"{share:.4f} of {full.state_bytes} bytes"),
        _printed("history.ddr.full", full.ddr_bytes, "B a frame, largest scene"),
        _printed("history.ddr.pooled", pooled.ddr_bytes, "B a frame, largest scene"),
        _printed("history.scenes", len(judged), f"held out, noise {NOISE_LSB:g} LSB"),
        _printed("history.training", round(spent, 1), f"s of CPU for 3 x {STEPS} steps"),
    ]


def _spread(values: Sequence[float]) -> str:
    return f"dB, mean over scenes, {min(values):.3f} to {max(values):.3f}"


def _printed(name: str, value: Value, unit: str) -> Figure:
    return Figure(name, value, unit, "printed", True)
