"""`edgeloop bench learning`: what the learning part reaches when it really trains, within counted CPU seconds.

Five stages for each of three seeds (`teaching/`): the hand-made network against bicubic on held-out people and scenes;
the supernet of the fine space, its order of sizes and its ranking; the search's network against the hand-made one at
its emulated latency; retraining on a hard condition; an incremental answer to a new condition against beginning again.
Every figure is the median over seeds, with the seeds' spread. CPU seconds are those of one thread and do not count
time that the process was stopped; latencies are the emulated device's.

What is missing is trained here; about an hour of CPU for a seed. Stages are kept under `build/bench/learning` by
configuration, seed and training code, so a run that was stopped goes on. EDGELOOP_LEARNING_SEEDS ("1" or "1,2,3")
chooses seeds, EDGELOOP_LEARNING_STAGES ("anchor,supernet") stages; `python -m benchmarks.teaching STAGE --seed N` runs
one stage alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.eta import Eta, part
from benchmarks.teaching.kept import Json
from benchmarks.teaching.reference_pair import reference_figures
from benchmarks.teaching.stages import STAGES
from edgeloop.figures import Figure
from flows.tasks.device import VARIABLE as DEVICE

SEEDS = (1, 2, 3)
ANCHOR_GAIN = {"person": 5.5, "carphone": 3.0, "bikes": None}
LEAST_TAU, SEARCH_GAIN, SEARCH_LATENCY = 0.8, 0.15, 0.85
TIME_SHARE, QUALITY_LOSS = 1 / 3, 0.1
HARD_GAIN, NORMAL_LOSS = 0.5, 0.05

Found = Mapping[int, Json]


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the chosen stages and seeds."""
    os.environ[DEVICE] = "cpu"  # budgets are CPU seconds
    names, seeds = chosen_stages(), chosen_seeds()
    eta, found = Eta(tell), {name: dict[int, Json]() for name in names}
    steps = [(seed, name) for seed in seeds for name in names]
    for index, (seed, name) in enumerate(steps):
        told = part(eta, index / len(steps), (index + 1) / len(steps), f"seed {seed}, {name}:")
        found[name][seed] = STAGES[name](seed, told)
    figures = [Figure("budgets", str(budgets()), "CPU seconds", "printed", True)]
    return [*figures, *reference_figures(), *(figure for name in names for figure in FIGURES[name](found[name]))]


def chosen_seeds() -> tuple[int, ...]:
    """Seeds of EDGELOOP_LEARNING_SEEDS, else all three."""
    raw = os.environ.get("EDGELOOP_LEARNING_SEEDS")
    return tuple(int(seed) for seed in raw.split(",")) if raw else SEEDS


def chosen_stages() -> tuple[str, ...]:
    """Stages of EDGELOOP_LEARNING_STAGES, else all. Raises ValueError for an unknown one."""
    raw = os.environ.get("EDGELOOP_LEARNING_STAGES")
    names = tuple(raw.split(",")) if raw else tuple(STAGES)
    if unknown := set(names) - set(STAGES):
        raise ValueError(f"no stage {', '.join(sorted(unknown))}; known: {', '.join(STAGES)}")
    return names


def anchor_figures(found: Found) -> list[Figure]:
    """Y-PSNR above bicubic, on each held-out set."""
    figures = [_printed("anchor.iterations", [row["training"]["iterations"] for row in found.values()], "steps")]
    for name, wanted in ANCHOR_GAIN.items():
        gains = [row["network"][name] - row["bicubic"][name] for row in found.values()]
        levels = f"dB above bicubic's {next(iter(found.values()))['bicubic'][name]:.2f}"
        figures.append(_least(f"anchor.{name}.gain", gains, levels, wanted))
    return figures


def supernet_figures(found: Found) -> list[Figure]:
    """The chain of sizes: every larger network at least as good as the one it contains."""
    person = [[step["psnr"]["person"] for step in row["chain"]] for row in found.values()]
    figures = [
        _printed(f"supernet.chain{index}", [levels[index] for levels in person], "dB, held-out person")
        for index in range(len(person[0]))
    ]
    ordered = sum(all(a < b for a, b in pairwise(levels)) for levels in person)
    reach = f"all of {len(person)} seeds"
    return [*figures, Figure("supernet.monotone", ordered, "seeds", reach, ordered == len(person))]


def ranking_figures(found: Found) -> list[Figure]:
    """Kendall's tau, and how much fine-tuning adds."""
    adds = [median(net["tuned"] - net["slice"] for net in row["networks"]) for row in found.values()]
    return [
        _least("ranking.tau", [row["tau"] for row in found.values()], "of 8 networks, slice against tuned", LEAST_TAU),
        _printed("ranking.tuning_adds", adds, "dB, median network"),
    ]


def search_figures(found: Found) -> list[Figure]:
    """Either better at equal latency and LPIPS no worse, or as good and faster; on the held-out person."""
    rows = list(found.values())
    gains = [row["found"]["person"]["psnr"] - row["plain"]["person"]["psnr"] for row in rows]
    lpips = [row["found"]["person"]["lpips"] - row["plain"]["person"]["lpips"] for row in rows]
    ratios = [row["measured_us"] / row["plain_us"] for row in rows]
    better = median(gains) >= SEARCH_GAIN and median(lpips) <= 0 and median(ratios) <= 1.0
    quicker = [row["quicker"]["person"]["psnr"] - row["plain"]["person"]["psnr"] for row in rows]
    shorter = [row["quicker"]["measured_us"] / row["plain_us"] for row in rows]
    faster = median(quicker) >= 0 and median(shorter) <= SEARCH_LATENCY
    reach = f">= {SEARCH_GAIN} dB, LPIPS not worse, latency <= 1; or >= 0 dB at <= {SEARCH_LATENCY} x latency"
    longer = [row["found"]["person"]["psnr"] - row["longer"]["person"]["psnr"] for row in rows]
    others = [
        _printed(f"search.{name}.gain", [r["found"][name]["psnr"] - r["plain"][name]["psnr"] for r in rows], "dB")
        for name in ("carphone", "bikes")
    ]
    return [
        Figure("search.person.gain", round(median(gains), 3), _spread(gains, "dB"), reach, better or faster),
        _printed("search.person.lpips_change", lpips, "LPIPS; below zero is better"),
        _printed("search.latency_ratio", ratios, "x the hand-made network, emulated, whole networks"),
        *others,
        _printed("search.gain_over_longer", longer, "dB over the hand-made network with the first stage's seconds too"),
        _printed("search.quicker.gain", quicker, f"dB of the best found within {SEARCH_LATENCY} x the latency"),
        _printed("search.quicker.latency_ratio", shorter, "x the hand-made network, emulated, whole networks"),
        _printed("search.judged", [row["judged_networks"] for row in rows], "networks"),
        Figure("search.network", rows[0]["architecture"], "first seed", "printed", True),
    ]


def hard_figures(found: Found) -> list[Figure]:
    """Retrained against old on the held-out person."""
    rows = list(found.values())

    def change(call: str, what: str) -> list[float]:
        return [float(row["new"][call][what] - row["old"][call][what]) for row in rows]

    return [
        _least("hard.psnr_gain", change("hard", "psnr"), "dB over the old network", HARD_GAIN),
        _most("hard.lpips_change", change("hard", "lpips"), "LPIPS", 0.0),
        _most("hard.flicker_change", change("hard", "flicker"), "LSB where nothing moves", 0.0),
        _least("normal.psnr_change", change("normal", "psnr"), "dB over the old network", -NORMAL_LOSS),
        _printed("normal.lpips_change", change("normal", "lpips"), "LPIPS"),
        _printed("normal.flicker_change", change("normal", "flicker"), "LSB"),
        _printed("hard.old_psnr", [row["old"]["hard"]["psnr"] for row in rows], "dB"),
    ]


def incremental_figures(found: Found) -> list[Figure]:
    """Time and quality of the incremental answer against beginning again, on the new condition."""
    rows = list(found.values())
    times = [row["incremental"]["seconds"] / row["full"]["seconds"] for row in rows]
    losses = [row["full"]["hard"]["psnr"] - row["incremental"]["hard"]["psnr"] for row in rows]
    healthy = [row["incremental"]["normal"]["psnr"] - row["full"]["normal"]["psnr"] for row in rows]
    return [
        _most("incremental.time", times, "of the full search, CPU seconds", TIME_SHARE),
        _most("incremental.loss", losses, "dB on the new condition", QUALITY_LOSS),
        _printed("incremental.normal", healthy, "dB over the full search in healthy calls"),
        _printed("incremental.latency_ratio", [row["incremental"]["latency_ratio"] for row in rows], "x hand-made"),
        _printed("full.latency_ratio", [row["full"]["latency_ratio"] for row in rows], "x hand-made"),
    ]


FIGURES: dict[str, Callable[[Found], list[Figure]]] = {
    "anchor": anchor_figures,
    "supernet": supernet_figures,
    "ranking": ranking_figures,
    "search": search_figures,
    "hard": hard_figures,
    "incremental": incremental_figures,
}


def _least(name: str, values: Sequence[float], unit: str, bound: float | None) -> Figure:
    if bound is None:
        return _printed(name, values, unit)
    value = median(values)
    return Figure(name, round(value, 4), _spread(values, unit), f">= {bound:g}", bool(value >= bound))


def _most(name: str, values: Sequence[float], unit: str, bound: float) -> Figure:
    value = median(values)
    return Figure(name, round(value, 4), _spread(values, unit), f"<= {bound:.4g}", bool(value <= bound))


def _printed(name: str, values: Sequence[float], unit: str) -> Figure:
    return Figure(name, round(median(values), 4), _spread(values, unit), "printed", True)


def _spread(values: Sequence[float], unit: str) -> str:
    return f"{unit}; {len(values)} seeds, {min(values):.4g} to {max(values):.4g}"
