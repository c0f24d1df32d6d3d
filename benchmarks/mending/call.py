"""A simulated call of 70 minutes at 25 frames a second on a device whose parts fail one after another.

Real: agent, frame loop, runner, healing machine with its own limits (5 errors in 60 s, probe after 30 min), the
compiled seed bundle on the emulated NPU, ONNX Runtime as the CPU. Simulated: time (a clock moved by hand) and the
faults. Faults of the NPU are the emulator's own; the other stages fail by an exception at their entry.

    second    what fails                        what must happen
    60-600    NPU: every run is a driver error  degraded at the 5th error, CPU takes over; probe 30 min later, normal
    900-940   CPU too, three frames             those frames plain, still degraded
    2000      NPU: four hangs                   the CPU serves those frames, still normal
    2100-2110 getting the frame ready           plain frames, still normal
    2120-2130 judging and handing on            plain frames, still normal
    2140-2150 the quality net                   frames as ever, still normal
    2200-3500 NPU and CPU                       degraded, disabled; plain frames; probe 30 min later, normal
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contracts.bundle import Bundle
from contracts.device import DeviceTags
from edge_agent.agent import Agent, LoopSettings
from edge_agent.compose import DeviceSettings, Shared, build_agent
from edge_agent.disk import Disk
from edge_agent.engines import RunnerLoader, RunnerPlayback
from edge_agent.enrol import Identity
from edge_agent.observation import ObservationSettings
from edge_agent.playback import Enhanced, Pixels, Seen
from edge_agent.runtime.backend import BackendFailed
from edge_agent.runtime.npu import Faults
from edge_agent.runtime.npu_backend import NpuBackend
from edge_agent.runtime.ort_backend import OrtBackend
from edge_agent.sources import SourceFrame
from edge_agent.store import BundleStore

FPS = 25
SECONDS = 70 * 60
SIZE = (72, 88)
OBSERVE_EVERY = 25
NPU_WINDOWS = ((60, 600, "error"), (2000.02, 2000.17, "hang"), (2200, 3500, "error"))
CPU_WINDOWS = ((900, 900.11), (2200, 3500))
STAGE_WINDOWS = {"ready": (2100, 2110), "hand on": (2120, 2130), "quality": (2140, 2150)}
SPECIFIED = (
    ("normal", "degraded"),
    ("degraded", "normal"),
    ("normal", "degraded"),
    ("degraded", "disabled"),
    ("disabled", "normal"),
)
PROBE_S = 1_800.0


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Camera:
    """Eight textures in turn."""

    def __init__(self) -> None:
        random = np.random.default_rng(5)
        ramp = np.add.outer(np.arange(SIZE[0]), np.arange(SIZE[1]))[..., None]
        self._pictures = [((ramp + random.integers(0, 90, (*SIZE, 3))) % 256).astype(np.uint8) for _ in range(8)]
        self.given = 0

    def next(self) -> SourceFrame:
        self.given += 1
        return SourceFrame(self._pictures[self.given % 8], f"camera#{self.given}")

    def close(self) -> None:
        return None


class Screen:
    """Counts what it is shown: one picture of twice the size for every frame, or the frame is lost."""

    def __init__(self) -> None:
        self.shown = 0
        self.wrong = 0

    def write(self, frame: Pixels) -> None:
        self.shown += 1
        self.wrong += frame.shape != (2 * SIZE[0], 2 * SIZE[1], 3) or frame.dtype != np.uint8

    def close(self) -> None:
        return None


@dataclass
class Failing:
    """Lets backend and playback fail in their windows of the call."""

    clock: Clock
    injected: dict[str, int] = field(default_factory=dict)

    def cpu(self, backend: OrtBackend) -> None:
        upscale = backend.upscale

        def failing(frame: Pixels) -> Any:  # Any: the backend's own result
            if any(start <= self.clock.at < stop for start, stop in CPU_WINDOWS):
                self._count("cpu")
                raise BackendFailed("injected")
            return upscale(frame)

        backend.upscale = failing  # type: ignore[method-assign]  # that is the injection

    def npu(self, backend: NpuBackend) -> None:
        """Set the emulator's faults for this instant."""
        wanted = next((kind for start, stop, kind in NPU_WINDOWS if start <= self.clock.at < stop), "")
        rates = {"error": Faults(driver_error_rate=1.0), "hang": Faults(hang_rate=1.0)}
        faults, loaded = rates.get(wanted, Faults()), backend._loaded
        assert loaded is not None
        if loaded.device.faults == faults:
            return
        loaded.device.set_faults(faults)
        models = {kind: loaded.device.rematch(program) for kind, program in loaded.models.items()}
        backend._loaded = replace(loaded, models=models, quality=loaded.device.rematch(loaded.quality))

    def stages(self, playback: RunnerPlayback) -> None:
        upscale, observe = playback.upscale, playback.observe

        def failing(frame: SourceFrame) -> Enhanced:
            self._fail("ready")
            enhanced = upscale(frame)
            self._fail("hand on")
            return enhanced

        def failing_quality(frame: SourceFrame) -> Seen:
            self._fail("quality")
            return observe(frame)

        playback.upscale = failing  # type: ignore[method-assign]  # that is the injection
        playback.observe = failing_quality  # type: ignore[method-assign]

    def _fail(self, stage: str) -> None:
        start, stop = STAGE_WINDOWS[stage]
        if start <= self.clock.at < stop:
            self._count(stage)
            raise RuntimeError(f"injected at {stage}")

    def _count(self, stage: str) -> None:
        self.injected[stage] = self.injected.get(stage, 0) + 1


@dataclass
class Call:
    """What happened in a call."""

    frames: int = 0
    shown: int = 0
    wrong: int = 0
    raised: int = 0
    plain: int = 0
    on_cpu: int = 0
    late: int = 0
    path: list[tuple[float, str, str]] = field(default_factory=list)
    injected: dict[str, int] = field(default_factory=dict)
    served_in: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Frames that went in and did not come out as one whole picture."""
        return self.frames - self.shown + self.wrong + self.raised


def hold(
    folder: Path, bundle: Path, seconds: int = SECONDS, tell: Callable[[float], None] = lambda share: None
) -> Call:
    """Hold the call; returns what happened."""
    clock, camera, screen, call = Clock(), Camera(), Screen(), Call()
    agent, playback = _agent(folder, bundle, clock, camera, screen)
    failing = Failing(clock, call.injected)
    runner = playback.runner
    npu, cpu = runner._backends.values()
    assert isinstance(npu, NpuBackend)
    assert isinstance(cpu, OrtBackend)
    failing.cpu(cpu)
    failing.stages(playback)
    before = playback.state
    with _quiet():
        for index in range(seconds * FPS):
            clock.at = index / FPS
            failing.npu(npu)
            try:
                agent.step()
            except Exception:  # nothing may reach the call
                call.raised += 1
            call.served_in[playback.state] = call.served_in.get(playback.state, 0) + 1
            if playback.state != before:
                call.path.append((clock.at, before, playback.state))
                before = playback.state
            if index % 2_500 == 0:
                agent.sync()
                tell(index / (seconds * FPS))
    call.frames, call.shown, call.wrong = camera.given, screen.shown, screen.wrong
    call.plain = agent.counters.plain_frames + runner.counts.plain
    call.on_cpu = runner.counts.on_cpu
    call.injected["npu"] = runner.counts.errors - call.injected.get("cpu", 0)
    return call


def as_specified(path: list[tuple[float, str, str]]) -> bool:
    """Whether states changed in the specified order, and the primary came back with the first probe that may work."""
    if tuple((before, after) for _, before, after in path) != SPECIFIED:
        return False
    times = [at for at, _, _ in path]
    opened = all(0.0 <= fell - NPU_WINDOWS[window][0] < 1.0 for fell, window in ((times[0], 0), (times[2], 2)))
    probed = all(0.0 <= back - left - PROBE_S < 1.0 for left, back in ((times[0], times[1]), (times[3], times[4])))
    return opened and probed


def _agent(folder: Path, bundle: Path, clock: Clock, camera: Camera, screen: Screen) -> tuple[Agent, RunnerPlayback]:
    tags = DeviceTags(device_class="npu-4t", scenario="meeting")
    settings = DeviceSettings(
        folder=folder,
        factory=bundle,
        observation=ObservationSettings(tags),
        loop=LoopSettings(observe_every=OBSERVE_EVERY),
    )
    disk = Disk(durable=False)
    disk.make_directory(folder)
    loader = RunnerLoader("npu-4t", clock)
    shared = Shared(BundleStore(folder / "bundles", disk), loader)
    alone = Identity(device_id="alone", access_token="", tuf_root="", state_key="", secret="00" * 32)
    agent = build_agent(settings, shared, clock, camera, screen, disk, alone, None)
    assert isinstance(agent.playback, RunnerPlayback)
    assert Bundle.open(bundle).digest == agent.playback.digest
    return agent, agent.playback


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
