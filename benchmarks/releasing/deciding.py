"""Good releases ship, bad ones do not: many whole releases, each in its own seed, in two processes."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from benchmarks.judging.rows import standard_error
from benchmarks.releasing.population import LATENCY_20_PERCENT, Bundle
from benchmarks.releasing.release import Ending, release
from contracts.wire.releases import RolloutState
from edgeloop.figures import Figure, at_least, at_most

DEVICES = 10_000
GOOD_RUNS, BAD_RUNS = 200, 20
# 5_500 was looked at while crash odds were mended; these runs were drawn for the first time afterwards.
SEED = 20_261_130
BAD = {
    "crash_02_to_1_percent": Bundle(crash=0.01),
    "p99_20_percent_on_one_class": Bundle(latency_log=LATENCY_20_PERCENT, harmed="npu-2t"),
    "quality_minus_03_db": Bundle(quality_loss_db=0.3),
}
LATE = {
    "crash_02_to_1_percent_at_full_exposure": Bundle(late_crash=0.01),
    "crash_02_to_2_percent_at_full_exposure": Bundle(late_crash=0.02),
}


@dataclass(frozen=True)
class Work:
    """One release to run."""

    bundle: Bundle
    seed: int
    devices: int = DEVICES


def figures(
    tell: Callable[[float, str], None], good_runs: int = GOOD_RUNS, bad_runs: int = BAD_RUNS, devices: int = DEVICES
) -> list[Figure]:
    """All figures of decisions."""
    work = [Work(Bundle(), SEED + run, devices) for run in range(good_runs)]
    for place, bundle in enumerate([*BAD.values(), *LATE.values()], start=1):
        work += [Work(bundle, SEED + 1_000 * place + run, devices) for run in range(bad_runs)]
    found = _run_all(work, tell)
    kinds = range(len(BAD) + len(LATE))
    ended = [found[good_runs + bad_runs * kind : good_runs + bad_runs * (kind + 1)] for kind in kinds]
    bad, late = ended[: len(BAD)], ended[len(BAD) :]
    return [*_good(found[:good_runs]), *_bad(bad), _wrong(bad), *_late(late)]


def _run_all(work: Sequence[Work], tell: Callable[[float, str], None]) -> list[Ending]:
    found = []
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        for done, ending in enumerate(pool.map(_run, work, chunksize=2), start=1):
            found.append(ending)
            tell(done / len(work), f"releases {done} of {len(work)}")
    return found


def _run(work: Work) -> Ending:
    return release(work.bundle, work.devices, work.seed)


def _good(endings: Sequence[Ending]) -> list[Figure]:
    states = Counter(ending.state for ending in endings)
    shipped = states[RolloutState.COMPLETED] / len(endings)
    error = f"of {len(endings)} releases, ± {standard_error(shipped, len(endings)):.3f}"
    looks = statistics.median(ending.looks for ending in endings)
    return [
        at_least("good.shipped_without_a_person", round(shipped, 4), error, 0.95),
        at_most("good.rolled_back", round(states[RolloutState.ROLLED_BACK] / len(endings), 4), error, 0.05),
        Figure("good.paused_for_a_person", states[RolloutState.PAUSED], "releases", "printed", True),
        Figure("good.looks", looks, "median, one a simulated hour", "printed; soak alone is 12", True),
    ]


def _bad(kinds: Sequence[Sequence[Ending]]) -> list[Figure]:
    found = []
    for name, endings in zip(BAD, kinds, strict=True):
        back = sum(ending.state is RolloutState.ROLLED_BACK for ending in endings)
        caught = sum(not ending.shipped for ending in endings)
        exposed = sorted(ending.exposed for ending in endings)
        named = Counter(ending.metric for ending in endings if ending.metric).most_common(2)
        spread = f"{100 * exposed[0]:.1f} to {100 * exposed[-1]:.1f} % of the fleet"
        found += [
            at_least(f"bad.{name}.caught", round(caught / len(endings), 3), f"of {len(endings)}", 1.0),
            Figure(f"bad.{name}.rolled_back_by_itself", back, f"of {len(endings)}, the rest paused", "printed", True),
            Figure(
                f"bad.{name}.exposed", round(statistics.median(exposed), 4), f"median share; {spread}", "printed", True
            ),
            Figure(f"bad.{name}.named", ", ".join(f"{metric} {n}" for metric, n in named) or "-", "", "printed", True),
        ]
    return found


def _late(kinds: Sequence[Sequence[Ending]]) -> list[Figure]:
    """Crashes that begin when no control is left: everybody has the bundle by then, so no exposure is promised."""
    found = []
    for name, endings in zip(LATE, kinds, strict=True):
        states = Counter(ending.state for ending in endings)
        rest = f"of {len(endings)}, {states[RolloutState.PAUSED]} paused, {states[RolloutState.COMPLETED]} shipped"
        found.append(Figure(f"late.{name}.rolled_back", states[RolloutState.ROLLED_BACK], rest, "printed", True))
    return found


def _wrong(kinds: Sequence[Sequence[Ending]]) -> Figure:
    endings = [ending for kind in kinds for ending in kind]
    shipped = sum(ending.shipped for ending in endings)
    return at_most("bad.shipped", round(shipped / len(endings), 4), f"of {len(endings)} bad releases", 0.05)
