"""One run of the flow in child processes: as often killed as asked, started again each time until it ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.run_folder import Json

KILLS = (
    "collect:end", "hard_set:middle", "study:middle", "operators:middle", "search:middle", "train:middle",
    "quantise:middle", "prove:end", "build:middle", "training_set:end", "generation:end", "release:end",
)  # fmt: skip
"""One place in every step: in the middle where the step tells how far it is, else between its work and its result."""


@dataclass(frozen=True)
class Driven:
    """Steps with their times, wall and CPU seconds of all processes together, and how each process ended."""

    steps: Json
    wall_s: float
    cpu_s: float
    ends: tuple[int, ...]

    @property
    def killed(self) -> int:
        """Processes that SIGKILL took."""
        return sum(end == -signal.SIGKILL for end in self.ends)


def drive(state: Path, key: str, settings: Json, url: str, kills: Sequence[str] = ()) -> Driven:
    """Run until it ends; process number n dies at `kills[n]`. Raises RuntimeError when a process fails by itself."""
    began, cpu = time.monotonic(), _children_cpu()
    ends: list[int] = []
    for kill in (*kills, ""):
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.flow_child", str(state), key, json.dumps(settings), kill],
            env={**os.environ, "EDGELOOP_BASE_URL": url, "EDGELOOP_SERVICE_TOKEN": "t"},
            capture_output=True,
            text=True,
        )
        ends.append(done.returncode)
        if done.returncode not in (0, -signal.SIGKILL):
            raise RuntimeError(f"killed at {kill or 'no place'}, it ended {done.returncode}: {done.stderr[-4000:]}")
    return Driven(json.loads(done.stdout), time.monotonic() - began, _children_cpu() - cpu, tuple(ends))


def results(state: Path, key: str, steps: Sequence[str]) -> dict[str, bytes]:
    """Everything that a run decided: results of steps, networks, the generation it kept; without times."""
    folder, generation = state / "runs" / key, state / "models" / key
    names = [*(f"{step}.json" for step in steps), "operator_table.json", "float.npz", "model.onnx", "supernet.npz"]
    names += ["candidate.elb", "architecture.json", "accuracy.json", "data_list.json", "constraints.json"]
    names += ["front.svg", "curves.svg", "contact_sheet.png", "release_package.json"]
    found = {name: (folder / name).read_bytes() for name in names}
    return found | {f"generation/{path.name}": path.read_bytes() for path in sorted(generation.iterdir())}


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
