"""The corpus: clips, scenes, split, manifest."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from flows.data.clips import decode, scene_cuts, shrink
from flows.data.codec import write_lossless
from flows.data.corpus import Corpus, Split, default_corpus, folder_corpus, read
from flows.data.errors import CorpusError, VideoError


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return default_corpus()


def _video(path: Path, frames: int = 6, seed: int = 0, side: int = 64) -> np.ndarray:
    image = np.random.default_rng(seed).integers(0, 255, (1, side, side, 3), dtype=np.uint8)
    clip = np.repeat(image, frames, axis=0)
    write_lossless(path, clip)
    return clip


def test_default_split_keeps_the_person_and_late_scenes_out_of_training(corpus: Corpus) -> None:
    train = {clip.id for clip in corpus.of(Split.TRAIN)}
    held_out = {clip.id for clip in corpus.of(Split.HELD_OUT)}
    assert train == {"bigbuckbunny", "bikes/0", "bikes/1", "bikes/2"}
    assert held_out == {"bikes/3", "bikes/4", "bikes/5", "carphone_pristine"}


def test_scenes_of_one_file_never_overlap(corpus: Corpus) -> None:
    bikes = sorted((c.start, c.stop) for c in corpus.clips if c.video == "bikes")
    assert bikes[0][0] == 0
    assert all(a[1] == b[0] for a, b in pairwise(bikes))


def test_manifest_names_hash_and_licence_but_no_machine_path(corpus: Corpus) -> None:
    text = corpus.manifest()
    assert '"sha256"' in text
    assert "CC BY 3.0" in text
    assert "site-packages" not in text
    assert corpus.digest() == default_corpus().digest()


def test_reading_strides_shrinks_and_limits(corpus: Corpus) -> None:
    frames = read(corpus.clip("carphone_pristine"), stride=5, scale=2, limit=3)
    assert frames.shape == (3, 72, 88, 3)


def test_shrinking_is_the_area_mean() -> None:
    image = np.array([[0, 1], [2, 4]], np.uint8)[..., None].repeat(3, axis=2)
    assert shrink(image, 2).tolist() == [[[2, 2, 2]]]


def test_scene_cut_is_found_where_the_picture_changes() -> None:
    clip = np.zeros((10, 64, 64, 3), np.uint8)
    clip[6:] = 200
    assert scene_cuts(clip) == [6]


def test_folder_without_hint_holds_one_file_out(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        _video(tmp_path / f"{name}.mp4", seed=ord(name))
    found = folder_corpus(tmp_path)
    assert [c.id for c in found.of(Split.HELD_OUT)] == ["c"]
    assert all(c.licence == "not stated" for c in found.clips)


def test_licences_come_from_the_file_beside_the_videos(tmp_path: Path) -> None:
    _video(tmp_path / "a.mp4")
    _video(tmp_path / "b.mp4", seed=1)
    (tmp_path / "LICENCES.json").write_text('{"a": "CC0"}')
    assert {c.id: c.licence for c in folder_corpus(tmp_path).clips} == {"a": "CC0", "b": "not stated"}


def test_corrupt_file_in_a_folder_is_left_out(tmp_path: Path) -> None:
    _video(tmp_path / "a.mp4")
    _video(tmp_path / "b.mp4", seed=1)
    (tmp_path / "broken.mp4").write_bytes(b"this is no video")
    assert {c.id for c in folder_corpus(tmp_path, held_out=["b"]).clips} == {"a", "b"}


def test_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no video found"):
        folder_corpus(tmp_path)


def test_foreign_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.mp4"
    path.write_bytes(b"x" * 1000)
    with pytest.raises(VideoError, match=r"notes\.mp4"):
        decode(path)


def test_side_without_a_clip_is_an_error(tmp_path: Path) -> None:
    _video(tmp_path / "a.mp4")
    with pytest.raises(CorpusError, match="no train clip"):
        folder_corpus(tmp_path).of(Split.TRAIN)
