"""A fleet as arrays: who is where, what each device reported so far in either arm, and the evidence of one look.

Devices differ by a bias of their own; reports scatter around it. A device begins the new bundle some reports after it
is exposed, as it comes online. What a look sees is what `services/releases/observed.py` would read from the database.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from services.releases.verdict import POOLED, Evidence, Tail
from services.releases.verdict.crashes import CrashTable
from services.releases.verdict.evidence import Side, Stratum
from services.releases.verdict.guardrails import (
    CPU_FRAME_SHARE,
    DEADLINE_MISS_SHARE,
    DRIVER_ERROR_SHARE,
    FIDELITY_LSB,
    LATENCY_LOG_RATIO,
    QUALITY_LOSS_DB,
)
from services.releases.verdict.past import CrashPast, Observed

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CLASSES = ("npu-2t", "npu-4t")
BUCKETS = 10_000
FRAMES = 100.0
ONLINE = 0.6  # chance that a device comes online between two looks


@dataclass(frozen=True)
class Bundle:
    """How devices do on a bundle. `harmed` is the class that latency harm is limited to, or empty for all.

    `late_crash` is the share that crashes once everybody has it; None for a bundle that does not wait.
    """

    crash: float = 0.002
    trial_failure: float = 0.002
    latency_log: float = 0.0
    quality_loss_db: float = 0.0
    harmed: str = ""
    late_crash: float | None = None

    def at(self, points: int) -> Bundle:
        """As it is at an exposure."""
        late = self.late_crash if points == BUCKETS else None
        return self if late is None else replace(self, crash=late)


OLD = Bundle(trial_failure=0.0)


class Reports:
    """What devices of one arm have said so far."""

    def __init__(self, size: int) -> None:
        self.count = np.zeros(size)
        self.latency, self.score, self.fidelity, self.errors = (np.zeros(size) for _ in range(4))
        self.crashed = np.zeros(size, dtype=bool)

    def add(self, who: Flags, bundle: Bundle, population: Population) -> None:
        """One report of each of `who`."""
        draw, size = population.draw, int(who.sum())
        bias = population.bias[who]
        harm = bundle.latency_log * (population.harmed(bundle)[who])
        self.count[who] += 1
        self.latency[who] += -0.4 + harm + 0.05 * bias + 0.05 * draw.standard_normal(size)
        self.score[who] += 1.0 + bundle.quality_loss_db + 0.4 * bias + 0.4 * draw.standard_normal(size)
        self.fidelity[who] += 2.0 + 0.5 * bias + 0.3 * draw.standard_normal(size)
        self.errors[who] += (population.errs[who] & (draw.random(size) < 0.3)).astype(np.float64)
        self.crashed[who] |= (population.fate[who] < bundle.crash) & (draw.random(size) < 0.5)


class Population:
    """Devices in random buckets, half of each class."""

    def __init__(self, size: int, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.size = size
        self.bucket = self.draw.integers(0, BUCKETS, size)
        self.stratum = np.arange(size) % len(CLASSES)
        self.bias = self.draw.standard_normal(size)
        self.errs = self.draw.random(size) < 0.03
        self.fate = self.draw.random(size)
        self.luck = self.draw.random(size)
        self.keys = self.draw.integers(0, 2**64, size, dtype=np.uint64)
        self.canary, self.control, self.waiting = Reports(size), Reports(size), Reports(size)
        self.out = np.zeros(size, dtype=bool)
        self.started, self.failed = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        self.degraded = self.draw.random(size) < 0.003

    def harmed(self, bundle: Bundle) -> Flags:
        """Devices that the bundle's latency harm meets."""
        return self.stratum == CLASSES.index(bundle.harmed) if bundle.harmed else np.ones(self.size, dtype=bool)

    def live(self, points: int, bundle: Bundle) -> None:
        """The time between two looks: exposed devices install and report, the others report what they run."""
        online = self.draw.random(self.size) < ONLINE
        exposed = self.bucket < points
        self.waiting.add(online & exposed & ~self.started, OLD, self)
        new = online & exposed & ~self.started
        self.started |= new
        self.failed |= new & (self.luck < bundle.trial_failure)
        self.canary.add(online & self.started & ~self.failed & ~new, bundle.at(points), self)
        self.control.add(online & ~exposed, OLD, self)

    def fleet(self) -> Mapping[str, npt.NDArray[np.int64]]:
        """Buckets by class, as a plan wants them."""
        return {name: self.bucket[self.stratum == place] for place, name in enumerate(CLASSES)}

    def evidence(self, stages: tuple[int, ...], stage: int) -> Evidence:
        """What a look sees. Counts the crashes that no look has counted before."""
        points = stages[stage]
        narrower = [one for one in stages[: stage + 1] if one < BUCKETS]
        floor = narrower[-1] if narrower else BUCKETS
        new, old = self.canary.count > 0, (self.control.count > 0) & (self.bucket >= floor)
        strata = tuple(self._stratum(name, self.stratum == place, new, old) for place, name in enumerate(CLASSES))
        everyone = np.ones(self.size, dtype=bool)
        fleet = {name: int((self.stratum == place).sum()) for place, name in enumerate(CLASSES)}
        targeted = {
            name: int(((self.stratum == place) & (self.bucket < points)).sum()) for place, name in enumerate(CLASSES)
        }
        return Evidence(
            strata=strata,
            pooled=self._stratum(POOLED, everyone, new, old),
            fleet_shares={name: count / self.size for name, count in fleet.items()},
            targeted=targeted,
            fleet_devices=self.size,
            exposed_share=points / BUCKETS,
            crashes=self._crashes(new, old, concurrent=points < BUCKETS),
            past=self._past(new, old & (points == BUCKETS), floor),
            tail=self._tail(new, old),
            stage=stage,
            stages=len(stages),
        )

    def _stratum(self, name: str, members: Flags, new: Flags, old: Flags) -> Stratum:
        return Stratum(
            name=name,
            canary=self._side(self.canary, members & new),
            control=self._side(self.control, members & old),
            started=int((self.started & members).sum()),
            failed=int((self.failed & members).sum()),
            silent=0,
        )

    def _side(self, reports: Reports, who: Flags) -> Side:
        count = reports.count[who]
        values = {
            DRIVER_ERROR_SHARE: reports.errors[who] / (count * FRAMES),
            DEADLINE_MISS_SHARE: np.zeros(count.size),
            CPU_FRAME_SHARE: np.zeros(count.size),
            LATENCY_LOG_RATIO: reports.latency[who] / count,
            FIDELITY_LSB: reports.fidelity[who] / count,
            QUALITY_LOSS_DB: reports.score[who] / count,
        }
        return Side(count.size, int(self.degraded[who].sum()), values, int(reports.crashed[who].sum()))

    def _crashes(self, new: Flags, old: Flags, concurrent: bool) -> dict[str, CrashTable]:
        """First crashes of devices in this rollout, on whatever bundle; whoever crashed is out."""
        tables = {}
        for place, name in enumerate(CLASSES) if concurrent else ():
            counts: list[int] = []
            for reports, who in ((self.canary, new), (self.control, old)):
                free = who & (self.stratum == place) & ~self.out
                counts += [int((free & reports.crashed).sum()), int(free.sum())]
            if counts[0] + counts[2]:
                tables[name] = CrashTable(*counts)
        for reports in (self.canary, self.control, self.waiting):
            self.out |= reports.crashed
        return tables

    def _past(self, new: Flags, old: Flags, floor: int) -> dict[str, CrashPast]:
        """Devices that full exposure added, as control and on the new bundle."""
        after = new & (self.bucket >= floor) & ~self.control.crashed & ~self.waiting.crashed
        found = {}
        for place, name in enumerate(CLASSES) if old.any() else ():
            seen = [
                Observed(int(reports.crashed[who].sum()), int(who.sum()), float(reports.count[who].sum() * FRAMES))
                for reports, who in (
                    (self.control, old & (self.stratum == place)),
                    (self.canary, after & (self.stratum == place)),
                )
            ]
            found[name] = CrashPast(*seen)
        return found

    def _tail(self, new: Flags, old: Flags) -> Tail:
        parts = [(self.canary, new, True), (self.control, old, False)]

        def joined(name: str) -> Floats:
            return np.concatenate([getattr(reports, name)[who] for reports, who, _ in parts])

        count = joined("count")
        return Tail(
            keys=np.concatenate([self.keys[who] for _, who, _ in parts]),
            canary=np.concatenate([np.full(int(who.sum()), canary) for _, who, canary in parts]),
            latency=joined("latency") / np.maximum(count, 1),
            errors=joined("errors"),
            frames=count * FRAMES,
        )


LATENCY_20_PERCENT = math.log(1.2)
