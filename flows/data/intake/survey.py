"""Survey a folder of videos: a corpus of all that is usable, and a finding for each file that is not or is odd.

One bad file never spoils the others. A file without a licence is left out unless that is asked for by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from flows.data.corpus import SUFFIXES, Clip, Corpus
from flows.data.errors import CorpusError, VideoError
from flows.data.intake.probe import MIN_FRAMES, Finding, Probe, Verdict, probe
from flows.data.intake.rights import NOT_STATED, group_of, licence_of
from flows.data.intake.split import by_scene, sides
from flows.limits import LIMITS

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Survey:
    """The corpus, the person or scene of each clip by clip id, and what was found."""

    folder: Path
    corpus: Corpus
    groups: dict[str, str]
    findings: tuple[Finding, ...]

    @property
    def left_out(self) -> tuple[Finding, ...]:
        """Files that are not in the corpus, with the reason."""
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.LEFT_OUT)


@dataclass(frozen=True)
class _Usable:
    path: Path
    name: str
    licence: str
    group: str
    facts: Probe


def survey(
    folder: Path,
    *,
    held_out: Sequence[str] = (),
    unlicensed: bool = False,
    progress: Progress | None = None,
) -> Survey:
    """Read every video below `folder`, split by person or scene (`held_out` names those to judge by).

    Raises CorpusError when nothing can be used or one side of the split would be empty; the message names the files.
    """
    paths = _videos(folder)
    findings: list[Finding] = []
    usable: list[_Usable] = []
    for number, path in enumerate(paths):
        name = path.relative_to(folder).as_posix()
        if progress is not None:
            progress(name, number / len(paths))
        found = _look(folder, path, name, unlicensed, {one.facts.sha256: one.name for one in usable}, findings)
        if found is not None:
            usable.append(found)
    if not usable:
        reasons = "\n".join(f"  {finding}" for finding in findings[:20])
        raise CorpusError(f"{folder}: none of {len(paths)} videos can be used\n{reasons}")
    clips, groups = _split(usable, held_out, findings)
    return Survey(folder, Corpus(tuple(clips)), groups, tuple(findings))


def _videos(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise CorpusError(f"{folder} is not a folder; give a folder of videos")
    paths: list[Path] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(place) / name for name in files if Path(name).suffix.lower() in SUFFIXES and name[0] != "."]
        if len(paths) > LIMITS.max_corpus_files:
            raise CorpusError(f"{folder}: more than {LIMITS.max_corpus_files} videos; split the folder")
    if not paths:
        raise CorpusError(f"{folder}: no video found (looked for {', '.join(sorted(SUFFIXES))}); add videos")
    return sorted(paths)


def _look(
    folder: Path, path: Path, name: str, unlicensed: bool, known: dict[str, str], findings: list[Finding]
) -> _Usable | None:
    def leave_out(what: str, remedy: str) -> None:
        findings.append(Finding(name, Verdict.LEFT_OUT, what, remedy))

    licence = licence_of(folder, path)
    if licence is None and not unlicensed:
        leave_out(
            "its licence is not stated",
            f'add "{path.stem}": "its licence" to LICENCES.json beside it, or allow it with --unlicensed',
        )
        return None
    try:
        facts = probe(path, name)
    except VideoError as error:
        what, _, remedy = str(error).removeprefix(f"{name}: ").rpartition("; ")
        leave_out(what, remedy)
        return None
    if facts.sha256 in known:
        leave_out(f"the same bytes as {known[facts.sha256]}", "remove one; a copy on both sides would be a leak")
        return None
    findings += facts.findings
    if licence is None:
        findings.append(Finding(name, Verdict.NOTED, "its licence is not stated", "it was allowed with --unlicensed"))
    return _Usable(path, name, licence or NOT_STATED, group_of(folder, path), facts)


def _split(
    usable: list[_Usable], held_out: Sequence[str], findings: list[Finding]
) -> tuple[list[Clip], dict[str, str]]:
    clips: list[Clip] = []
    groups: dict[str, str] = {}
    lone = len({one.group for one in usable}) == 1
    if lone and len(usable) > 1:
        raise CorpusError(
            f"all {len(usable)} usable videos show {usable[0].group}, so nothing is left to judge by; "
            "add a video of another person or scene, or tell them apart in PEOPLE.json"
        )
    side = {} if lone else sides([one.group for one in usable], held_out)
    for one in usable:
        bounds = [0, *one.facts.cuts, one.facts.frames]
        scenes = (
            by_scene(one.name, one.facts.frames, one.facts.cuts)
            if lone
            else [(start, stop, side[one.group]) for start, stop in pairwise(bounds)]
        )
        stem = Path(one.name).with_suffix("").as_posix()
        for index, (start, stop, where) in enumerate(scenes):
            if stop - start < MIN_FRAMES:
                what = f"scene {index} has {stop - start} frames"
                findings.append(Finding(one.name, Verdict.NOTED, what, f"scenes under {MIN_FRAMES} are not used"))
                continue
            clip_id = f"{stem}/{index}" if len(scenes) > 1 else stem
            facts = one.facts
            groups[clip_id] = one.group
            clips.append(
                Clip(
                    clip_id, str(one.path), start, stop, facts.width, facts.height, facts.fps, facts.sha256,
                    one.licence, where,
                )
            )  # fmt: skip
    corpus = Corpus(tuple(clips))
    for needed in ("train", "held-out"):
        if not any(clip.split == needed for clip in corpus.clips):
            raise CorpusError(
                f"no {needed} scene of {MIN_FRAMES} frames or more is left; add longer videos of other people or scenes"
            )
    return clips, groups
