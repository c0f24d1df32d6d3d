"""Video in and out: files, schedules, damage, and pieces of mp4 that are whole or not there."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest

from edge_agent.errors import ConfigError, VideoError
from edge_agent.picture import enlarge, fit, motion_between
from edge_agent.sinks import Mp4Sink
from edge_agent.sources import (
    ScheduleSource,
    Source,
    VideoSource,
    decode,
    load_schedule,
    open_source,
    parse_schedule,
)
from tests.support.agent_twin import HandClock, pixels, write_video


def read(source: Source, most: int = 1_000) -> list[str]:
    keys = []
    while len(keys) < most and (frame := source.next()) is not None:
        keys.append(frame.key)
    return keys


def test_a_file_gives_its_frames_as_rgb_with_keys(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=10)
    source = VideoSource(str(path))
    first = source.next()
    assert first is not None
    assert first.pixels.shape == (64, 96, 3)
    assert first.pixels.dtype == np.uint8
    assert first.key == f"{path}#0"
    assert len(read(source)) == 9


def test_a_looped_file_starts_again(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=5)
    keys = read(VideoSource(str(path), loop=True), most=12)
    assert keys[0] == keys[5] == keys[10]


def test_the_first_frame_of_every_round_and_clip_begins_a_stream(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_video(tmp_path / name, frames=3)
    looped = VideoSource(str(tmp_path / "a.mp4"), loop=True)
    schedule = parse_schedule({"entries": [{"from": 0, "paths": ["a.mp4", "b.mp4"]}]}, tmp_path, 0, "t")
    for source in (looped, ScheduleSource(schedule, lambda: 1.0)):
        frames = [source.next() for _ in range(7)]
        assert [frame.first for frame in frames if frame] == [True, False, False, True, False, False, True]


@pytest.mark.parametrize("content", [b"", b"not a video at all", b"\x00\x00\x00\x18ftypmp42" + bytes(200)])
def test_a_foreign_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.mp4"
    path.write_bytes(content)
    with pytest.raises(VideoError, match=r"foreign\.mp4"):
        read(VideoSource(str(path)))


def test_a_missing_file_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="give a file that exists"):
        read(VideoSource(str(tmp_path / "none.mp4")))


def test_a_missing_camera_names_the_remedy() -> None:
    with pytest.raises(VideoError, match="list cameras"):
        open_source("/dev/video93", lambda: 0.0)


def test_a_file_with_sound_only_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 48_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(VideoError, match="no video stream"):
        read(VideoSource(str(path)))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_truncated_file_gives_its_good_frames(tmp_path: Path, share: float) -> None:
    path = write_video(tmp_path / "cut.mp4", frames=48, fragmented=True)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert 0 < len(readable(path)) < 48


def readable(path: Path) -> list[str]:
    """The keys of the frames before the damage."""
    keys: list[str] = []
    with suppress(VideoError):
        source = VideoSource(str(path))
        while (frame := source.next()) is not None:
            keys.append(frame.key)
    return keys


def test_a_file_cut_before_its_index_is_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "cut.mp4", frames=30)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(VideoError, match=r"cut\.mp4"):
        list(decode(str(path)))


def test_a_schedule_changes_over_at_its_simulated_time(tmp_path: Path) -> None:
    write_video(tmp_path / "day.mp4", frames=4)
    write_video(tmp_path / "night.mp4", frames=4, seed=1)
    entries = [{"from_day": 1, "paths": ["night.mp4"]}, {"from_day": 0, "paths": ["day.mp4"]}]
    (tmp_path / "s.json").write_text(json.dumps({"entries": entries}))
    clock = HandClock(100 * 86_400.0 + 5)
    source = open_source(str(tmp_path / "s.json"), clock.now)
    assert all("day.mp4" in key for key in read(source, most=9))
    clock.at += 86_400
    assert all("night.mp4" in key for key in read(source, most=9))


def test_a_schedule_passes_over_a_damaged_clip_and_fails_when_all_are(tmp_path: Path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"bad")
    good = write_video(tmp_path / "good.mp4", frames=3)
    raw = {"entries": [{"from": 0, "paths": ["bad.mp4", "good.mp4"]}]}
    source = ScheduleSource(parse_schedule(raw, tmp_path, 0, "test"), lambda: 1.0)
    assert len(read(source, most=7)) == 7
    good.unlink()
    with pytest.raises(VideoError, match="no readable video"):
        read(ScheduleSource(parse_schedule(raw, tmp_path, 0, "test"), lambda: 1.0))


@pytest.mark.parametrize(
    "text", ["", "[]", '{"entries": []}', '{"entries": [{"from": 1, "paths": "x"}]}', '{"entries": [{"paths": ["x"]}]}']
)
def test_a_malformed_schedule_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="schedule"):
        load_schedule(path, 0)


def test_the_recording_appears_whole_when_it_is_closed(tmp_path: Path) -> None:
    sink = Mp4Sink(tmp_path / "out.mp4")
    for level in range(0, 100, 10):
        sink.write(pixels(level))
        assert not (tmp_path / "out.mp4").exists()
    sink.close()
    sink.close()
    assert len(list(decode(str(tmp_path / "out.mp4")))) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]


def test_only_the_newest_pieces_are_kept(tmp_path: Path) -> None:
    sink = Mp4Sink(tmp_path / "out.mp4", piece_frames=4, keep=2)
    for level in range(22):
        sink.write(pixels(level))
    sink.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-00004.mp4", "out-00005.mp4"]


def test_a_change_of_size_starts_another_piece(tmp_path: Path) -> None:
    sink = Mp4Sink(tmp_path / "out.mp4")
    sink.write(pixels(10))
    sink.write(pixels(10, (32, 64)))
    sink.close()
    assert len(list(tmp_path.glob("out*.mp4"))) == 2


def test_a_full_disk_ends_the_recording_and_not_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> Iterator[None]:
        raise OSError(errno.ENOSPC, "no space left on device")

    sink = Mp4Sink(tmp_path / "out.mp4")
    monkeypatch.setattr("edge_agent.sinks.os.replace", full)
    sink.write(pixels(1))
    sink.close()
    sink.write(pixels(2))
    assert "no space" in sink.failed
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_ends_the_recording_only(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    sink = Mp4Sink(tmp_path / "taken" / "out.mp4")
    sink.write(pixels(1))
    sink.close()
    assert sink.failed


def test_pictures_are_enlarged_fitted_and_compared() -> None:
    assert enlarge(pixels(7)).shape == (128, 192, 3)
    assert fit(pixels(7), [(64, 96), (32, 48)]).shape == (64, 96, 3)
    assert fit(pixels(7, (60, 90)), [(64, 96), (320, 480)]).shape == (64, 96, 3)
    assert motion_between(None, pixels(7)) == 0.0
    assert motion_between(pixels(7), pixels(9)) == 2.0
