"""A corpus as a file: names within the folder, frame ranges, SHA-256, licences, people, sides, what was left out.

A manifest pins the corpus: opening it checks every file's hash, so that a run cannot learn from other bytes than those
that were looked at.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows.data.corpus import Clip, Corpus, Split
from flows.data.errors import CorpusError
from flows.data.intake.probe import Finding, file_sha256
from flows.data.intake.survey import Survey, survey

VERSION = 1
_MAX_BYTES = 64 << 20


def to_manifest(found: Survey) -> str:
    """Canonical JSON. The folder itself is not in it: a manifest lies in that folder."""
    rows = []
    for clip in found.corpus.clips:
        path = Path(clip.path).relative_to(found.folder).as_posix()
        rows.append({**asdict(clip), "path": path, "group": found.groups[clip.id]})
    findings = [{**asdict(finding), "verdict": finding.verdict.value} for finding in found.findings]
    value = {"version": VERSION, "clips": rows, "findings": findings, "corpus_sha256": found.corpus.digest()}
    return json.dumps(value, indent=1, sort_keys=True)


def write_manifest(found: Survey, path: Path) -> None:
    """Write through a temporary name. The file must lie in the surveyed folder."""
    if path.resolve().parent != found.folder.resolve():
        raise CorpusError(f"{path}: a manifest lies in the folder that it describes; write it to {found.folder}")
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(to_manifest(found))
    temporary.replace(path)


def open_manifest(path: Path) -> Corpus:
    """The corpus that a manifest pins. Raises CorpusError when a file is gone, was changed or lies elsewhere."""
    try:
        raw = json.loads(path.read_bytes()[:_MAX_BYTES])
        if raw["version"] != VERSION:
            raise CorpusError(
                f"{path}: manifest of version {raw['version']!r}, this program reads {VERSION}; remake it"
            )
        clips = tuple(_clip(path, row) for row in raw["clips"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{path}: not a corpus manifest ({error}); make one with `edgeloop corpus build`") from error
    for file, sha256 in {clip.path: clip.sha256 for clip in clips}.items():
        _check(Path(file), sha256)
    return Corpus(clips)


def groups_of(path: Path) -> dict[str, str]:
    """Person or scene of each clip of a manifest, by clip id."""
    rows = json.loads(path.read_bytes()[:_MAX_BYTES])["clips"]
    return {str(row["id"]): str(row.get("group", "")) for row in rows}


@dataclass(frozen=True)
class Opened:
    """A corpus, and what was noted or left out while it was read (nothing for a manifest: it was said when made)."""

    corpus: Corpus
    findings: tuple[Finding, ...] = ()


def open_corpus(path: Path, *, unlicensed: bool = True) -> Corpus:
    """A manifest's corpus, or that of a folder of videos."""
    return open_with_findings(path, unlicensed=unlicensed).corpus


def open_with_findings(path: Path, *, unlicensed: bool) -> Opened:
    """A manifest's corpus, or the survey of a folder. Raises CorpusError when nothing of it can be used."""
    if path.is_file():
        return Opened(open_manifest(path))
    found = survey(path, unlicensed=unlicensed)
    return Opened(found.corpus, found.findings)


def _clip(manifest: Path, row: dict[str, Any]) -> Clip:  # Any: JSON, checked by the types below
    folder = manifest.parent.resolve()
    file = (folder / str(row["path"])).resolve()
    if not file.is_relative_to(folder):
        raise CorpusError(f"{manifest}: {row['path']} lies outside its folder; remake the manifest")
    return Clip(
        str(row["id"]), str(file), int(row["start"]), int(row["stop"]), int(row["width"]), int(row["height"]),
        float(row["fps"]), str(row["sha256"]), str(row["licence"]), Split(row["split"]),
    )  # fmt: skip


def _check(file: Path, sha256: str) -> None:
    if not file.is_file():
        raise CorpusError(f"{file}: named by the manifest but not there; restore it or remake the manifest")
    if file_sha256(file) != sha256:
        raise CorpusError(f"{file}: its bytes are not those of the manifest; restore it or remake the manifest")
