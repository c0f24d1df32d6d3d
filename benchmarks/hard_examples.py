"""`edgeloop bench hard-examples`: what the devices find of the frames that the model is truly bad on.

Truly bad: the condition costs the shipped upscaler 3 dB or more of luma PSNR on this frame against a healthy call of
the same clip (the error has doubled), measured on held-out clips under 17 known degradations. Found: through the
device's own chain (`benchmarks/mining/chain.py`), by the quality net, the decoder's quantisers and two plain signs of
the picture; what the net alone finds is printed beside it. Good calls: 100 simulated hours of held-out clips at crf 18
to 26, each hour a device with a full token bucket. Only 24 frames of five views and five qualities are behind those
hours; what they can tell is how scores of known good scenes spread, not what the world's calls look like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.mining.calls import Call, Eyes, Watched, good_calls, held_out_views, measure
from benchmarks.mining.chain import mine, uploads_in_an_hour
from benchmarks.mining.conditions import KNOWN
from contracts.statistics import ObserverParameters
from edge_agent.observers.hard import HardSettings
from edgeloop.figures import Figure, at_least, at_most
from flows.data.corpus import default_corpus
from flows.data.degrade import NORMAL_VARIETY
from flows.tasks.vsr.metrics import as_upscaler

SEEDS = Path(__file__).resolve().parents[1] / "seeds"
BAD_DB = 3.0
HOURS = 100
RECALL, AN_HOUR = 0.8, 1.0
LOW_LIGHT = ("low_light_1", "low_light_2", "low_light_3")
"""The condition that the shipped score and threshold were fitted to (`flows.data.degrade.HARD_VARIETY`)."""

_STEP_DB = 0.05
_REACH_HOURS = 20
OFFSETS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of hard-example mining."""
    observer = ObserverParameters.from_bytes((SEEDS / "observer.npz").read_bytes())
    eyes = Eyes((SEEDS / "quality.onnx").read_bytes(), observer)
    upscale = as_upscaler((SEEDS / "v1.onnx").read_bytes())
    views = held_out_views(default_corpus())
    calls: list[Call] = []
    for index, (view, name) in enumerate((view, name) for view in views for name in KNOWN):
        tell(0.8 * index / (len(views) * len(KNOWN)), f"{view.name} {name}")
        calls.append(measure(view, name, replace(KNOWN[name], seed=index), eyes, upscale))
    tell(0.8, "good calls")
    good = good_calls(views, [d.crf for d in NORMAL_VARIETY], eyes)
    tell(0.85, f"{HOURS} good hours")
    return figures(calls, good, observer.tau, HardSettings())


def figures(
    calls: Sequence[Call],
    good: Sequence[Watched],
    tau: float,
    settings: HardSettings,
    hours: int = HOURS,
    call_s: float = 3_600.0,
) -> list[Figure]:
    """Everything that follows from what was watched and measured."""
    bad = int(sum((call.losses >= BAD_DB).sum() for call in calls))
    recall, precision = shares(calls, tau, settings)
    blind, _ = shares([replace(call, watched=call.watched.blind) for call in calls], tau, settings)
    fitted, _ = shares([call for call in calls if call.condition in LOW_LIGHT], tau, settings)
    frames = sum(len(call.losses) for call in calls)
    return [
        Figure("definition", BAD_DB, "dB lost against a healthy call of the same frame = truly bad", "printed", True),
        Figure("bad_frames", bad, f"of {frames} frames in {len(calls)} calls", "printed", True),
        at_least("recall", round(recall, 4), "of truly bad frames under all 17 degradations", RECALL),
        Figure("recall_net", round(blind, 4), "of them by the quality net alone", "printed", True),
        at_least("recall_low_light", round(fitted, 4), "of truly bad frames in low light over a bad network", RECALL),
        Figure("precision", round(precision, 4), "of found frames are truly bad", "printed", True),
        *good_figures(good, tau, settings, hours, call_s),
        *condition_figures(calls, tau, settings),
        *curve_figures(calls, good, tau, settings),
        *reach_figures(calls, good, settings, call_s),
    ]


def shares(calls: Sequence[Call], tau: float, settings: HardSettings) -> tuple[float, float]:
    """(recall, precision) over all frames of all calls; 0 and 1 when there is nothing to divide by."""
    found = np.concatenate([mine(call.watched, tau, settings).found for call in calls])
    bad = np.concatenate([call.losses >= BAD_DB for call in calls])
    both = float((found & bad).sum())
    return both / max(1, bad.sum()), both / found.sum() if found.any() else 1.0


def good_figures(
    good: Sequence[Watched], tau: float, settings: HardSettings, count: int, call_s: float
) -> list[Figure]:
    """Uploads of good hours."""
    random = np.random.default_rng(17)
    hours = [uploads_in_an_hour(good, tau, settings, random, call_s=call_s) for _ in range(count)]
    uploads, spells = np.array(hours, np.float64).T
    over = float(np.mean(np.concatenate([one.scores for one in good]) > tau))
    return [
        at_most("good.uploads", round(float(uploads.mean()), 3), f"an hour, mean of {count} h", AN_HOUR),
        at_most("good.uploads_worst", float(uploads.max()), f"in the worst of {count} hours", AN_HOUR),
        Figure("good.unbraked", round(float(spells.mean()), 2), "segments an hour without brakes", "printed", True),
        Figure("good.over_tau", round(over, 4), "of good frames", "printed", True),
    ]


def condition_figures(calls: Sequence[Call], tau: float, settings: HardSettings) -> list[Figure]:
    """Recall of every known degradation; of one without a truly bad frame, the share that was found all the same."""
    rows = []
    for name in KNOWN:
        mine_of = [call for call in calls if call.condition == name]
        bad = sum(int((call.losses >= BAD_DB).sum()) for call in mine_of)
        loss = float(np.mean([call.losses.mean() for call in mine_of]))
        if bad:
            value, unit = shares(mine_of, tau, settings)[0], f"of {bad} bad frames; {loss:.1f} dB lost on average"
        else:
            value = float(np.mean(np.concatenate([mine(c.watched, tau, settings).found for c in mine_of])))
            unit = f"of frames found though none is bad; {loss:.1f} dB lost on average"
        rows.append(Figure(f"recall.{name}", round(value, 3), unit, "printed", True))
    return rows


def curve_figures(calls: Sequence[Call], good: Sequence[Watched], tau: float, settings: HardSettings) -> list[Figure]:
    """Recall and precision at other thresholds, beside the share of good frames over them."""
    rows = []
    scores = np.concatenate([one.scores for one in good])
    for offset in OFFSETS:
        recall, precision = shares(calls, tau + offset, settings)
        unit = f"recall; precision {precision:.3f}, {float((scores > tau + offset).mean()):.4f} of good frames over"
        rows.append(
            Figure(f"curve.tau{offset:+g}", round(recall, 4), unit, f"printed; tau {tau + offset:.2f} dB", True)
        )
    return rows


def reach_figures(
    calls: Sequence[Call], good: Sequence[Watched], settings: HardSettings, call_s: float
) -> list[Figure]:
    """What no threshold can change: recall at the lowest tau that keeps the budget on these very good calls, and how
    often a truly bad frame scores above a good one (area under the ROC curve). tau itself is chosen on other clips.
    """
    lowest = lowest_quiet_tau(good, settings, call_s)
    recall, precision = shares(calls, lowest, settings)
    scores = np.concatenate([call.watched.scores for call in calls])
    bad = scores[np.concatenate([call.losses >= BAD_DB for call in calls])]
    area = roc_area(bad, np.concatenate([one.scores for one in good]))
    unit = f"recall at {lowest:.2f} dB, the lowest tau with <= {AN_HOUR:g} upload an hour; precision {precision:.3f}"
    return [
        Figure("reach.budget", round(recall, 4), unit, "printed", True),
        Figure("reach.roc_area", round(area, 4), "truly bad frames above good ones", "printed", True),
    ]


def lowest_quiet_tau(good: Sequence[Watched], settings: HardSettings, call_s: float = 3_600.0) -> float:
    """The lowest threshold, to 0.05 dB, at which the good hours keep the budget."""
    scores = np.concatenate([one.scores for one in good])
    low, high = float(np.quantile(scores, 0.5)), float(scores.max()) + _STEP_DB
    while high - low > _STEP_DB:
        middle = (low + high) / 2.0
        random = np.random.default_rng(18)
        hours = [uploads_in_an_hour(good, middle, settings, random, call_s=call_s)[0] for _ in range(_REACH_HOURS)]
        low, high = (low, middle) if np.mean(hours) <= AN_HOUR else (middle, high)
    return high


def roc_area(bad: NDArray[np.float64], good: NDArray[np.float64]) -> float:
    """Probability that a bad score lies above a good one; ties count half. 0.5 when one side is empty."""
    if not len(bad) or not len(good):
        return 0.5
    order = np.sort(good)
    below = np.searchsorted(order, bad, "left") + np.searchsorted(order, bad, "right")
    return float(below.mean() / (2.0 * len(good)))
