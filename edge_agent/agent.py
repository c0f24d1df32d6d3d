"""The agent: one loop for frames, one for the platform, and a hand-over between them.

`step` plays one frame and never waits for the network. `sync` talks to the platform and prepares a change
of bundle; `step` carries it out between two frames, so no frame sees half a change. Invariants: only
verified bundles play; what the frame loop decides takes effect at once and becomes durable as soon as the
disk allows.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from contracts.clock import Clock
from contracts.state import DeviceState
from contracts.wire import InstallStage
from edge_agent.bundles import Bundles
from edge_agent.changeover import Changeover
from edge_agent.conveyor import Conveyor
from edge_agent.disk import Disk
from edge_agent.errors import AgentError, Cancelled, PlatformError
from edge_agent.journal import Journal
from edge_agent.limits import LIMITS
from edge_agent.network import NetworkWatch
from edge_agent.observation import Observation
from edge_agent.observers.health import HealthWindow, Played, TrialLimits
from edge_agent.pace import Going, StillWanted
from edge_agent.picture import enlarge
from edge_agent.planner import Want, plan, wanted
from edge_agent.platform import Mail, Standing, StateKeeper
from edge_agent.playback import Enhanced, LitePlayback, Playback
from edge_agent.sinks import Sink
from edge_agent.slot_store import SlotStore
from edge_agent.slots import Slots
from edge_agent.sources import Source, SourceFrame
from edge_agent.tee import TrustedEnvironment
from edge_agent.trial import TrialWatch
from edge_agent.update import Change, UpdateExecutor

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoopSettings:
    """The frame loop's settings; `health_s` is simulated seconds."""

    upscale_every: int = 1
    observe_every: int = 1
    health_frames: int = 600
    health_s: float = 1_800.0
    budget_ms: float = 33.3
    trial: TrialLimits = field(default_factory=TrialLimits)


@dataclass(frozen=True)
class Platform:
    """The parts that need the network; absent on a device that never joined."""

    device_id: str
    keeper: StateKeeper
    mail: Mail
    executor: UpdateExecutor


@dataclass(frozen=True)
class Parts:
    """What an agent is composed of."""

    clock: Clock
    disk: Disk
    source: Source
    sink: Sink
    slots: SlotStore
    bundles: Bundles
    journal: Journal
    observation: Observation
    platform: Platform | None = None
    network: NetworkWatch | None = None
    conveyor: Conveyor | None = None
    """What `source` and `sink` belong to, when other threads prepare and compose."""


@dataclass
class Counters:
    """What happened since the start."""

    frames: int = 0
    upscaled: int = 0
    observed: int = 0
    killed_frames: int = 0
    plain_frames: int = 0
    lite_frames: int = 0
    unverified_frames: int = 0
    sync_errors: int = 0
    last_error: str = ""


class Agent:
    """One device. `step` belongs to one thread, `sync` to another; `close` comes after both."""

    def __init__(self, parts: Parts, settings: LoopSettings) -> None:
        self._parts, self._settings = parts, settings
        self._change: Change | None = None
        self._fit_to_play = True
        self._syncing, self._sending = threading.Lock(), threading.Lock()
        self._composed_by: Playback | None = None
        self._lightened: tuple[Playback, str] | None = None
        self._ending = threading.Event()
        self._health = HealthWindow(settings.budget_ms)
        self._health_since = parts.clock.now()
        self.counters = Counters()
        self._changeover = Changeover(
            parts.slots,
            parts.bundles,
            parts.journal,
            TrialWatch(settings.trial, settings.budget_ms),
            parts.clock,
            self._flush_health,
        )

    @property
    def playback(self) -> Playback:
        """The bundle that plays."""
        return self._changeover.playback

    @property
    def causes(self) -> Counter[str]:
        """Roll backs since the start, by cause."""
        return self._changeover.causes

    @property
    def conveyor(self) -> Conveyor | None:
        return self._parts.conveyor

    @property
    def slots(self) -> Slots:
        return self._parts.slots.slots

    @property
    def on_trial(self) -> bool:
        return self._changeover.on_trial

    @property
    def killed(self) -> bool:
        platform = self._parts.platform
        return platform is not None and platform.keeper.state.killed

    def step(self) -> bool:
        """Play one frame; False when the source has ended. Raises VideoError when the source is damaged."""
        change, self._change = self._change, None
        if change is not None:
            self._changeover.take(change)
        frame = self._parts.source.next()
        if frame is None:
            return False
        self.counters.frames += 1
        if not frame.trace:
            frame = replace(frame, trace=self.counters.frames)
        if self.killed:
            self.counters.killed_frames += 1
            self._composed_by = None
            self._parts.sink.write(enlarge(frame.pixels))
            return True
        if self.counters.frames % LIMITS.guard_frames == 0:
            self._fit_to_play = self._changeover.guard()
        if not self._fit_to_play:
            self.counters.plain_frames += 1
            self._parts.sink.write(enlarge(frame.pixels))
            return True
        self._play(frame)
        return True

    def sync(self) -> None:
        """Talk to the platform: state document, update, outbox. Failures are counted, never raised."""
        self.look()
        self.send()

    def look(self) -> None:
        """Look at the state document and do what it asks for. Failures are counted, never raised."""
        platform = self._parts.platform
        if not self._syncing.acquire(blocking=False):
            return
        try:
            self._changeover.settle()
            if platform is not None:
                self._guarded(self._update, platform)
        finally:
            self._syncing.release()

    def send(self) -> None:
        """Send what waits, from any one thread, also while another one looks. Failures are counted, never raised."""
        platform = self._parts.platform
        self.settle()
        if platform is None or not self._sending.acquire(blocking=False):
            return
        try:
            self._guarded(self._send, platform)
        finally:
            self._sending.release()

    def settle(self) -> None:
        """Write what the frame loop decided, without talking to the platform."""
        if self._syncing.acquire(blocking=False):
            try:
                self._changeover.settle()
            finally:
                self._syncing.release()

    @property
    def owes(self) -> bool:
        """True while a decision of the frame loop is not on disk yet."""
        return self._changeover.owes

    @property
    def owing(self) -> threading.Event:
        """Set when the frame loop decided something that `settle` or `sync` should write soon."""
        return self._changeover.owing

    def end_soon(self) -> None:
        """Call off a download that is under way: the device is being switched off."""
        self._ending.set()

    def flush(self) -> None:
        """Send what waits, without looking for updates: the last words of a device that goes to sleep."""
        self._changeover.settle()  # also while a look hangs
        self.send()

    def close(self, orderly: bool = True) -> None:
        """Finish the recording, keep the running day and the last health window. An end that is not `orderly` counts
        as a crash, like one that never came here.
        """
        self._parts.sink.close()
        self._flush_health(self._parts.clock.now())
        self._changeover.end(orderly)
        self._parts.observation.save()
        self._parts.source.close()

    def status(self) -> dict[str, object]:
        """Return what an operator wants to know, as JSON values."""
        bundles = self._parts.bundles
        return {
            **asdict(self.counters),
            "confirmed": self._changeover.confirmed,
            "rolled_back": self._changeover.rolled_back,
            "crashes": self.slots.fallen,
            "last_cause": self._changeover.last_cause,
            "last_error": self.counters.last_error or self._changeover.last_error,
            **self._parts.observation.status(),
            "running_digest": self.playback.digest,
            "running_version": self.playback.version,
            "slot_state": self._stage().value,
            "engine_state": self.playback.state,
            "late_frames": self.conveyor.counts.late if self.conveyor else 0,
            "network": (self._parts.network.weak or "strong") if self._parts.network else "not watched",
            "killed": self.killed,
            "bundles_verified": bundles.verifications,
            "bundles_loaded": bundles.loads,
            "deltas": self._parts.platform.executor.deltas if self._parts.platform else 0,
            "unverified_bytes_run": self.counters.unverified_frames,
        }

    @property
    def tee(self) -> TrustedEnvironment | None:
        """The device's trusted environment, for signatures."""
        return self._parts.bundles.store.tee

    def memory_map(self) -> dict[str, object] | None:
        """Where the running bundle's program keeps its buffers; None when the bundle does not say. Not for the frame
        loop.
        """
        return self._parts.bundles.memory_map(self.playback.digest, self._parts.observation.tags.device_class)

    def standing(self) -> Standing:
        """What the device says of itself with every batch."""
        platform = self._parts.platform
        epoch = platform.keeper.state.epoch if platform else 0
        return Standing(self._parts.observation.tags, self.playback.digest, self._stage(), epoch)

    # frames

    def _play(self, frame: SourceFrame) -> None:
        playback, counters = self.playback, self.counters
        counters.unverified_frames += not self._parts.bundles.is_verified(playback.digest)
        now = self._parts.clock.now()
        turn = counters.frames - 1
        upscale = self.on_trial or turn % self._settings.upscale_every == 0
        observe = turn % self._settings.observe_every == 0
        played = Played()
        if observe:
            played = self._parts.observation.see(playback, frame, now)
            counters.observed += 1
        if upscale:
            played = played.joined(self._compose(playback, frame))
        self._health.add(played)
        self._report_health(now)
        self._changeover.watch(played, now)

    def _compose(self, playback: Playback, frame: SourceFrame) -> Played:
        self._lighten(playback)
        try:
            if frame.first or playback is not self._composed_by:
                playback.begin()
            self._composed_by = playback
            enhanced = playback.upscale(frame)
        except Exception as error:  # whatever a program does, the call goes on with a plain picture
            self._plain(frame, error)
            return Played(errors=1)
        self.counters.upscaled += 1
        self.counters.lite_frames += enhanced.lite
        measured = self._fidelity(enhanced, frame)
        if enhanced.image is not None:
            self._parts.sink.write(enhanced.image)
        return Played(
            upscaled=True,
            latency_ms=enhanced.latency_ms,
            relative=self._relative(enhanced.latency_ms, frame),
            fidelity_lsb=measured,
            errors=enhanced.errors,
            on_cpu=enhanced.on_cpu,
            lite=enhanced.lite,
        )

    def _fidelity(self, enhanced: Enhanced, frame: SourceFrame) -> float | None:
        """Return the distance from the input; outside of a trial, which it may end, another thread measures it."""
        if enhanced.measure is None:
            return enhanced.fidelity_lsb
        if self.on_trial or frame.later is None:
            return enhanced.measure()
        frame.later.append(partial(self._health.add_fidelity, enhanced.measure))
        return None

    def _lighten(self, playback: Playback) -> None:
        """Let a weak network take the smaller engine; a trial judges the full one."""
        network = self._parts.network
        weak = network.weak if network and not self.on_trial else ""
        if self._lightened is not None and self._lightened[0] is playback and self._lightened[1] == weak:
            return
        before = self._lightened[1] if self._lightened and self._lightened[0] is playback else ""
        self._lightened = playback, weak
        if weak != before and isinstance(playback, LitePlayback):
            playback.lighten(weak)

    def _relative(self, latency_ms: float | None, frame: SourceFrame) -> float | None:
        size = (frame.pixels.shape[0], frame.pixels.shape[1])
        reference = self._parts.bundles.reference_ms(self._parts.observation.tags.device_class, size)
        return None if latency_ms is None or reference is None else latency_ms / reference

    def _plain(self, frame: SourceFrame, error: Exception) -> None:
        if self.counters.plain_frames == 0:
            log.exception("frame %s was composed without a model", frame.key)
        self.counters.plain_frames += 1
        self.counters.last_error = str(error)[:200]
        self._parts.sink.write(enlarge(frame.pixels))

    def _report_health(self, now: float) -> None:
        due = now - self._health_since >= self._settings.health_s
        if due or self._health.frames >= self._settings.health_frames:
            self._flush_health(now)

    def _flush_health(self, now: float) -> None:
        ended, self._health = self._health, HealthWindow(self._settings.budget_ms)
        self._parts.journal.health(ended, self.playback.digest, self.playback.state)
        self._health_since = now

    def _stage(self) -> InstallStage:
        return InstallStage.TRIAL if self.on_trial else InstallStage.CONFIRMED

    # platform

    def _update(self, platform: Platform) -> None:
        state = platform.keeper.poll()
        if not platform.keeper.known or state.killed:
            return
        if self._change is not None or self._changeover.owes:
            return
        want = self._wanted(platform, state)
        steps = plan(self.slots, want, state)
        still = StillWanted(lambda: self._still_wants(platform, want), LIMITS.wanted_s)
        self._change = platform.executor.run(steps, lambda: self._going(still))

    def _wanted(self, platform: Platform, state: DeviceState) -> Want | None:
        return wanted(state, platform.device_id, self._parts.observation.tags, self.slots)

    def _still_wants(self, platform: Platform, want: Want | None) -> bool:
        """Ask the platform again, during a download; without an answer the last word stays."""
        try:
            state = platform.keeper.poll()
        except PlatformError:
            state = platform.keeper.state
        return not state.killed and self._wanted(platform, state) == want

    def _going(self, still: Going) -> None:
        if self._ending.is_set():
            raise Cancelled("the device is being switched off")
        still()

    def _send(self, platform: Platform) -> None:
        platform.mail.drain(self.standing())

    def _guarded(self, task: Callable[[Platform], None], platform: Platform) -> None:
        try:
            task(platform)
        except (PlatformError, AgentError, OSError) as error:
            self.counters.sync_errors += 1
            self.counters.last_error = str(error)[:200]
            log.info("sync: %s", error)
