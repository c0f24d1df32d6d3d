"""`python -m benchmarks.peers.evidently.run`: Evidently and us on the same embeddings; writes `results.json`.

Each repetition makes embeddings of 256 dimensions (power-law spectrum, unit variance a coordinate on average): two
reference days and one judged day, healthy or shifted by D = 0.5 or 1 spread over 28 directions. Evidently gets all
rows, as a user would give them; ours gets what the same devices would have sent, one report each. Cases:

- `rows_300`, `rows_1000`: one frame a device, so that rows are independent, which its methods assume;
- `fleet_300`: eight frames a device that resemble each other (AR(1) 0.95, half the variance between devices).

Evidently's methods run with their defaults, `*_bootstrap` with bootstrap=True and its default quantile.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.drifting.device_days import World, bytes_of, reports
from benchmarks.drifting.population import Population
from benchmarks.peers.environment import Environment, PeerFailed, environment
from benchmarks.peers.evidently.results import PATH, Results, Row, write_results
from contracts.statistics import decode_report
from services.drift.domain.accumulator import CohortDayStatistics, statistics_of
from services.drift.domain.reading import Reading
from services.drift.domain.reference import Reference, pooled_spread
from services.drift.domain.verdict import drifting, judge, measure
from services.drift.limits import DriftSettings

REQUIREMENTS = ("evidently==0.7.23", "pandas<3")
FOLDER = Path(__file__).resolve().parents[3] / "build" / "peers" / "evidently"
JUDGE = Path(__file__).parent / "judge.py"
SEED = 604
SETTINGS = DriftSettings()
SMALL, DAY = 0.5, 20_000
LARGE = 1.0
DEFAULTS = ("distance", "model", "ratio", "mmd")
ALL = (*DEFAULTS, "distance_bootstrap", "mmd_bootstrap")

Frames = NDArray[np.float32]
Done = Callable[[float, str], None]


@dataclass(frozen=True)
class Case:
    """Devices, how their frames vary, repetitions of each kind, and Evidently's methods to run."""

    name: str
    devices: int
    population: Population
    repeats: int
    methods: tuple[str, ...]


INDEPENDENT = Population(between=0.0, rho=0.0, frames=1)
CASES = (
    Case("rows_300", 300, INDEPENDENT, 20, ALL),
    Case("rows_1000", 1_000, INDEPENDENT, 10, DEFAULTS),
    Case("fleet_300", 300, Population(frames=8), 10, DEFAULTS),
)
KINDS = {"healthy": 0.0, "shifted": SMALL, "large": LARGE}


@dataclass
class Count:
    """Verdicts of one method on one case so far."""

    healthy: int = 0
    false_alarms: int = 0
    shifted: int = 0
    found: int = 0
    large: int = 0
    large_found: int = 0
    seconds: float = 0.0
    bytes: int = 0

    def add(self, kind: str, drift: bool, seconds: float) -> None:
        """Take one verdict."""
        self.seconds += seconds
        if kind == "healthy":
            self.healthy, self.false_alarms = self.healthy + 1, self.false_alarms + drift
        elif kind == "shifted":
            self.shifted, self.found = self.shifted + 1, self.found + drift
        else:
            self.large, self.large_found = self.large + 1, self.large_found + drift

    def row(self, case: str, method: str) -> Row:
        """The row of the table."""
        runs = self.healthy + self.shifted + self.large
        counts = (self.healthy, self.false_alarms, self.shifted, self.found, self.large, self.large_found)
        return Row(case, method, *counts, self.bytes, round(self.seconds / runs, 4))


def compare(done: Done, folder: Path = FOLDER, share: float = 1.0) -> Results:
    """Run all cases; `share` of the repetitions. Needs a package index the first time; raises PeerFailed."""
    done(0.0, "Evidently's environment")
    peer = environment(folder / "environment", REQUIREMENTS)
    rows: list[Row] = []
    for index, case in enumerate(CASES):
        done((index + 0.1) / len(CASES), f"Evidently and ours, {case.name}")
        rows += compare_case(case, peer, share)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Results(date, peer.packages(), tuple(rows))


def compare_case(case: Case, peer: Environment, share: float = 1.0) -> list[Row]:
    """One case: write the rows for Evidently, judge our reports meanwhile, then let it judge."""
    repeats = max(1, round(case.repeats * share))
    ours = Count()
    with tempfile.TemporaryDirectory() as scratch:
        for repeat in range(repeats):
            for kind, size in KINDS.items():
                days = _days(case, size, repeat)
                reference = np.concatenate([day.reshape(-1, day.shape[-1]) for day in days[:2]])
                current = days[2].reshape(-1, reference.shape[1])
                np.savez(Path(scratch) / f"{kind}-{repeat:03d}.npz", reference=reference, current=current)
                drift, seconds, ours.bytes = judged(days, case.population)
                ours.add(kind, drift, seconds)
        said = json.loads(peer.run("python", [str(JUDGE), scratch, ",".join(case.methods)]))
    theirs = {method: Count(bytes=reference.nbytes + current.nbytes) for method in case.methods}
    for one in said:
        theirs[one["method"]].add(one["file"].split("-")[0], one["drift"], one["seconds"])
    return [ours.row(case.name, "edgeloop"), *(count.row(case.name, method) for method, count in theirs.items())]


def judged(days: list[Frames], population: Population) -> tuple[bool, float, int]:
    """Our verdict on the third day: drift or not, seconds of the service (parse, merge, judge), bytes kept."""
    world = _world()
    sent = [reports(day, world.observer, DAY + index, 10_000 * index) for index, day in enumerate(days)]
    begun = time.perf_counter()
    reading = Reading.of(world.observer.projection)
    folded = [statistics_of([decode_report(payload) for payload in payloads], reading) for payloads in sent]
    verdict = _verdict(folded)
    seconds = time.perf_counter() - begun
    kept = sum(len(day.to_bytes()) for day in folded)
    assert bytes_of(sent[2]) == len(days[2]) * len(sent[2][0])
    return verdict, seconds, kept


def _verdict(folded: list[CohortDayStatistics]) -> bool:
    reference = Reference.of_days([day.votes for day in folded[:2]])
    measured = {"a/b": measure(folded[2].votes, reference, pooled_spread([reference]), SETTINGS)}
    return drifting(judge(measured, SETTINGS)["a/b"].state)


_WORLDS: dict[int, World] = {}


def _world() -> World:
    return _WORLDS.setdefault(SEED, World.of(SEED))


def _days(case: Case, size: float, repeat: int) -> list[Frames]:
    rng = np.random.default_rng((SEED, repeat, round(10 * size), case.devices, case.population.frames))
    world = _world()
    shifts: list[NDArray[np.float64] | float] = [0.0, 0.0, world.shift(size) if size else 0.0]
    return [world.frames(rng, case.population, case.devices, shift) for shift in shifts]


def main() -> int:
    """Run, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="environment (default: build/peers/evidently)")
    parser.add_argument("--out", type=Path, default=PATH, help="where the table goes (default: results.json here)")
    chosen = parser.parse_args()
    try:
        results = compare(lambda share, text: print(f"{share:4.0%} {text}", file=sys.stderr), chosen.folder)
    except PeerFailed as error:
        print(f"Evidently did not run: {error}", file=sys.stderr)
        return 1
    write_results(results, chosen.out)
    for row in results.rows:
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
