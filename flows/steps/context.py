"""What every step of a run may use: folder, platform, corpus, models, budget, device command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flows.data.corpus import Clip, Corpus, Split, default_corpus
from flows.data.intake.manifest import open_corpus
from flows.data.pairs import View
from flows.errors import FlowError
from flows.model_store import Generation, ModelStore
from flows.platform import Platform
from flows.quant.calibration_set import read_set
from flows.run_folder import RunFolder
from flows.tasks.vsr.perception import Perception

Profiles = tuple[tuple[int, int], ...]
PROFILES: Profiles = ((72, 88), (136, 320), (360, 640))
"""Input sizes (rows, columns) that a bundle serves by default."""

TARGETS = ("npu-4t", "npu-2t")
MAX_VIEW_HEIGHT = 400


@dataclass(frozen=True)
class RetrainSettings:
    """What a run is asked for. `budget_minutes` covers learning only, not compiling and gating."""

    budget_minutes: float = 4.5
    seed: int = 0
    profiles: Profiles = PROFILES
    targets: tuple[str, ...] = TARGETS
    corpus: str | None = None
    auto_release: bool = True
    latency_limit: float = 1.04
    soak_s: float = 4 * 3_600.0
    min_devices: int = 5
    calibration: str | None = None
    """Folder of a calibration set that INT8 ranges must hold as well."""
    asks: str = ""

    @property
    def perception(self) -> Perception:
        """What fine-tuning asks for beside fidelity (`asks`, like "temporal=0.2"). Raises FlowError when unreadable."""
        try:
            return Perception.parse(self.asks)
        except ValueError as error:
            raise FlowError(f"asks: {error}") from error

    @classmethod
    def from_environment(cls, **changes: object) -> RetrainSettings:
        """Defaults, overridden by EDGELOOP_RETRAIN_BUDGET_MINUTES, _SOAK_S, _MIN_DEVICES, _CORPUS, _CALIBRATION,
        _ASKS (like "temporal=0.2"), _PROFILES (like "72x88,360x640") and then by `changes`.
        """
        found: dict[str, object] = {}
        sizes = os.environ.get("EDGELOOP_RETRAIN_PROFILES")
        if sizes:
            found["profiles"] = parse_profiles(sizes)
        for name, kind in (
            ("budget_minutes", float),
            ("soak_s", float),
            ("min_devices", int),
            ("corpus", str),
            ("calibration", str),
            ("asks", str),
        ):
            raw = os.environ.get(f"EDGELOOP_RETRAIN_{name.upper()}")
            if raw:
                found[name] = kind(raw)
        settings = cls(**{**found, **{k: v for k, v in changes.items() if v is not None}})  # type: ignore[arg-type]  # names checked by the dataclass
        _ = settings.perception  # a word that cannot be read is told before a run begins
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
    lab_command: tuple[str, ...] = (sys.executable, "-m", "edge_agent.lab")
    progress: Callable[[str, float], None] = field(default=report_nothing)

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
    store = ModelStore(state / "models")
    corpus = open_corpus(Path(settings.corpus)) if settings.corpus else default_corpus()
    return RunContext(
        key,
        RunFolder(state / "runs" / key),
        platform,
        store,
        store.current(),
        corpus,
        settings,
        progress=progress or report_nothing,
    )
