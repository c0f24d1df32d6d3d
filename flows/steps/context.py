"""What every step of a run may use: folder, platform, corpus, models, budget, device command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.data.corpus import Clip, Corpus, Split, default_corpus
from flows.data.intake.manifest import Opened, open_with_findings
from flows.data.pairs import View
from flows.errors import FlowError
from flows.model_store import Generation, ModelStore
from flows.platform import Platform
from flows.quant.calibration_set import read_set
from flows.run_folder import Json, RunFolder
from flows.spread.job import Job
from flows.spread.spread import HERE, Kind, Spread
from flows.tasks.registry import DEFAULT, task_named
from flows.tasks.task import Task
from flows.tasks.vsr.perception import Perception

Profiles = tuple[tuple[int, int], ...]
PROFILES: Profiles = ((72, 88), (136, 320), (360, 640))
"""Input sizes (rows, columns) that a bundle serves by default."""

TARGETS = ("npu-4t", "npu-2t")
ENTROPY = ("auto", "on", "off")
PRUNE_BY = ("latency", "parameters")
RECOVERED = "recovered.npz"
"""The float network of a run that pruned it."""
LAB = (sys.executable, "-m", "edge_agent.lab")
JOBS = "jobs"
"""Folder of finished jobs below the run's."""

MAX_VIEW_HEIGHT = 400
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetrainSettings:
    """What a run is asked for. `budget_minutes` covers learning only, not compiling and gating.

    `steps` (adapting the supernet, fine-tuning, quantisation-aware training) counts learning in steps instead of
    minutes: then the same run gives the same bytes wherever and however often it is interrupted.
    """

    budget_minutes: float = 4.5
    steps: tuple[int, int, int] | None = None
    task: str = DEFAULT
    seed: int = 0
    profiles: Profiles = PROFILES
    targets: tuple[str, ...] = TARGETS
    corpus: str | None = None
    unlicensed: bool = False
    auto_release: bool = True
    latency_limit: float = 1.04
    soak_s: float = 4 * 3_600.0
    min_devices: int = 5
    asks: str = ""
    calibration: str | None = None
    """Folder of a calibration set that INT8 ranges must hold as well."""
    entropy: str = "off"
    """Constants of the bundle written with fewer bits: auto (where that is worth it), on, off."""

    prune: float | None = None
    """Share of the chosen network's cost (`prune_by`: latency of the largest frames, or parameters) that is left at
    most; None leaves the network whole.
    """
    prune_by: str = "latency"
    candidates: int = 1
    """Networks of the search that are fine-tuned, each with the whole budget of fine-tuning; the best goes on."""
    spread: str = HERE
    """Who does the jobs of a run: `here`, `processes[:n]` or `dask[:address]`. The result is the same."""

    def __post_init__(self) -> None:
        for name, value, known in (("entropy", self.entropy, ENTROPY), ("prune-by", self.prune_by, PRUNE_BY)):
            if value not in known:
                raise FlowError(f"{name} {value!r} is no choice; write {', '.join(known)}")
        if self.prune is not None and not 0.0 < self.prune < 1.0:
            raise FlowError(f"prune {self.prune:g} is no share that can be left; give one between 0 and 1, like 0.8")

    @property
    def perception(self) -> Perception:
        """What fine-tuning asks for beside fidelity (`asks`, like "temporal=0.2"). Raises FlowError when unreadable."""
        try:
            return Perception.parse(self.asks)
        except ValueError as error:
            raise FlowError(f"asks: {error}") from error

    @classmethod
    def from_environment(cls, begun: Mapping[str, object] | None = None, **changes: object) -> RetrainSettings:
        """Defaults, overridden by EDGELOOP_RETRAIN_BUDGET_MINUTES, _SOAK_S, _MIN_DEVICES, _CORPUS, _UNLICENSED (1),
        _CALIBRATION, _TASK, _ENTROPY, _PRUNE, _PRUNE_BY, _CANDIDATES, _SPREAD, _ASKS (like "temporal=0.2"), _PROFILES
        ("72x88,360x640"), _STEPS ("300,1400,200"), then by what the run was `begun` with, then by `changes`.
        """
        found: dict[str, object] = {}
        sizes = os.environ.get("EDGELOOP_RETRAIN_PROFILES")
        if sizes:
            found["profiles"] = parse_profiles(sizes)
        counted = os.environ.get("EDGELOOP_RETRAIN_STEPS")
        if counted:
            found["steps"] = parse_steps(counted)
        for name, kind in (
            ("budget_minutes", float),
            ("soak_s", float),
            ("min_devices", int),
            ("corpus", str),
            ("unlicensed", lambda text: text.lower() in ("1", "true", "yes")),
            ("asks", str),
            ("calibration", str),
            ("entropy", str),
            ("prune", float),
            ("prune_by", str),
            ("task", str),
            ("candidates", int),
            ("spread", str),
        ):
            raw = os.environ.get(f"EDGELOOP_RETRAIN_{name.upper()}")
            if raw:
                found[name] = _number(name, raw, kind)
        given = {name: value for name, value in changes.items() if value is not None}
        asked: dict[str, Any] = {**found, **(begun or {}), **given}  # the dataclass checks names
        settings = cls(**asked)
        _ = settings.perception, Kind.parse(settings.spread)  # what cannot be read is told before a run begins
        if settings.candidates < 1:
            raise FlowError(f"candidates {settings.candidates}: one network or more is to be trained")
        return settings


def report_nothing(_step: str, _share: float) -> None:
    """Progress sink for callers that do not watch."""


def parse_profiles(text: str) -> Profiles:
    """Read "rows x columns" pairs such as "72x88,360x640". Raises FlowError when a size is not one."""
    try:
        pairs = [tuple(int(side) for side in size.split("x")) for size in text.split(",")]
        return tuple((rows, columns) for rows, columns in pairs)
    except ValueError as error:
        raise FlowError(f"profiles {text!r} are not sizes; write them like 72x88,360x640") from error


def parse_steps(text: str) -> tuple[int, int, int]:
    """Read three step counts such as "300,1400,200". Raises FlowError when they are not three positive numbers."""
    try:
        adapt, tune, quantise = (int(count) for count in text.split(","))
    except ValueError as error:
        raise FlowError(f"steps {text!r} are not three numbers; write them like 300,1400,200") from error
    if min(adapt, tune, quantise) < 1:
        raise FlowError(f"steps {text!r}: each training needs one step or more")
    return adapt, tune, quantise


def _number(name: str, raw: str, kind: Callable[[str], object]) -> object:
    try:
        return kind(raw)
    except ValueError as error:
        raise FlowError(f"EDGELOOP_RETRAIN_{name.upper()}={raw!r} is no number; correct or unset it") from error


@dataclass
class RunContext:
    """One run. `progress` is told (what, share of that step)."""

    key: str
    folder: RunFolder
    platform: Platform
    store: ModelStore
    parent: Generation
    corpus: Corpus
    settings: RetrainSettings
    findings: tuple[str, ...] = ()
    """What was noted or left out while the corpus was read, a sentence each."""
    lab_command: tuple[str, ...] = LAB
    progress: Callable[[str, float], None] = field(default=report_nothing)
    spread: Spread = field(default_factory=Spread)

    def results(self, jobs: Sequence[Job], what: str | None) -> list[Json]:
        """The jobs' results in order, done wherever this run's jobs are done; `what` is told as progress."""
        return self.spread.run(
            self.folder.path / JOBS,
            jobs,
            lambda share, line: self.progress(f"{what}: {line}", share) if what else None,
        )

    def left(self, result: Json) -> bytes:
        """The file that a job left and named in its result."""
        return self.folder.read(f"{JOBS}/{result['file']}")

    @property
    def other_lab(self) -> tuple[str, ...] | None:
        """The command of a device that is not the emulated one of whoever does the job."""
        return self.lab_command if self.lab_command != LAB else None

    @property
    def task(self) -> Task:
        """What is learned: data, model family, losses, metrics, exporters."""
        return task_named(self.settings.task)

    @property
    def float_weights(self) -> str:
        """Artefact that holds the float network that is quantised and kept."""
        return "float.npz" if self.settings.prune is None else RECOVERED

    @property
    def training_clips(self) -> list[tuple[Clip, View]]:
        """Clips that may be trained on, each shrunk to the sizes that calls have."""
        return views_of(self.corpus.of(Split.TRAIN))

    @property
    def held_out_clips(self) -> list[tuple[Clip, View]]:
        """Clips that nothing was ever trained on."""
        return [(clip, view) for clip, view in views_of(self.corpus.of(Split.HELD_OUT), smaller=False)]


def views_of(clips: tuple[Clip, ...], *, smaller: bool = True) -> list[tuple[Clip, View]]:
    """Each clip at its first size of at most 400 rows and, when `smaller`, at half of that."""
    found: list[tuple[Clip, View]] = []
    for clip in clips:
        scale = 1
        while clip.height // scale > MAX_VIEW_HEIGHT:
            scale += 1
        found.append((clip, View(scale=scale, limit=48)))
        if smaller and clip.height // (2 * scale) >= 128:
            found.append((clip, View(scale=2 * scale, limit=48)))
    return found


def open_context(
    key: str,
    state: Path,
    platform: Platform,
    settings: RetrainSettings,
    progress: Callable[[str, float], None] | None = None,
) -> RunContext:
    """Open (or continue) the run `key` below the state folder."""
    if settings.calibration:
        read_set(Path(settings.calibration), 1)  # refused now, not after minutes of training
    task = task_named(settings.task)
    models = "models" if task.name == DEFAULT else f"models-{task.name}"
    store = ModelStore(state / models, task.seeds, task.first)
    opened = (
        open_with_findings(Path(settings.corpus), unlicensed=settings.unlicensed)
        if settings.corpus
        else Opened(default_corpus())
    )
    for finding in opened.findings:
        _log.warning("%s", finding)
    return RunContext(
        key,
        RunFolder(state / "runs" / key),
        platform,
        store,
        store.current(),
        opened.corpus,
        settings,
        tuple(map(str, opened.findings)),
        progress=progress or report_nothing,
    )
