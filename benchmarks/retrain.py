"""`edgeloop bench retrain`: the whole flow at its default budget, killed with -9 in each step, against one left alone.

Three runs from the same hard cluster, default corpus, frame sizes and targets:
 - `minutes`: the default budget as users have it; tells how many steps of each training that budget buys here;
 - `killed`: learning counted in those steps, the process killed once in each of the twelve steps and started again;
 - `alone`: the same steps, never disturbed. Killed and alone must leave the same bytes: networks, sheets, bundle, and
   everything that the platform was told. (A budget in minutes cannot: its learning rate follows the clock.)

Emulated: the platform is a twin behind HTTP on loopback. It compiles each build for real, its gate always passes,
devices are emulated. CPU is that of the flow's processes, all restarts included, without the twin's; on a machine that
does nothing else the wall time lies below it, so it is held against the same promise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeloop.figures import Figure, at_most, exactly
from flows.data.corpus import Split, default_corpus, read
from flows.data.degrade import HARD, NORMAL_VARIETY, receive
from flows.embedder import SegmentEmbedder
from flows.hardset import training_vectors
from flows.model_store import SEEDS
from flows.retrain import STEPS
from flows.run_folder import Json, RunFolder
from flows.steps.budget import Training
from flows.steps.context import views_of
from flows.tasks.curve import Curve, curve_of
from tests.support.flow_killing import KILLS, Driven, drive, results
from tests.support.flow_server import FlowServer
from tests.support.flow_twin import FlowPlatformTwin

KEY = "bench"
WALL_S = 480.0
Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Ended:
    """A run that ended, its folder's root and the platform that it talked to."""

    driven: Driven
    state: Path
    twin: FlowPlatformTwin


def bench(tell: Tell) -> Sequence[Figure]:
    """All figures of the flow."""
    tell(0.0, "what devices would have sent")
    members, eps = hard_cluster()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tell(0.03, "the default budget, left alone")
        minutes = one_run(root / "minutes", members, eps, {})
        counted: Json = {"steps": [steps for steps, _ in trainings(minutes)]}
        tell(0.35, f"the same work, killed in each of {len(KILLS)} steps")
        killed = one_run(root / "killed", members, eps, counted, KILLS)
        tell(0.7, "the same work, left alone")
        alone = one_run(root / "alone", members, eps, counted)
        return [*run_figures("minutes", minutes), *killed_figures(killed, alone), *run_figures("alone", alone)]


def hard_cluster() -> tuple[np.ndarray, float]:
    """Vectors of the held-out face under the hard condition, and a reach that the training set does not cover."""
    corpus = default_corpus()
    embedder = SegmentEmbedder((SEEDS / "quality.onnx").read_bytes())
    face = read(corpus.of(Split.HELD_OUT)[-1], scale=1, limit=12)
    low = face.reshape(len(face), face.shape[1] // 2, 2, face.shape[2] // 2, 2, 3).mean(axis=(2, 4)).astype(np.uint8)
    members = np.concatenate([embedder.segments(receive(low, HARD.with_seed(s), 25.0), 4) for s in range(3)])
    rows = training_vectors(views_of(corpus.of(Split.TRAIN)), NORMAL_VARIETY, embedder)
    normal = np.concatenate([landed.vectors for landed in rows])
    nearest = np.linalg.norm(members[:, None] - normal[None], axis=2).min(axis=1)
    return members, 0.7 * float(nearest.max())


def one_run(state: Path, members: np.ndarray, eps: float, settings: Json, kills: Sequence[str] = ()) -> Ended:
    """The flow against a platform of its own."""
    twin = FlowPlatformTwin(members, eps)
    with FlowServer(twin) as server:
        return Ended(drive(state, KEY, settings, server.url, kills), state, twin)


def trainings(ended: Ended) -> list[tuple[int, int]]:
    """Steps and steps back of each training of a run."""
    folder = ended.state / "runs" / KEY
    files = (curve_of(folder / training.value[2]) for training in Training)
    curves = [Curve.load(file) for file in files if file.exists()]
    return [(curve.steps, curve.retreats) for curve in curves]


def run_figures(name: str, ended: Ended) -> list[Figure]:
    """Time of a run, by step, and what it learned; printed."""
    driven, folder = ended.driven, RunFolder(ended.state / "runs" / KEY)
    shares = ", ".join(f"{step} {driven.steps[step]['seconds']:.1f}" for step in STEPS)
    counts = "/".join(str(steps) for steps, _ in trainings(ended))
    found = [
        Figure(f"{name}.wall", round(driven.wall_s, 1), "s, the machine shared", "printed", True),
        Figure(f"{name}.cpu", round(driven.cpu_s, 1), "s of CPU", "printed", True),
        Figure(f"{name}.seconds_by_step", shares, "s", "printed", True),
        Figure(f"{name}.learning_steps", counts, "adapt/fine-tune/quantise", "printed", True),
    ]
    for row in folder.read_json("prove.json").values():
        what = f"{name}.gain.{row['condition']}"
        unit = f"{row['unit']} over the parent on held-out clips; INT8 costs {row['int8_drop_db']:.3f} dB"
        found.append(Figure(what, round(row["gain"], 3), unit, "printed", True))
    return found


def killed_figures(killed: Ended, alone: Ended) -> list[Figure]:
    """Restarts, time against the promise, and equality with the run that was left alone."""
    ours, theirs = results(killed.state, KEY, STEPS), results(alone.state, KEY, STEPS)
    other = sorted(name for name in theirs if ours.get(name) != theirs[name])
    told = [(one.batches, one.judged_by, one.registered, one.rollouts, one.sets) for one in (killed.twin, alone.twin)]
    longest = max(STEPS, key=lambda step: killed.driven.steps[step]["seconds"])
    extra = killed.driven.cpu_s / alone.driven.cpu_s - 1.0
    return [
        exactly("killed.restarts", killed.driven.killed, "SIGKILL, one in each step", len(STEPS)),
        at_most("killed.wall", round(killed.driven.wall_s, 1), "s from first start to end, the machine shared", WALL_S),
        at_most("killed.cpu", round(killed.driven.cpu_s, 1), "s of CPU, all restarts", WALL_S),
        Figure("killed.extra_cpu", round(extra, 3), "of the CPU of the run left alone", "printed", True),
        Figure("killed.longest_step", longest, f"{killed.driven.steps[longest]['seconds']:.1f} s", "printed", True),
        exactly(
            "killed.files_equal", len(theirs) - len(other), ", ".join(other) or "files, byte for byte", len(theirs)
        ),
        exactly("killed.platform_told_the_same", told[0] == told[1], "vectors, sets, bundle, rollout", True),
        exactly("killed.builds", len(killed.twin.builds), "build, one rollout", 1),
        exactly("killed.rollouts", len(killed.twin.rollouts), "rollout", 1),
    ]
