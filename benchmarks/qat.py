"""`edgeloop bench qat`: what INT8 costs a small x2 net on a person nothing was trained on, beside other quantisers.

The net (six convolutions of 16 channels) is the one that `bench learning` trains for 540 CPU seconds a seed; it is
shared with that bench. Everything after begins there, takes 150 steps over the same patches, and is compared with the
float net trained 150 steps more. dB are RGB, measured on the INT8 model in ONNX Runtime. Results of each stage stay in
`build/bench`, so a stopped bench goes on where it was. EDGELOOP_QAT_SEEDS ("1,2,3") chooses the seeds; fewer than three
miss a promise. Reads recordings of people from `../shared/data/video` or EDGELOOP_PEOPLE.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.peers.environment import PeerFailed
from benchmarks.quantising.cache import Json
from benchmarks.quantising.rows import METHODS, PEERS, WAYS, Seed
from edgeloop.figures import Figure, at_least, at_most, exactly
from flows.tasks.device import VARIABLE as DEVICE

VARIABLE, SEEDS = "EDGELOOP_QAT_SEEDS", (1, 2, 3)
START_CPU_S = 540.0
OURS, REQUIRED = "own", "brevitas"
MAX_DROP_DB, MAX_SHARE, MAX_BEHIND_DB = 0.05, 0.02, 0.01
_MINUTES = {"start": 9.0, "trained_on": 1.0, "own": 1.5, "runtime": 0.2, "peer": 2.0}
"""What a stage takes when nothing is kept, for the time that is left."""


@dataclass
class Found:
    """Facts by stage, one list entry a seed; `failed` says why a peer has none."""

    rows: dict[str, list[Json]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def values(self, row: str, fact: str = "rgb") -> np.ndarray:
        """One fact over the seeds."""
        return np.array([one[fact] for one in self.rows[row]], np.float64)


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures, stage by stage and seed by seed."""
    os.environ[DEVICE] = "cpu"  # where the peers train
    seeds = tuple(int(one) for one in os.environ.get(VARIABLE, "").split(",") if one.strip()) or SEEDS
    return figures(measure([Seed(number) for number in seeds], tell), len(seeds))


def measure(seeds: Sequence[Seed], tell: Callable[[float, str], None]) -> Found:
    """Run every stage that is not kept."""
    found, clock = Found(), _Clock(len(seeds), tell)
    for seed in seeds:
        jobs: list[tuple[str, str, Callable[[], Json]]] = [
            ("start", "fp32", lambda s=seed: s.anchor(clock.inside)),
            ("trained_on", "fp32_on", lambda s=seed: s.trained_on(clock.inside)),
            *(("own", way, lambda s=seed, w=way: s.own(w, clock.inside)) for way in WAYS),
            *(("runtime", method, lambda s=seed, m=method: s.runtime(m)) for method in METHODS),
            *(("peer", peer, lambda s=seed, p=peer: s.peer(p)) for peer in PEERS),
        ]  # fmt: skip
        for kind, name, job in jobs:
            clock.begin(kind, f"seed {seed.number}, {name}")
            try:
                found.rows.setdefault(name, []).append(job())
            except PeerFailed as error:
                found.failed[name] = str(error)
            clock.end(kind)
    return found


def figures(found: Found, seeds: int) -> list[Figure]:
    """What came out, held against the promises."""
    names = [name for name in found.rows if len(found.rows[name]) == seeds]
    return [
        at_least("qat.seeds", seeds, "trainings", len(SEEDS)),
        at_least("qat.start_cpu_s", float(found.values("fp32", "cpu_s").min()), "CPU s of the start", START_CPU_S),
        *(_quality(name, found) for name in names),
        _drop("ptq.drop", found, "fp32", "ptq", MAX_DROP_DB),
        _drop("ptq_free_ends.drop", found, "fp32", "ptq_free_ends", None),
        _drop("qat.drop", found, "fp32_on", OURS, MAX_DROP_DB),
        *_agreement(found),
        *(_apart(name, found) for name in names if name in PEERS),
        *_ranking(found, names),
        *(
            Figure(f"{name}.failed", text[:300], "did not run", "runs", name != REQUIRED)
            for name, text in found.failed.items()
        ),
    ]  # fmt: skip


def _quality(name: str, found: Found) -> Figure:
    values = found.values(name)
    return Figure(
        f"{name}.rgb", round(float(values.mean()), 3), f"dB, {_spread(values)}{_beside(found, name)}", "printed", True
    )


def _beside(found: Found, name: str) -> str:
    first = found.rows[name][0]
    told = [f"luma {float(found.values(name, 'luma').mean()):.3f}"]
    told += [f"{float(found.values(name, 'steps').mean()):.0f} steps"] if "steps" in first else []
    told += [f"{float(found.values(name, 'cpu_s').mean()):.0f} CPU s"] if "cpu_s" in first else []
    return "; " + ", ".join(told)


def _drop(label: str, found: Found, whole: str, rounded: str, bound: float | None) -> Figure:
    drops = found.values(whole) - found.values(rounded)
    value, unit = round(float(drops.mean()), 4), f"dB RGB, {_spread(drops)}"
    if bound is None:
        return Figure(label, value, unit, "printed", True)
    return Figure(label, value, unit, f"<= {bound:g} dB", bool(drops.mean() <= bound))


def _agreement(found: Found) -> list[Figure]:
    held = [one for name in ("ptq", OURS) for one in found.rows[name]]
    trained, exact, unfused = ([one[kind] for one in held] for kind in ("trained", "exact", "unfused"))
    return [
        at_most("int8.max_lsb", round(max(one["steps"] for one in trained), 3), "steps, fake against integers", 1.0),
        _share("int8.off_by_one", max(one["share"] for one in trained), "fake quantisation against integers, worst"),
        _share("int8.unfused", max(one["share"] for one in unfused), "against ONNX Runtime without optimisation", None),
        _share("int8.exact_twin", max(one["share"] for one in exact), "twin set to evaluation", 0.0),
        exactly(
            "npu.differences", sum(one["device_differences"] for one in held),
            f"bytes of {sum(one['device_values'] for one in held)}, emulated device against ONNX Runtime's integers", 0,
        ),
    ]  # fmt: skip


def _share(label: str, share: float, what: str, bound: float | None = MAX_SHARE) -> Figure:
    percent = round(100.0 * share, 5)
    reach = "printed" if bound is None else f"<= {bound:g} %"
    return Figure(label, percent, f"% of values, {what}", reach, bound is None or percent <= bound)


def _apart(name: str, found: Found) -> Figure:
    worst = max(found.rows[name], key=lambda one: float(one["trained"]["share"]))
    unit = f"steps, {100 * worst['trained']['share']:.4f} % of values off; its fake quantisation against ONNX Runtime"
    version = worst.get("version", "")
    return Figure(f"{name}.max_lsb", round(float(worst["trained"]["steps"]), 2), f"{unit}; {version}", "printed", True)


def _ranking(found: Found, names: Sequence[str]) -> list[Figure]:
    others = {name: float(found.values(name).mean()) for name in names if name in PEERS or name in METHODS}
    if not others:
        return []
    first = max(others, key=lambda name: others[name])
    behind = others[first] - float(found.values(OURS).mean())
    gaps = found.values(first) - found.values(OURS)
    unit = f"dB behind {first}, the best other (below 0: ahead), {_spread(gaps)}"
    return [
        Figure("same_steps.behind_first", round(behind, 4), unit, f"<= {MAX_BEHIND_DB:g} dB", behind <= MAX_BEHIND_DB)
    ]


def _spread(values: np.ndarray) -> str:
    return f"mean of {len(values)}, {values.min():.3f} to {values.max():.3f}"


@dataclass
class _Clock:
    """Share done and minutes left, from what stages take; stages that are kept take nothing and correct the guess."""

    seeds: int
    tell: Callable[[float, str], None]
    _done: float = 0.0
    _begun: float = field(default_factory=time.monotonic)
    _worked: float = 0.0
    _now: tuple[str, str] = ("", "")

    def begin(self, kind: str, text: str) -> None:
        self._now, self._started = (kind, text), time.monotonic()
        self.inside(0.0, "")

    def end(self, kind: str) -> None:
        spent = (time.monotonic() - self._started) / 60.0
        self._done += _MINUTES[kind]
        self._worked += _MINUTES[kind] if spent > 0.05 else 0.0

    def inside(self, share: float, _text: str) -> None:
        kind, text = self._now
        whole = self._whole()
        at = self._done + share * _MINUTES[kind]
        passed, worked = (time.monotonic() - self._begun) / 60.0, self._worked + share * _MINUTES[kind]
        pace = passed / worked if worked > 0.5 else 1.0
        self.tell(at / whole, f"{text}, about {max(1, round((whole - at) * pace))} min left")

    def _whole(self) -> float:
        kinds = {"start": 1, "trained_on": 1, "own": len(WAYS), "runtime": len(METHODS), "peer": len(PEERS)}
        return self.seeds * sum(_MINUTES[kind] * count for kind, count in kinds.items())
