"""What a change of bundle costs the call: real bundles on the emulated NPU, a real disk, frames going on.

One thread plays frames without a pause, another talks to the platform, which wants the other bundle again and again;
the interpreter is set as `edgeloop agent run` sets it (`edge_agent/steady.py`). Slot switch: what the frame loop does
between two frames (the exchange of records and the pointer). Engine switch: how much longer the first frame of the new
bundle takes than an ordinary one.

The worst of all switches is wall clock and belongs to a machine that does nothing else. So that a reader sees what is
ours, processor time and the kernel's own count of the time that the thread was ready and had no core (`schedstat`) are
printed beside it, and in `machine.*` what this machine does to a bare exchange of names, to a flushed write and to a
loop that only counts, before and after.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.mending.seed_bundle import seed_bundle
from benchmarks.updating.deltas import DATA
from benchmarks.updating.noise import Noise, no_core_ms, noise_figures
from contracts.bundle import Bundle
from contracts.clock import SystemClock
from contracts.state import Target
from edge_agent.agent import Agent, LoopSettings
from edge_agent.compose import DeviceSettings, Shared, build_agent, join
from edge_agent.disk import Disk
from edge_agent.engines import RunnerLoader
from edge_agent.observation import ObservationSettings
from edge_agent.observers.health import TrialLimits
from edge_agent.sources import SourceFrame
from edge_agent.steady import steady
from edge_agent.store import BundleStore
from edge_agent.transport import Transport
from edge_agent.update import Change
from edgeloop.figures import Figure, exactly
from tests.support.agent_twin import TAGS
from tests.support.platform_twin import TOKEN, PlatformTwin, in_process

SWITCHES = 100
MOST_MS = 5.0
TRIAL = TrialLimits(frames=5, misses=10_000)


@dataclass
class Seen:
    """Milliseconds of every switch and frame, and the frames themselves."""

    slots: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    first_processor: list[float] = field(default_factory=list)
    no_core: list[float] = field(default_factory=list)
    ordinary: list[float] = field(default_factory=list)
    noise: Noise = field(default_factory=Noise)
    given: int = 0
    shown: int = 0
    wrong: int = 0
    plain: int = 0


class _Ends:
    """Source and sink that count."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._pixels = np.random.default_rng(3).integers(0, 256, (72, 88, 3), dtype=np.uint8)

    def next(self) -> SourceFrame:
        self._seen.given += 1
        return SourceFrame(self._pixels, f"frame#{self._seen.given}")

    def write(self, frame: np.ndarray) -> None:
        self._seen.shown += 1
        self._seen.wrong += frame.shape != (144, 176, 3)

    def close(self) -> None:
        return None


def figures(folder: Path) -> list[Figure]:
    """Slot switch, engine switch, frames, and the machine's own hold-ups."""
    seen = watch(folder)
    ordinary = statistics.median(seen.ordinary)
    extra = [one - ordinary for one in seen.first]
    count = f"of {len(seen.slots)}"
    engine = f"ms more than a frame of {ordinary:.2f}, {count}"
    waited = max(seen.no_core)
    return [
        *_switches("switch.slot", seen.slots, f"ms of wall clock, {count}"),
        _printed("switch.slot.processor", max(seen.processor), "ms of CPU, the worst"),
        *_switches("switch.engine", extra, engine),
        _printed("switch.engine.processor", max(seen.first_processor) - ordinary, "ms of CPU more, the worst"),
        _printed("switch.no_core", waited, "ms ready without a core, the worst of switch and first frame"),
        _printed("switch.frame.p99", _quantile(seen.ordinary, 0.99), "ms, frames between the switches"),
        exactly("switch.frames_lost", seen.given - seen.shown + seen.wrong, f"of {seen.given}", 0),
        exactly("switch.frames_without_model", seen.plain, "frames", 0),
        *noise_figures(seen.noise),
    ]


def _switches(name: str, values: list[float], unit: str) -> list[Figure]:
    shown = (("median", 0.5), ("p99", 0.99), ("worst", 1.0))
    return [_switch(f"{name}.{word}", _quantile(values, quantile), unit) for word, quantile in shown]


def _switch(name: str, value: float, unit: str) -> Figure:
    return Figure(name, round(value, 3), unit, f"< {MOST_MS:g} ms", value < MOST_MS)


def _printed(name: str, value: float, unit: str) -> Figure:
    return Figure(name, round(value, 3), unit, "printed", True)


def _quantile(values: list[float], quantile: float) -> float:
    return float(np.quantile(values, quantile))


def watch(folder: Path) -> Seen:
    """Switch to and fro; returns what was seen."""
    seen, twin = Seen(), PlatformTwin()
    twin.with_chunks, twin.url = True, "http://platform"
    paths = [seed_bundle(folder / "one.elb"), seed_bundle(folder / "two.elb", DATA / "short.onnx", "2.0.0")]
    targets = [_released(twin, path) for path in paths]
    agent = _agent(folder, twin, seen)
    over = threading.Event()
    seen.noise.listen(folder)
    player = threading.Thread(target=_play, args=(agent, seen, over), daemon=True)
    player.start()
    try:
        with steady():
            for turn in range(SWITCHES):
                twin.set_state(epoch=2 + turn, baseline=targets[(turn + 1) % 2])
                _until(agent, targets[(turn + 1) % 2].digest)
    finally:
        over.set()
        player.join(30)
    seen.noise.listen(folder)
    seen.plain = agent.counters.plain_frames
    return seen


def _play(agent: Agent, seen: Seen, over: threading.Event) -> None:
    changeover = agent._changeover
    take, switched = changeover.take, False

    def timed(change: Change) -> None:
        nonlocal switched
        began, worked = time.perf_counter(), time.thread_time()
        take(change)
        seen.slots.append((time.perf_counter() - began) * 1e3)
        seen.processor.append((time.thread_time() - worked) * 1e3)
        switched = True

    changeover.take = timed  # type: ignore[method-assign]  # that is the measurement
    while not over.is_set():
        playback, waited = agent.playback, no_core_ms()
        began, worked = time.perf_counter(), time.thread_time()
        agent.step()
        spent, processor = (time.perf_counter() - began) * 1e3, (time.thread_time() - worked) * 1e3
        if switched:
            seen.first.append(spent - seen.slots[-1])
            seen.first_processor.append(processor - seen.processor[-1])
            seen.no_core.append(no_core_ms() - waited)
            switched = False
        elif agent.playback is playback:
            seen.ordinary.append(spent)


def _until(agent: Agent, digest: str, patience_s: float = 30.0) -> None:
    """Talk until this bundle is confirmed."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        agent.sync()
        if agent.playback.digest == digest and not agent.on_trial and not agent.owing.is_set():
            return
        time.sleep(0.01)
    raise AssertionError(f"the device did not take {digest[:12]}: {agent.status()}")


def _released(twin: PlatformTwin, path: Path) -> Target:
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    return twin.release(path.read_bytes(), bundle.digest, manifest.release_version, manifest.security_epoch)


def _agent(folder: Path, twin: PlatformTwin, seen: Seen) -> Agent:
    disk, device, ends = Disk(), folder / "device", _Ends(seen)
    plain = Transport(twin.url, in_process(twin), attempts=1)
    identity = join(device, plain, TOKEN, TAGS, disk)
    settings = DeviceSettings(
        folder=device,
        factory=seed_bundle(folder / "factory.elb", version="0.9.0"),
        observation=ObservationSettings(TAGS),
        loop=LoopSettings(trial=TRIAL, observe_every=10_000),
    )
    clock = SystemClock()
    shared = Shared(BundleStore(device / "bundles", disk), RunnerLoader("npu-4t", clock))
    signed = plain.with_token(identity.access_token)
    return build_agent(settings, shared, clock, ends, ends, disk, identity, signed)
