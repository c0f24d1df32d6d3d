"""Calibration sets: who is in them cannot be seen, and coverage is judged by what frames show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.data.calibration.build import CalibrationPlan, CalibrationSet, build_set, write_set
from flows.data.calibration.coverage import Need, Tally, judge, look
from flows.data.calibration.mosaic import BLOCK, kept_cells, mosaic
from flows.data.clips import Frames, decode
from flows.data.codec import write_lossless
from flows.data.corpus import Corpus, Split, folder_corpus
from flows.data.errors import CorpusError
from flows.data.faults.chain import FAMILY

NEED = Need(frames=10 * len(FAMILY))


def _person(seed: int, frames: int = 40) -> Frames:
    """A textured square that moves over a smooth wall."""
    random = np.random.default_rng(seed)
    wall = np.full((96, 128, 3), 90 + 30 * seed, np.float32) + np.linspace(0, 60, 128)[None, :, None]
    face = random.integers(60, 250, (40, 40, 3))
    clip = np.repeat(wall[None], frames, axis=0)
    for index in range(frames):
        clip[index, 30:70, 2 * index % 80 : 2 * index % 80 + 40] = face
    return np.clip(clip, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("people")
    for seed, name in enumerate(("ann", "bob", "carol", "dave", "eve")):
        write_lossless(folder / f"{name}.mp4", _person(seed))
    return folder_corpus(folder, held_out=["eve"])


@pytest.fixture(scope="module")
def built(corpus: Corpus) -> CalibrationSet:
    return build_set(corpus, plan=CalibrationPlan(NEED))


def test_a_quarter_of_a_picture_is_kept_and_no_two_blocks_touch() -> None:
    for phase in range(4):
        cells = {(int(row), int(column)) for row, column in kept_cells(8, 12, phase)}
        assert len(cells) == 8 * 12 // 4
        around = {(row + a, column + b) for row, column in cells for a, b in ((0, 1), (1, 0), (1, 1), (1, -1))}
        assert not cells & around
    assert len({tuple(cell) for phase in range(4) for cell in kept_cells(8, 12, phase).tolist()}) == 8 * 12


def test_mosaic_shows_a_person_only_in_the_blocks_of_the_phase() -> None:
    rows, columns = 4, 6
    numbered = np.arange(rows * columns, dtype=np.uint8).reshape(rows, columns).repeat(BLOCK, 0).repeat(BLOCK, 1)
    person = np.repeat(numbered[None, :, :, None], 5, axis=0).repeat(3, axis=3)
    other = np.full_like(person, 200)
    for turn in range(6):
        shown = mosaic([(person, 0), (other, 1)], np.random.default_rng(turn))
        assert set(np.unique(shown)) <= {200, *(row * columns + column for row in (0, 2) for column in (0, 2, 4))}


def test_mosaic_moves_blocks_alike_in_all_frames_of_a_run() -> None:
    person = np.random.default_rng(0).integers(0, 255, (1, 128, 128, 3), dtype=np.uint8).repeat(5, axis=0)
    shown = mosaic([(person, 2)], np.random.default_rng(1))
    assert (shown == shown[:1]).all()
    assert not np.array_equal(shown, person)


def test_set_keeps_every_rule_and_is_the_same_by_seed(built: CalibrationSet, corpus: Corpus) -> None:
    missed = [(rule.name, rule.have, rule.need) for rule in built.rules if not rule.ok]
    assert not missed
    again = build_set(corpus, plan=CalibrationPlan(NEED))
    for name, runs in built.runs.items():
        assert all(np.array_equal(a, b) for a, b in zip(runs, again.runs[name], strict=True))
    assert {run.shape for runs in built.runs.values() for run in runs} == {(5, 96, 128, 3)}


def test_held_out_people_are_never_in_it(corpus: Corpus, built: CalibrationSet) -> None:
    people = next(rule for rule in built.rules if rule.name == "people")
    assert people.have == 4
    only = Corpus(tuple(replace(clip, split=Split.HELD_OUT) for clip in corpus.clips))
    with pytest.raises(CorpusError, match="no train clip"):
        build_set(only, plan=CalibrationPlan(NEED))


def test_rules_that_are_missed_are_printed_as_missed(corpus: Corpus) -> None:
    poor = build_set(corpus, plan=CalibrationPlan(Need(frames=10)), family={"healthy": FAMILY["healthy"]})
    missed = {rule.name for rule in poor.rules if not rule.ok}
    assert {"low_light", "text", "lost", "layouts", "codecs"} <= missed
    assert not poor.ok


def test_files_and_report_hold_the_set_and_name_nobody(built: CalibrationSet, tmp_path: Path) -> None:
    report = write_set(built, tmp_path)
    first = next(iter(built.runs))
    assert np.array_equal(decode(tmp_path / f"{first}.mp4")[:5], built.runs[first][0])
    text = (tmp_path / "report.json").read_text() + (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(json.dumps(report))
    assert not [name for name in ("ann", "bob", "carol", "dave") if f'"{name}' in text or f" {name}" in text]
    assert "| lost |" in text


def test_looks_measure_what_they_say() -> None:
    dark = np.full((5, 64, 64, 3), 20, np.uint8)
    assert look(dark).luma == pytest.approx(20, abs=0.1)
    assert look(dark).flat == 1.0
    assert look(dark).motion == 0.0
    stripes = dark.copy()
    stripes[:, :, ::2] = 255
    assert look(stripes).edges == 1.0
    assert look(stripes).white == 0.5
    blinking = dark.copy()
    blinking[1::2] += 10
    assert look(blinking).motion == pytest.approx(10, abs=0.1)


def test_a_run_that_is_not_of_five_frames_breaks_the_rule() -> None:
    tally = Tally()
    tally.add(np.zeros((4, 64, 64, 3), np.uint8), 0, (), ())
    assert not next(rule for rule in judge(tally, Need()) if rule.name == "runs").ok
