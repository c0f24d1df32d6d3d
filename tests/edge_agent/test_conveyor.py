"""Four threads around the engine: the same bytes, in order, none lost, whatever a stage does; one id throughout."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from edge_agent.agent import Agent, LoopSettings
from edge_agent.compose import DeviceSettings, Shared, build_agent
from edge_agent.conveyor import BUFFERS, IN_FLIGHT, Conveyor, ConveyorSettings
from edge_agent.disk import Disk
from edge_agent.engines import RunnerLoader, RunnerPlayback
from edge_agent.enrol import Identity
from edge_agent.errors import VideoError
from edge_agent.observation import ObservationSettings
from edge_agent.picture import enlarge
from edge_agent.runtime.backend import BackendOptions
from edge_agent.runtime.npu import Faults
from edge_agent.session import Session
from edge_agent.sinks import Frame, Mp4Sink
from edge_agent.sources import SourceFrame, decode
from edge_agent.stages import stage_events
from edge_agent.store import BundleStore
from tests.support.agent_twin import TAGS, HandClock
from tests.support.real_bundle import SIZE, compile_real

FRAMES = np.random.default_rng(0).integers(0, 256, (40, 24, 32, 3), dtype=np.uint8)


@dataclass
class Camera:
    """Gives its pictures one after another; `before` may hang or fail at a frame."""

    pictures: list[Frame]
    before: Callable[[int], None] = lambda index: None
    given: int = 0
    closed: bool = False

    def next(self) -> SourceFrame | None:
        self.before(self.given)
        if self.given == len(self.pictures):
            return None
        self.given += 1
        return SourceFrame(self.pictures[self.given - 1], f"f#{self.given}", first=self.given == 1)

    def close(self) -> None:
        self.closed = True


@dataclass
class Screen:
    """Keeps what it is shown; `before` may hang or fail at a frame."""

    before: Callable[[int], None] = lambda index: None
    shown: list[Frame] = field(default_factory=list)

    def write(self, frame: Frame) -> None:
        self.before(len(self.shown))
        self.shown.append(frame)

    def close(self) -> None:
        return None


@dataclass
class HandTime:
    """A monotonic clock that only the test moves: what the machine does besides makes nothing late."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def inverted(frame: Frame) -> Frame:
    """What the engine of these tests makes: twice the size, so that it cannot be taken for a plain one."""
    return 255 - enlarge(frame)


def run(conveyor: Conveyor, engine: Callable[[int], None] = lambda index: None) -> None:
    """Play to the end."""
    index = 0
    while (frame := conveyor.feed.next()) is not None:
        engine(index)
        conveyor.outlet.write(inverted(frame.pixels))
        index += 1
    conveyor.outlet.close()
    conveyor.feed.close()


def whose(shown: list[Frame], pictures: list[Frame]) -> list[str]:
    """Say of every picture shown whether the engine made it or it is plain, in the order of the source."""
    words = []
    for image, picture in zip(shown, pictures, strict=True):
        plain, made = (np.array_equal(image, one) for one in (enlarge(picture), inverted(picture)))
        assert plain or made, len(words)
        words.append("plain" if plain else "made")
    return words


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def at(frame: int, act: Callable[[], object]) -> Callable[[int], None]:
    return lambda index: act() and None if index == frame else None


def test_every_frame_comes_out_once_and_in_order() -> None:
    camera, screen = Camera(list(FRAMES)), Screen()
    conveyor = Conveyor(camera, screen)
    run(conveyor)
    assert whose(screen.shown, camera.pictures) == ["made"] * 40
    assert (conveyor.counts.read, conveyor.counts.shown, conveyor.counts.late) == (40, 40, 0)
    assert camera.closed


def test_the_engine_hangs_for_ever_and_the_call_goes_on_with_plain_frames() -> None:
    released = threading.Event()
    camera, screen = Camera(list(FRAMES)), Screen()
    clock = HandTime()
    conveyor = Conveyor(camera, screen, ConveyorSettings(hang_s=0.3), monotonic=clock)

    def hang() -> None:
        until(lambda: len(screen.shown) == 3)
        clock.now += 0.31
        released.wait()

    playing = threading.Thread(target=run, args=(conveyor, at(3, hang)), daemon=True)
    playing.start()
    until(lambda: len(screen.shown) == 40)
    assert whose(screen.shown, camera.pictures)[:3] == ["made"] * 3
    assert whose(screen.shown, camera.pictures)[3:] == ["plain"] * 37
    assert conveyor.counts.late == 37
    assert "engine hangs" in conveyor.traces.frames()[5].anomalies
    released.set()
    playing.join(10)
    assert not playing.is_alive()
    assert len(screen.shown) == 40, "what came of the hanging frame afterwards is dropped"


def test_an_engine_that_comes_back_goes_on_with_the_newest_frames() -> None:
    back, clock, screen = threading.Event(), HandTime(), Screen()
    camera = Camera(list(FRAMES), before=at(20, lambda: back.wait(30)))
    conveyor = Conveyor(camera, screen, ConveyorSettings(hang_s=0.2), monotonic=clock)

    def engine(index: int) -> None:
        if index == 3:
            until(lambda: len(screen.shown) == 3)
            clock.now += 0.5
            until(lambda: conveyor.counts.late >= 2)
        if index == 4:
            back.set()

    run(conveyor, engine)
    words = whose(screen.shown, camera.pictures)
    assert words[3] == "plain"
    assert words[-1] == "made"
    assert words.count("plain") == conveyor.counts.late >= 2


def test_a_late_frame_is_plain_and_the_next_one_in_time_is_not() -> None:
    camera, screen, clock = Camera(list(FRAMES[:12])), Screen(), HandTime()
    conveyor = Conveyor(camera, screen, ConveyorSettings(deadline_s=0.25), monotonic=clock)

    def take_long() -> None:
        until(lambda: len(screen.shown) == 4)
        clock.now += 0.4
        until(lambda: conveyor.counts.late >= 1)

    run(conveyor, at(4, take_long))
    words = whose(screen.shown, camera.pictures)
    assert words[4] == "plain"
    assert words[:4] == ["made"] * 4
    assert words[-1] == "made"


@pytest.mark.parametrize("stage", ["source", "screen", "later"])
def test_a_stage_that_hangs_for_a_while_loses_no_frame(stage: str) -> None:
    hang = at(5, lambda: time.sleep(1.5))
    camera, screen = Camera(list(FRAMES[:20])), Screen()
    if stage == "source":
        camera.before = hang
    if stage == "screen":
        screen.before = hang
    conveyor = Conveyor(camera, screen, ConveyorSettings(hang_s=1.0))
    index = 0
    while (frame := conveyor.feed.next()) is not None:
        assert frame.later is not None
        if stage == "later" and index == 5:
            frame.later.append(lambda: time.sleep(1.5))
        conveyor.outlet.write(inverted(frame.pixels))
        index += 1
    conveyor.outlet.close()
    words = whose(screen.shown, camera.pictures)
    assert words.count("made") >= (20 if stage != "later" else 5)


def test_a_stage_that_fails_costs_no_other_frame() -> None:
    camera, screen = Camera(list(FRAMES[:20])), Screen(before=at(0, lambda: None))
    conveyor = Conveyor(camera, screen)
    while (frame := conveyor.feed.next()) is not None:
        assert frame.later is not None
        frame.later.append(lambda: 1 / 0)
        conveyor.outlet.write(inverted(frame.pixels))
    conveyor.outlet.close()
    assert whose(screen.shown, camera.pictures) == ["made"] * 20
    assert conveyor.counts.errors == 20


def test_no_stage_runs_ahead_of_the_next_by_more_than_its_buffers() -> None:
    gate = threading.Event()
    camera, screen = Camera(list(FRAMES)), Screen(before=lambda index: gate.wait(20) and None)
    conveyor = Conveyor(camera, screen)
    playing = threading.Thread(target=run, args=(conveyor,), daemon=True)
    playing.start()
    until(lambda: camera.given > BUFFERS)
    time.sleep(0.5)  # time to run ahead
    assert BUFFERS < camera.given <= IN_FLIGHT + 1
    gate.set()
    playing.join(20)
    assert len(screen.shown) == 40


def test_a_damaged_source_is_told_after_the_frames_before_it() -> None:
    def broken() -> None:
        raise VideoError("breaks off; give the whole file")

    camera, screen = Camera(list(FRAMES), before=at(7, broken)), Screen()
    conveyor = Conveyor(camera, screen)
    with pytest.raises(VideoError, match="breaks off"):
        run(conveyor)
    conveyor.outlet.close()
    assert whose(screen.shown, camera.pictures[:7]) == ["made"] * 7


def test_what_was_read_and_never_played_is_shown_at_the_end() -> None:
    camera, screen = Camera(list(FRAMES)), Screen()
    conveyor = Conveyor(camera, screen)
    assert conveyor.feed.next() is not None
    until(lambda: conveyor.counts.read == 1 + BUFFERS)
    conveyor.outlet.close()
    conveyor.feed.close()
    assert len(screen.shown) == camera.given - 1 == BUFFERS, "the first one was taken and nothing was made of it"


def test_a_frame_that_the_engine_leaves_out_is_not_shown() -> None:
    camera, screen = Camera(list(FRAMES[:9])), Screen()
    conveyor = Conveyor(camera, screen)
    for index in range(9):
        frame = conveyor.feed.next()
        assert frame is not None
        if index % 3 == 0:
            conveyor.outlet.write(inverted(frame.pixels))
    conveyor.outlet.close()
    assert whose(screen.shown, camera.pictures[::3]) == ["made"] * 3


def test_pace_and_number_of_frames_are_the_conveyors() -> None:
    camera, screen = Camera(list(FRAMES)), Screen()
    conveyor = Conveyor(camera, screen, ConveyorSettings(fps=50, most=10))
    began = time.monotonic()
    run(conveyor)
    assert time.monotonic() - began >= 9 / 50
    assert len(screen.shown) == camera.given == 10


@pytest.mark.parametrize("stage", ["source", "screen"])
def test_what_hangs_at_the_end_is_left_alone(stage: str) -> None:
    released = threading.Event()
    camera, screen = Camera(list(FRAMES)), Screen()
    (camera if stage == "source" else screen).before = at(2, released.wait)
    conveyor = Conveyor(camera, screen, end_s=0.2)
    for _ in range(2):
        frame = conveyor.feed.next()
        assert frame is not None
        conveyor.outlet.write(inverted(frame.pixels))
    began = time.monotonic()
    conveyor.outlet.close()
    conveyor.feed.close()
    assert time.monotonic() - began < 5
    assert camera.closed == (stage != "source")
    released.set()


# with a real agent


def pictures(count: int) -> list[Frame]:
    """Two sizes, one of which must be fitted."""
    random = np.random.default_rng(4)
    sizes = [SIZE] * 8 + [(60, 70)] * 4
    return [random.integers(0, 256, (*sizes[index % 12], 3), dtype=np.uint8) for index in range(count)]


def agent_on(
    folder: Path, camera: Camera, sink: Screen | Mp4Sink, pipelined: bool, faults: Faults | None = None
) -> Agent:
    folder.mkdir(parents=True)
    bundle, disk, clock = compile_real(folder, "1.0", seed=0), Disk(durable=False), HandClock()
    settings = DeviceSettings(folder / "device", bundle.path, ObservationSettings(TAGS), LoopSettings(observe_every=3))
    options = BackendOptions(faults or Faults(), seed=1)
    shared = Shared(BundleStore(folder / "bundles", disk), RunnerLoader("npu-4t", clock, "npu", options))
    alone = Identity(device_id="alone", access_token="", tuf_root="", state_key="", secret="00" * 32)
    conveyor = Conveyor(camera, sink, now=clock.now) if pipelined else None
    source, outlet = (conveyor.feed, conveyor.outlet) if conveyor else (camera, sink)
    return build_agent(settings, shared, clock, source, outlet, disk, alone, None, conveyor=conveyor)


@pytest.mark.parametrize("faults", [Faults(), Faults(driver_error_rate=0.3)], ids=["well", "failing"])
def test_the_pictures_are_those_of_one_frame_after_another(tmp_path: Path, faults: Faults) -> None:
    screens = Screen(), Screen()
    health = []
    for pipelined, screen in zip((False, True), screens, strict=True):
        agent = agent_on(tmp_path / str(pipelined), Camera(pictures(36)), screen, pipelined, faults)
        status = Session(agent, tmp_path / str(pipelined), 0, 0, 600).run()
        health.append([status[name] for name in ("frames", "upscaled", "observed", "plain_frames", "engine_state")])
    assert len(screens[0].shown) == len(screens[1].shown) == 36
    for one, other in zip(screens[0].shown, screens[1].shown, strict=True):
        assert np.array_equal(one, other)
    assert health[0] == health[1]


def test_the_recording_is_the_same_file(tmp_path: Path) -> None:
    camera = [random for random in pictures(30) if random.shape[:2] == SIZE]
    films = []
    for pipelined in (False, True):
        path = tmp_path / f"{pipelined}.mp4"
        agent = agent_on(tmp_path / str(pipelined), Camera(list(camera)), Mp4Sink(path, preset="ultrafast"), pipelined)
        Session(agent, tmp_path / str(pipelined), 0, 0, 600).run()
        films.append([found.pixels for found in decode(str(path))])
    assert len(films[0]) == len(camera)
    assert all(np.array_equal(one, other) for one, other in zip(*films, strict=True))


def test_one_id_follows_a_frame_from_capture_to_output(tmp_path: Path) -> None:
    agent = agent_on(tmp_path / "a", Camera(pictures(12)), Screen(), True)
    Session(agent, tmp_path / "a", 0, 0, 600).run()
    assert agent.conveyor is not None
    assert isinstance(agent.playback, RunnerPlayback)
    more = stage_events(agent.conveyor.traces.frames())
    events = json.loads(agent.playback.runner.trace.chrome_json(more=more))["traceEvents"]
    for trace in range(1, 13):
        named = {event["name"] for event in events if event["ph"] == "X" and event["args"].get("trace") == trace}
        assert {"capture", "prepare", "upscale", "engine", "finish", "compose"} <= named, trace
        arrows = [event["ph"] for event in events if event.get("id") == trace]
        assert (arrows[0], arrows[-1]) == ("s", "f")
    observed = {event["args"]["trace"] for event in events if event["name"] == "observe"}
    assert observed == {1, 4, 7, 10}


def test_fidelity_is_measured_on_another_thread_and_reported_the_same(tmp_path: Path) -> None:
    values = []
    for pipelined in (False, True):
        agent = agent_on(tmp_path / str(pipelined), Camera(pictures(24)), Screen(), pipelined)
        while agent.step():
            pass
        if agent.conveyor is not None:
            agent.conveyor.outlet.close()
        values.append(agent._health.report("ab" * 48, 1, "normal"))
    assert values[0].fidelity_lsb == pytest.approx(values[1].fidelity_lsb, rel=1e-9)
    assert values[0].fidelity_lsb > 0
    assert values[0].frames == values[1].frames == 24
