"""A folder of somebody's videos: what is odd is noted, what is broken is left out by name, the rest is used."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from typer.testing import CliRunner

from flows.corpus_cli import app
from flows.data.codec import write_lossless
from flows.data.corpus import Split, read
from flows.data.errors import CorpusError
from flows.data.intake.manifest import open_corpus, open_manifest, write_manifest
from flows.data.intake.probe import Finding, Verdict
from flows.data.intake.split import sides
from flows.data.intake.survey import Survey, survey


def _video(path: Path, seed: int = 0, size: tuple[int, int] = (64, 64), scenes: int = 1, frames: int = 6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    pictures = [
        random.integers(100 * (n % 2), 100 * (n % 2) + 60, (1, *size, 3), dtype=np.uint8) for n in range(scenes)
    ]
    write_lossless(path, np.concatenate([picture.repeat(frames, axis=0) for picture in pictures]))


def _encode(
    path: Path,
    pictures: list[np.ndarray],
    *,
    pixels: str = "yuv420p",
    times: list[int] | None = None,
    curve: int | None = None,
) -> None:
    with av.open(str(path), "w") as container:
        codec, options = ("ffv1", {}) if path.suffix == ".mkv" else ("libx264", {"preset": "ultrafast"})
        stream = container.add_stream(codec, rate=Fraction(25), options=options)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = pixels
        stream.codec_context.time_base = Fraction(1, 1000)
        if curve is not None:
            stream.codec_context.color_trc = curve
        for index, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=pixels)
            frame.pts, frame.time_base = (times[index] if times else 40 * index), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _pictures(height: int = 64, width: int = 64, count: int = 6) -> list[np.ndarray]:
    base = np.random.default_rng(9).integers(40, 200, (height, width, 3), dtype=np.uint8)
    return [base.copy() for _ in range(count)]


def _licensed(folder: Path) -> None:
    (folder / "LICENCES.json").write_text('{"*": "CC0"}')


def _about(found: Survey, file: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.file == file]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two people, one video each, with a licence for the folder."""
    _video(tmp_path / "ann.mp4", 1)
    _video(tmp_path / "bob.mp4", 2)
    _licensed(tmp_path)
    return tmp_path


def test_clean_folder_has_no_finding_and_both_sides(folder: Path) -> None:
    found = survey(folder)
    assert found.findings == ()
    assert {clip.id: clip.split for clip in found.corpus.clips} == {"ann": Split.TRAIN, "bob": Split.HELD_OUT}
    assert {clip.licence for clip in found.corpus.clips} == {"CC0"}


def test_missing_licence_is_refused_by_name_and_the_rest_is_used(folder: Path) -> None:
    (folder / "LICENCES.json").write_text('{"ann": "CC0", "bob": "CC BY 4.0"}')
    _video(folder / "eve.mp4", 3)
    found = survey(folder)
    assert {clip.id for clip in found.corpus.clips} == {"ann", "bob"}
    assert str(found.left_out[0]).startswith("eve.mp4: left out: its licence is not stated; add")
    assert "--unlicensed" in found.left_out[0].remedy


def test_unlicensed_videos_are_used_when_that_is_asked_for(folder: Path) -> None:
    (folder / "LICENCES.json").unlink()
    with pytest.raises(CorpusError, match=r"none of 2 videos can be used[\s\S]*ann\.mp4.*licence"):
        survey(folder)
    found = survey(folder, unlicensed=True)
    assert {clip.licence for clip in found.corpus.clips} == {"not stated"}
    assert [finding.verdict for finding in found.findings] == [Verdict.NOTED, Verdict.NOTED]


def test_empty_folder_and_no_folder_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no video found"):
        survey(tmp_path)
    with pytest.raises(CorpusError, match="is not a folder"):
        survey(tmp_path / "none")


def test_one_clip_of_one_scene_is_refused_with_a_remedy(tmp_path: Path) -> None:
    _video(tmp_path / "alone.mp4")
    _licensed(tmp_path)
    with pytest.raises(CorpusError, match=r"alone\.mp4 is the only usable video and has one scene.*add a video"):
        survey(tmp_path)


def test_one_clip_of_several_scenes_is_split_between_scenes(tmp_path: Path) -> None:
    _video(tmp_path / "alone.mp4", scenes=4)
    _licensed(tmp_path)
    clips = survey(tmp_path).corpus.clips
    assert [(clip.start, clip.stop, clip.split.value) for clip in clips] == [
        (0, 6, "train"), (6, 12, "train"), (12, 18, "held-out"), (18, 24, "held-out"),
    ]  # fmt: skip


def test_corrupt_file_is_named_and_the_rest_is_used(folder: Path) -> None:
    (folder / "broken.mp4").write_bytes(b"this is no video" * 100)
    found = survey(folder)
    assert {clip.id for clip in found.corpus.clips} == {"ann", "bob"}
    assert [finding.file for finding in found.left_out] == ["broken.mp4"]
    assert found.left_out[0].remedy == "remove or replace the file"


def test_file_that_breaks_off_is_used_as_far_as_it_goes(folder: Path) -> None:
    noise = np.random.default_rng(3).integers(90, 130, (40, 64, 64, 3), dtype=np.uint8)
    _encode(folder / "cut.avi", list(noise))
    whole = (folder / "cut.avi").read_bytes()
    (folder / "cut.avi").write_bytes(whole[: len(whole) // 2])
    found = survey(folder, held_out=["bob"])
    clips = [clip for clip in found.corpus.clips if clip.id == "cut"]
    assert 5 <= clips[0].stop < 40
    assert f"{clips[0].stop} can be read" in str(_about(found, "cut.avi")[0])


def test_file_without_pictures_is_left_out(folder: Path) -> None:
    with av.open(str(folder / "sound.mkv"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode(None))
    assert [finding.what for finding in _about(survey(folder), "sound.mkv")] == ["no picture track"]


def test_vertical_and_odd_sized_videos_are_used_and_noted(folder: Path) -> None:
    _encode(folder / "tall.mkv", _pictures(131, 67), pixels="bgr0")
    found = survey(folder, held_out=["bob"])
    notes = " | ".join(map(str, _about(found, "tall.mkv")))
    assert "vertical picture of 67x131" in notes
    assert "cropped to 64x128" in notes
    clip = found.corpus.clip("tall")
    assert (clip.width, clip.height) == (64, 128)
    assert read(clip).shape == (6, 128, 64, 3)


def test_variable_frame_rate_is_noted(folder: Path) -> None:
    _encode(folder / "uneven.mkv", _pictures(), pixels="bgr0", times=[0, 40, 80, 400, 440, 480])
    found = survey(folder)
    assert "its frame rate varies" in " ".join(map(str, _about(found, "uneven.mkv")))
    assert found.corpus.clip("uneven").frames == 6


def test_ten_bit_video_is_used_and_noted(folder: Path) -> None:
    _encode(folder / "deep.mkv", _pictures(), pixels="yuv420p10le")
    found = survey(folder)
    assert [finding.what for finding in _about(found, "deep.mkv")] == ["10-bit samples"]
    assert read(found.corpus.clip("deep")).dtype == np.uint8


def test_hdr_curve_is_refused_with_a_remedy(folder: Path) -> None:
    _encode(folder / "hdr.mp4", _pictures(), curve=16)
    assert "HDR video (PQ)" in str(_about(survey(folder), "hdr.mp4")[0])
    assert "tone mapping" in _about(survey(folder), "hdr.mp4")[0].remedy


def test_too_short_and_too_small_are_left_out(folder: Path) -> None:
    _video(folder / "short.mp4", 5, frames=3)
    _video(folder / "tiny.mp4", 6, size=(24, 24))
    assert {finding.file for finding in survey(folder).left_out} == {"short.mp4", "tiny.mp4"}


def test_copy_of_a_file_is_left_out_because_it_would_leak(folder: Path) -> None:
    (folder / "copy.mp4").write_bytes((folder / "bob.mp4").read_bytes())
    found = survey(folder)
    assert [(finding.file, finding.what) for finding in found.left_out] == [("copy.mp4", "the same bytes as bob.mp4")]


def test_person_is_never_on_both_sides(tmp_path: Path) -> None:
    for number in range(12):
        _video(tmp_path / f"person{number % 4}" / f"{number}.mp4", number)
    _licensed(tmp_path)
    found = survey(tmp_path)
    where = {found.groups[clip.id]: clip.split for clip in found.corpus.clips}
    assert all(where[found.groups[clip.id]] is clip.split for clip in found.corpus.clips)
    assert where == {"person0": "train", "person1": "train", "person2": "train", "person3": "held-out"}
    assert len({clip.id for clip in found.corpus.clips}) == 12


def test_people_file_tells_who_is_in_a_video(folder: Path) -> None:
    _video(folder / "ann2.mp4", 7)
    (folder / "PEOPLE.json").write_text('{"ann": "Ann", "ann2": "Ann", "bob": "Bob"}')
    assert {c.id: c.split.value for c in survey(folder).corpus.clips} == {
        "ann": "train",
        "ann2": "train",
        "bob": "held-out",
    }
    (folder / "PEOPLE.json").write_text('{"*": "Ann"}')
    with pytest.raises(CorpusError, match="all 3 usable videos show Ann"):
        survey(folder)


def test_unreadable_licence_file_is_named(folder: Path) -> None:
    (folder / "LICENCES.json").write_text('{"ann": 7}')
    with pytest.raises(CorpusError, match=r"LICENCES\.json: not a JSON object"):
        survey(folder)


def test_holding_out_the_unknown_or_everything_is_refused() -> None:
    with pytest.raises(CorpusError, match="no such person"):
        sides(["a", "b"], ["c"])
    with pytest.raises(CorpusError, match="nothing is left to learn from"):
        sides(["a", "b"], ["a", "b"])


def test_manifest_pins_bytes_licences_and_people(folder: Path) -> None:
    found = survey(folder)
    write_manifest(found, folder / "corpus.json")
    text = (folder / "corpus.json").read_text()
    assert str(folder) not in text
    assert {(row["path"], row["licence"], row["group"]) for row in json.loads(text)["clips"]} == {
        ("ann.mp4", "CC0", "ann"), ("bob.mp4", "CC0", "bob"),
    }  # fmt: skip
    assert open_corpus(folder / "corpus.json").digest() == found.corpus.digest()


def test_changed_or_missing_file_breaks_the_manifest(folder: Path) -> None:
    write_manifest(survey(folder), folder / "corpus.json")
    _video(folder / "ann.mp4", 8)
    with pytest.raises(CorpusError, match=r"ann\.mp4: its bytes are not those of the manifest"):
        open_manifest(folder / "corpus.json")
    (folder / "ann.mp4").unlink()
    with pytest.raises(CorpusError, match=r"ann\.mp4: named by the manifest but not there"):
        open_manifest(folder / "corpus.json")


@pytest.mark.parametrize("text", ["[]", "{", '{"version": 9, "clips": []}', '{"version": 1, "clips": [{}]}'])
def test_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "corpus.json").write_text(text)
    with pytest.raises(CorpusError, match=r"corpus\.json"):
        open_manifest(tmp_path / "corpus.json")


def test_manifest_cannot_point_outside_its_folder(folder: Path) -> None:
    write_manifest(survey(folder), folder / "corpus.json")
    text = (folder / "corpus.json").read_text().replace("ann.mp4", "../ann.mp4")
    (folder / "corpus.json").write_text(text)
    with pytest.raises(CorpusError, match="outside its folder"):
        open_manifest(folder / "corpus.json")


def test_command_builds_a_manifest_and_tells_what_was_left_out(folder: Path) -> None:
    (folder / "broken.mp4").write_bytes(b"x" * 500)
    made = CliRunner().invoke(app, ["build", str(folder), "--json"])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert (told["train"], told["held_out"], told["left_out"]) == (1, 1, 1)
    assert (folder / "corpus.json").is_file()
    assert CliRunner().invoke(app, ["check", str(folder / "corpus.json")]).exit_code == 0


def test_command_fails_with_a_message_when_nothing_is_usable(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["build", str(tmp_path)])
    assert made.exit_code == 1
    assert "no video found" in made.output
