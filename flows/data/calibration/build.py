"""Build a calibration set: mosaics of the training side's people, taken through every chain of the family.

Only the training side is used: whoever calibrates on what is judged by measures nothing. The files are lossless; frames
5k to 5k+4 of a file are one run in a row. The report names no person, no file and no place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from flows.data.calibration.coverage import RUN, Need, Rule, Tally, as_json, as_text, judge
from flows.data.calibration.mosaic import BLOCK, PHASES, mosaic
from flows.data.clips import Frames, shrink
from flows.data.codec import write_lossless
from flows.data.corpus import Clip, Corpus, Split, read
from flows.data.errors import CorpusError
from flows.data.faults.chain import FAMILY, Chain
from flows.data.faults.layouts import Layout, fill
from flows.data.faults.network import Coding

SIZE = (192, 256)
"""Rows and columns of the scene; received pictures have half of that."""

_SETTLE = 5
_STRIDES = (1, 3)
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class CalibrationPlan:
    """What is asked for: `need.frames` frames over the chains of `family`, deterministic by seed."""

    need: Need = field(default_factory=Need)
    size: tuple[int, int] = SIZE
    seed: int = 0


@dataclass(frozen=True)
class CalibrationSet:
    """Received runs by chain name, each [5, h, w, 3], and how the rules came out."""

    runs: dict[str, list[Frames]]
    rules: tuple[Rule, ...]
    facts: dict[str, object]

    @property
    def ok(self) -> bool:
        """Whether every rule is kept."""
        return all(rule.ok for rule in self.rules)


def build_set(
    corpus: Corpus,
    groups: Mapping[str, str] | None = None,
    plan: CalibrationPlan | None = None,
    family: Mapping[str, Chain] = FAMILY,
    progress: Progress | None = None,
) -> CalibrationSet:
    """Runs of five frames, as many of each chain. `groups` tells by clip id who is in it; else the video does."""
    plan = plan or CalibrationPlan()
    people = _people(corpus, groups or {})
    phases = {name: number % PHASES for number, name in enumerate(sorted(people))}
    each = -(-plan.need.frames // (RUN * len(family)))
    tally = Tally()
    runs: dict[str, list[Frames]] = {}
    for number, (name, chain) in enumerate(family.items()):
        if progress is not None:
            progress(f"calibration set: {name}", number / len(family))
        runs[name] = []
        for turn in range(each):
            random = np.random.default_rng([plan.seed, number, turn])
            scene, used = _scene(people, phases, plan.size, _STRIDES[turn % len(_STRIDES)], random)
            tally.people.update(used)
            received, hurt = _received(scene, chain.with_seed(int(random.integers(1 << 31))))
            tally.add(received, hurt, _layouts(chain), _codecs(chain))
            runs[name].append(received)
    facts: dict[str, object] = {
        "corpus": corpus.digest(),
        "seed": plan.seed,
        "de-identified": f"blocks of {BLOCK} x {BLOCK} scene pixels, a quarter of each picture, shuffled and mirrored",
        "chains": len(family),
    }
    return CalibrationSet(runs, judge(tally, plan.need), facts)


def write_set(found: CalibrationSet, folder: Path) -> dict[str, object]:
    """One lossless file a chain, `report.json` and `report.md`; returns what report.json holds."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for name, runs in found.runs.items():
        path = folder / f"{name}.mp4"
        write_lossless(path, np.concatenate(runs))
        files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    report: dict[str, object] = {
        **found.facts, "ok": found.ok, "rules": as_json(found.rules), "run": RUN, "sha256": files,
        "chain": {name: json.loads(FAMILY[name].to_json()) for name in found.runs if name in FAMILY},
    }  # fmt: skip
    _write(folder / "report.json", json.dumps(report, indent=1, sort_keys=True))
    _write(folder / "report.md", as_text(found.rules, found.facts))
    return report


def _people(corpus: Corpus, groups: Mapping[str, str]) -> dict[str, list[Clip]]:
    people: dict[str, list[Clip]] = {}
    for clip in corpus.of(Split.TRAIN):
        if clip.frames >= RUN + _SETTLE and min(clip.width, clip.height) >= 2 * BLOCK:
            people.setdefault(groups.get(clip.id, clip.video), []).append(clip)
    if not people:
        raise CorpusError(
            f"no training clip has {RUN + _SETTLE} frames and sides of {2 * BLOCK} pixels; add longer or larger videos"
        )
    return people


def _scene(
    people: Mapping[str, Sequence[Clip]],
    phases: Mapping[str, int],
    size: tuple[int, int],
    stride: int,
    random: np.random.Generator,
) -> tuple[Frames, list[int]]:
    """A mosaic of up to four people, each with another phase, and their numbers."""
    names = sorted(people)
    chosen: dict[int, str] = {}
    for index in random.permutation(len(names)):
        chosen.setdefault(phases[names[index]], names[index])
    parts = []
    for phase, name in sorted(chosen.items()):
        clip = people[name][int(random.integers(len(people[name])))]
        step = stride if clip.frames >= (RUN + _SETTLE) * stride else 1
        start = clip.start + int(random.integers(clip.frames - (RUN + _SETTLE) * step + 1))
        window = replace(clip, start=start, stop=start + (RUN + _SETTLE) * step)
        parts.append((fill(read(window, stride=step), size), phase))
    return mosaic(parts, random), [names.index(name) for name in chosen.values()]


def _received(scene: Frames, chain: Chain) -> tuple[Frames, int]:
    """The last five frames, when the codec has settled, and how many of them losses have changed."""
    low = shrink(scene, 2)
    received = chain.receive(low)[_SETTLE:]
    if not any(isinstance(fault, Coding) and fault.loss for fault in chain.faults):
        return received, 0
    spared = tuple(replace(fault, loss=0.0) if isinstance(fault, Coding) else fault for fault in chain.faults)
    whole = replace(chain, faults=spared).receive(low)[_SETTLE:]
    return received, int((received != whole).any(axis=(1, 2, 3)).sum())


def _layouts(chain: Chain) -> list[str]:
    return [fault.name for fault in chain.faults if isinstance(fault, Layout)]


def _codecs(chain: Chain) -> list[str]:
    return [fault.codec for fault in chain.faults if isinstance(fault, Coding)]


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text)
    temporary.replace(path)
