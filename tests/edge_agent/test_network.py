"""A weak network takes the bundle's smaller engine, with hysteresis; no frame is lost; the health report says so."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest

from compiler.driver import compile_bundle, compile_program
from contracts.bundle import Bundle
from contracts.npu.program import Program
from edge_agent.agent import Agent, LoopSettings
from edge_agent.compose import DeviceSettings, Shared, build_agent
from edge_agent.config import AgentConfig, parse
from edge_agent.disk import Disk
from edge_agent.engines import RunnerLoader, RunnerPlayback
from edge_agent.enrol import Identity
from edge_agent.errors import ConfigError, Unreachable
from edge_agent.network import NetworkLimits, NetworkWatch
from edge_agent.observation import ObservationSettings
from edge_agent.runtime.backend import BackendOptions
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu_backend import NpuBackend
from edge_agent.sources import SourceFrame
from edge_agent.store import BundleStore
from edge_agent.transport import Transport
from tests.support.agent_twin import TAGS, HandClock, toy_observer
from tests.support.models import quality_qdq, vsr_qdq

SIZE = (36, 44)
FULL, HALF = vsr_qdq(16, 16, 3, 3, seed=1), vsr_qdq(8, 8, 1, 3, seed=2)
LIMITS = NetworkLimits(weak_ms=500, good_ms=200, trips=4, failures=2, hold_s=30)
FRAMES = np.random.default_rng(0).integers(0, 256, (12, *SIZE, 3), dtype=np.uint8)


class Hand:
    """Monotonic seconds, moved by hand."""

    at = 0.0

    def __call__(self) -> float:
        return self.at


def watch() -> tuple[NetworkWatch, Hand]:
    hand = Hand()
    return NetworkWatch(LIMITS, hand), hand


def trips(seen: NetworkWatch, *seconds: float | None) -> None:
    for one in seconds:
        seen.trip(one or 0.0, one is not None)


def weak(seen: NetworkWatch) -> str:
    return seen.weak


def test_slow_trips_are_weak_and_a_single_slow_one_is_not() -> None:
    seen, _ = watch()
    trips(seen, 0.05, 0.05, 2.0, 0.05)
    assert weak(seen) == ""
    trips(seen, 0.9, 0.9, 0.9)
    assert weak(seen) == "900 ms a round trip"


def test_unanswered_trips_are_weak_however_quick_the_others_are() -> None:
    seen, _ = watch()
    trips(seen, None, None)
    assert weak(seen) == "", "not enough trips to say anything"
    trips(seen, 0.01, 0.01)
    assert weak(seen) == "2 of 4 round trips failed"


def test_a_recovery_must_be_below_the_lower_threshold_and_last() -> None:
    seen, hand = watch()
    trips(seen, *[0.9] * 4)
    trips(seen, *[0.3] * 8)
    assert weak(seen), "better than weak is not yet good"
    trips(seen, *[0.1] * 4)
    hand.at = 20.0
    trips(seen, 0.1)
    assert weak(seen), "good for twenty seconds of thirty"
    trips(seen, None)
    hand.at = 40.0
    trips(seen, *[0.1] * 4)
    assert weak(seen), "a lost trip begins the wait anew"
    hand.at = 75.0
    trips(seen, 0.1)
    assert (weak(seen), seen.changes) == ("", 2)


def test_a_network_between_the_thresholds_never_flaps() -> None:
    seen, hand = watch()
    for turn in range(500):
        hand.at = turn * 10.0
        trips(seen, 0.25 if turn % 2 else 0.45)
    assert seen.changes == 0
    trips(seen, *[0.9] * 4)
    for _ in range(500):
        hand.at += 10.0
        trips(seen, 0.25, 0.45)
    assert seen.changes == 1


def test_the_transport_tells_every_trip() -> None:
    answers: list[Exception | httpx.Response] = [
        httpx.ConnectError("away"),
        httpx.Response(503),
        httpx.Response(200, json={}),
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        one = answers.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    seen: list[bool] = []
    client = httpx.Client(transport=httpx.MockTransport(answer))
    plain = Transport("http://platform", client, attempts=1, sleep=lambda seconds: None)
    way = plain.watched(lambda seconds, answered: seen.append(answered)).with_token("t")
    for _ in range(2):
        with pytest.raises(Unreachable):
            way.get("/")
    way.get("/")
    assert seen == [False, True, True]


def test_thresholds_without_a_gap_are_refused() -> None:
    with pytest.raises(ValueError, match="flap"):
        NetworkLimits(weak_ms=300, good_ms=300)
    base = {"state_dir": "a", "factory_bundle": "b", "source": "file", "tags": {"device_class": "npu-4t"}}
    with pytest.raises(ConfigError, match="flap"):
        parse(AgentConfig, {**base, "network": {"weak_ms": 100}}, "here")


class Ends:
    """Source and sink."""

    def __init__(self) -> None:
        self.at = 0
        self.shown: list[np.ndarray] = []

    def next(self) -> SourceFrame:
        self.at += 1
        return SourceFrame(FRAMES[(self.at - 1) % len(FRAMES)], f"f#{self.at}", first=self.at == 1)

    def write(self, frame: np.ndarray) -> None:
        self.shown.append(frame)

    def close(self) -> None:
        return None


def expected(model: bytes, frame: np.ndarray) -> np.ndarray:
    device = NpuDevice("npu-4t")
    program = Program.open(compile_program(model, "npu-4t", [SIZE])[0])
    (image,) = device.infer(device.load(program), frame).outputs.values()
    return image


def agent_with_two_widths(folder: Path, ends: Ends, network: NetworkWatch) -> Agent:
    path, disk, clock = folder / "b.elb", Disk(durable=False), HandClock()
    observer = toy_observer().to_bytes()
    compile_bundle(FULL, quality_qdq(), observer, ["npu-4t"], [SIZE], {}, path, "1", 1, widths={"half": HALF})
    loop = LoopSettings(observe_every=10_000)
    settings = DeviceSettings(folder / "device", path, ObservationSettings(TAGS), loop)
    shared = Shared(BundleStore(folder / "bundles", disk), RunnerLoader("npu-4t", clock))
    alone = Identity(device_id="alone", access_token="", tuf_root="", state_key="", secret="00" * 32)
    return build_agent(settings, shared, clock, ends, ends, disk, alone, None, network=network)


def test_an_agent_on_a_weak_network_plays_the_smaller_engine_and_loses_no_frame(tmp_path: Path) -> None:
    (network, hand), ends = watch(), Ends()
    agent = agent_with_two_widths(tmp_path, ends, network)
    for index in range(12):
        if index == 4:
            trips(network, *[0.9] * 4)
        if index == 8:
            trips(network, *[0.05] * 4)
            hand.at = 100.0
            trips(network, 0.05)
        agent.step()
    assert len(ends.shown) == 12
    for index, image in enumerate(ends.shown):
        assert np.array_equal(image, expected(HALF if 4 <= index < 8 else FULL, FRAMES[index])), index
    status = agent.status()
    assert (status["lite_frames"], status["plain_frames"], status["network"]) == (4, 0, "strong")
    assert isinstance(agent.playback, RunnerPlayback)
    npu = next(iter(agent.playback.runner._backends.values()))
    assert isinstance(npu, NpuBackend)
    switches = [(one.after, one.reason) for one in npu.width_switches]
    assert switches == [("36x44@half", "900 ms a round trip"), ("36x44", "")]
    report = agent._health.report("ab" * 48, 1, "normal")
    assert (report.frames, report.lite_frames) == (12, 4)


def test_a_trial_judges_the_full_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (network, _), ends = watch(), Ends()
    agent = agent_with_two_widths(tmp_path, ends, network)
    trips(network, *[0.9] * 4)
    monkeypatch.setattr(type(agent), "on_trial", True)
    agent.step()
    assert agent.counters.lite_frames == 0
    monkeypatch.setattr(type(agent), "on_trial", False)
    agent.step()
    assert agent.counters.lite_frames == 1


def test_a_bundle_with_one_width_goes_on_as_before(tmp_path: Path) -> None:
    path = tmp_path / "b.elb"
    compile_bundle(FULL, quality_qdq(), None, ["npu-4t"], [SIZE], {}, path, "1", 1)
    backend = NpuBackend(BackendOptions())
    backend.load(Bundle.open(path), "npu-4t")
    backend.lighten("slow")
    made = backend.upscale(FRAMES[0])
    assert not made.lite
    assert np.array_equal(made.image, expected(FULL, FRAMES[0]))
    assert not backend.width_switches
