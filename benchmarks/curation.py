"""`edgeloop bench curation`: the largest window that a run takes, through the service and its PostgreSQL.

A full run, a day of a seventh more added to it, coverage, and the plan applied. The promise is the time limit of the
task that does runs; memory is the peak of the whole worker, the database not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from edgeloop.figures import Figure, at_least, below, exactly

ROOT = Path(__file__).resolve().parents[1]
COUNT = 437_500
"""With the day: 500,000, `LIMITS.window_segments`."""
TASK_S, CLIENT_S, PEAK_GB = 300.0, 60.0, 4.0


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of one window."""
    tell(0.0, f"{COUNT} segments and a day")
    command = [sys.executable, "-m", "benchmarks.clustering.window", str(COUNT)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the window ended with {done.returncode}; where it was killed, free 6 GB of memory")
    found = json.loads(done.stdout.splitlines()[-1])
    full, day, apply = found["full"], found["day"], found["apply"]
    return [
        exactly("window.full.state", found["state"], found["error"] or f"{found['clusters']} clusters", "done"),
        below("window.full.seconds", full["seconds"], "s with the database", TASK_S),
        Figure("window.full.cpu", full["cpu"], "s of CPU, the database not counted", "printed", True),
        exactly("window.day.state", found["day_state"], f"{found['inserted']} segments added", "done"),
        below("window.day.seconds", day["seconds"], "s with the database", TASK_S),
        Figure("window.day.cpu", day["cpu"], "s of CPU, the database not counted", "printed", True),
        at_least("window.recall", found["recall"], "of pairs", 0.99),
        Figure("window.cover.seconds", found["cover"]["seconds"], "s for 1,000 training vectors", "printed", True),
        below("window.apply.seconds", apply["seconds"], f"s for {found['dropped']} segments", CLIENT_S),
        below("window.peak", round(found["peak"] / 1e9, 3), "GB, whole worker", PEAK_GB),
    ]
