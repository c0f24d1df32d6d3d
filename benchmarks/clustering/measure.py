"""One clustering in a process of its own: labels, wall and CPU time, memory.

`python -m benchmarks.clustering.measure scan|sklearn sparse|dense COUNT WIDTH LABELS` writes the labels to a file and
prints the rest as JSON.
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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN
from sklearn.metrics import adjusted_rand_score

from benchmarks.clustering.shapes import dense, sparse
from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import cluster_points

EPS, MIN_SAMPLES = 0.25, 2
SHAPES = {"sparse": sparse, "dense": dense}
ROOT = Path(__file__).resolve().parents[2]

Labels = NDArray[np.int64]


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


def scan(points: NDArray[np.float32]) -> tuple[Labels, float]:
    """Ours: collapse, scan, audit."""
    found = cluster_points(collapse(points), EPS, MIN_SAMPLES, len(points), direct_points=0)
    return found.labels, found.recall


def sklearn(points: NDArray[np.float32]) -> tuple[Labels, float]:
    """scikit-learn's DBSCAN with its defaults."""
    return DBSCAN(eps=EPS, min_samples=MIN_SAMPLES).fit_predict(points).astype(np.int64), 1.0


METHODS: dict[str, Callable[[NDArray[np.float32]], tuple[Labels, float]]] = {"scan": scan, "sklearn": sklearn}


def main(method: str, kind: str, count: str, width: str, file: str) -> None:
    """The child."""
    points, truth = SHAPES[kind](int(count), int(width))
    before, held = _peak(), _resident()
    wall, cpu = time.perf_counter(), time.process_time()
    labels, recall = METHODS[method](points)
    seconds, spent, peak = time.perf_counter() - wall, time.process_time() - cpu, _peak()
    np.save(file, labels)
    answer = {
        "seconds": seconds,
        "cpu": spent,
        "peak": peak,
        "grown": max(peak, before) - held,
        "recall": recall,
        "planted": float(adjusted_rand_score(truth, labels)),
    }
    print(json.dumps(answer))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(*sys.argv[1:])
