"""One clustering in a process of its own: labels, wall and CPU time, memory.

`python -m benchmarks.clustering.measure METHOD sparse|dense COUNT WIDTH LABELS` writes the labels to a file and prints
the rest as JSON. Methods: `scan` (ours), `sklearn`, `insert` (the last seventh into what the six before gave; only that
insert is timed), `sharded` (ours in cells by two processes). Each may use two threads, or processes of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN
from sklearn.metrics import adjusted_rand_score

from benchmarks.clustering.shapes import dense, sparse
from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import cluster_points
from services.curation.domain.scan.audit import recall
from services.curation.domain.scan.clusters import grow_clusters, settled
from services.curation.domain.scan.limits import SCAN_LIMITS
from services.curation.domain.shards.parts import ShardedScan
from services.curation.executors import local_processes

EPS, MIN_SAMPLES = 0.25, 2
SHAPES = {"sparse": sparse, "dense": dense}
ROOT = Path(__file__).resolve().parents[2]

CELLS, PROCESSES = 4, 2

Labels = NDArray[np.int64]
Points = NDArray[np.float32]
Run = Callable[[], tuple[Labels, float]]


@dataclass(frozen=True)
class Measured:
    """peak: bytes of the whole process. grown: how much of that clustering added. planted: ARI against the truth."""

    labels: Labels
    seconds: float
    cpu: float
    peak: int
    grown: int
    recall: float
    planted: float

    @property
    def digest(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.labels, dtype="<i8").tobytes()).hexdigest()

    def agreement(self, other: Measured) -> float:
        """ARI of the two labellings."""
        return float(adjusted_rand_score(self.labels, other.labels))


def measured(method: str, kind: str, count: int, width: int) -> Measured:
    """Run one clustering in a child process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels.npy"
        command = [
            sys.executable,
            "-m",
            "benchmarks.clustering.measure",
            method,
            kind,
            str(count),
            str(width),
            str(file),
        ]
        threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(
                f"clustering {kind} {count} x {width} by {method} ended with {done.returncode}; "
                "where it was killed, free memory (scikit-learn needs 16 GB for the dense 100,000)"
            )
        return Measured(labels=np.load(file), **json.loads(done.stdout))


def scan(points: Points) -> Run:
    """Ours: collapse, scan, audit."""

    def run() -> tuple[Labels, float]:
        found = cluster_points(collapse(points), EPS, MIN_SAMPLES, len(points), direct_points=0)
        return found.labels, found.recall

    return run


def sklearn(points: Points) -> Run:
    """scikit-learn's DBSCAN with its defaults."""
    return lambda: (DBSCAN(eps=EPS, min_samples=MIN_SAMPLES).fit_predict(points).astype(np.int64), 1.0)


def insert(points: Points) -> Run:
    """The points of the last of seven days, when those of six are known."""
    old, weights = len(points) * 6 // 7, np.ones(len(points), dtype=np.int64)
    known = grow_clusters(points[:old], weights[:old], EPS, MIN_SAMPLES)

    def run() -> tuple[Labels, float]:
        fresh = np.arange(old, len(points))
        found = settled(grow_clusters(points, weights, EPS, MIN_SAMPLES, fresh, known))
        return found.labels, recall(points, weights, EPS, MIN_SAMPLES, found)

    return run


def sharded(points: Points) -> Run:
    """In cells, by processes, then put together and audited."""

    def run() -> tuple[Labels, float]:
        with local_processes(PROCESSES) as executor:
            scan = ShardedScan(executor, CELLS, replace(SCAN_LIMITS, workers=1))
            found = cluster_points(collapse(points), EPS, MIN_SAMPLES, len(points), direct_points=0, scan=scan)
        return found.labels, found.recall

    return run


METHODS: dict[str, Callable[[Points], Run]] = {"scan": scan, "sklearn": sklearn, "insert": insert, "sharded": sharded}


def main(method: str, kind: str, count: str, width: str, file: str) -> None:
    """The child."""
    points, truth = SHAPES[kind](int(count), int(width))
    run = METHODS[method](points)
    before, held = _peak(), _resident()
    wall, cpu = time.perf_counter(), _spent()
    labels, honoured = run()
    seconds, spent, peak = time.perf_counter() - wall, _spent() - cpu, _peak()
    np.save(file, labels)
    answer = {
        "seconds": seconds,
        "cpu": spent,
        "peak": peak,
        "grown": max(peak, before) - held,
        "recall": honoured,
        "planted": float(adjusted_rand_score(truth, labels)),
    }
    print(json.dumps(answer))


def _spent() -> float:
    """CPU seconds of this process and of its children that ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(*sys.argv[1:])
