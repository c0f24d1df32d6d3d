"""The demo's course of events. It changes light, network and time, and posts two bad candidates; nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from contracts.clock import SECONDS_PER_DAY, FileClock, day_of
from demo.actors import Actors, World, start_fleet, start_full_agents
from demo.errors import DemoError
from demo.ground import Ground
from demo.observe import Observer, Sight
from demo.pace import Pace
from demo.scene import Scene, make_scene
from demo.settings import DemoSettings
from demo.story import FleetPoint, Story
from demo.view import Board, View
from flows.data.corpus import Corpus
from flows.platform import Platform
from flows.steps.context import Profiles

LOOK_EVERY_S = 1.0


@dataclass
class Stage:
    """Everything that the acts share."""

    folder: Path
    settings: DemoSettings
    corpus: Corpus
    profiles: Profiles
    story: Story
    board: Board
    view: View
    clock_file: Path
    pace: Pace
    ground: Ground
    actors: Actors
    platform: Platform
    observer: Observer
    scene: Scene | None = None
    world: World | None = None
    change_at: float = 0.0
    unverified_before: int = 0

    @property
    def clock(self) -> FileClock:
        """Simulated time."""
        return FileClock(self.clock_file)

    @property
    def factory(self) -> Path:
        """The devices' built-in bundle."""
        return self.folder / "factory.elb"

    def unverified_bytes(self) -> int:
        """Unverified bytes that devices ran since their last start, by their own word; -1 for one that is mute."""
        told = [json.loads(path.read_text()) for path in sorted(self.folder.glob("agent-*/status.json"))]
        told.append(self.observer.look().fleet)
        return sum(int(status.get("unverified_bytes_run", -1)) for status in told)

    def tell(self, what: str, share: float) -> None:
        """Show progress of long work."""
        self.board.detail, self.board.share = what, share
        self._draw(Sight())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show a phase and note its time."""
        self.board.phase, self.board.detail, self.board.share = name, "", None
        with self.story.step(name, self.clock.now() / SECONDS_PER_DAY):
            yield

    def wait(self, what: str, ready: Callable[[Sight], object], limit_s: float) -> Sight:
        """Look every second until `ready` gives something true. Raises DemoError after `limit_s`, stretched."""
        limit_s *= self.settings.patience
        deadline = time.monotonic() + limit_s
        self.board.share = None
        while True:
            sight = self.observer.look()
            self._note(sight)
            self.pace.adapt(sight.fleet)
            self.board.detail = what
            self._draw(sight)
            if ready(sight):
                return sight
            dead = self.actors.dead()
            if dead:
                raise DemoError(f"{dead[0].name} ended by itself with {dead[0].process.returncode}; see {dead[0].log}")
            if time.monotonic() > deadline:
                raise DemoError(f"waited {limit_s:.0f} s for: {what}; see {self.ground.logs}")
            time.sleep(LOOK_EVERY_S)

    def _note(self, sight: Sight) -> None:
        running = {self.board.names.get(d, d[:8]): int(n) for d, n in sight.fleet.get("by_bundle", {}).items()}
        if running and (not self.story.fleet or self.story.fleet[-1].running != running):
            self.story.fleet.append(FleetPoint(round(self.story.seconds(), 1), running))

    def _draw(self, sight: Sight) -> None:
        self.board.seconds = self.story.seconds()
        now = self.clock.now()
        self.board.sim = datetime.fromtimestamp(now, UTC).strftime("day %j %H:%M") + f" x{self.pace.factor:,.0f}"
        if not sight.fleet and self._last is not None:
            sight = self._last
        self._last = sight
        self.view.show(self.board, sight)

    _last: Sight | None = None


def record_scene(stage: Stage) -> None:
    """Send held-out clips through the codec under both conditions."""
    with stage.phase("recordings"):
        stage.scene = make_scene(
            stage.folder / "clips",
            stage.corpus,
            variants=stage.settings.variants,
            frames=stage.settings.clip_frames,
            seed=stage.settings.seed,
            progress=lambda share: stage.tell("sending held-out clips through x264", share),
        )


def gather_fleet(stage: Stage) -> None:
    """Start all devices and wait until they have joined."""
    assert stage.scene is not None
    with stage.phase("fleet joins"):
        info = stage.ground.access
        stage.change_at = SECONDS_PER_DAY * (day_of(stage.clock.now()) + stage.settings.healthy_days)
        stage.world = world = World(
            stage.folder, stage.factory, info.base_url, info.enrolment_token, stage.clock_file, stage.change_at,
            stage.scene, stage.settings,
        )  # fmt: skip
        start_fleet(stage.actors, world)
        start_full_agents(stage.actors, world)
        wanted = stage.settings.light_devices + stage.settings.full_devices
        stage.wait(
            f"{wanted} devices to join",
            lambda sight: (
                sight.fleet.get("joined", 0) == sight.fleet.get("devices", -1)
                and len(stage.observer.devices()) >= wanted
            ),
            120,
        )


def live_through_the_change(stage: Stage) -> Sight:
    """Healthy days, then low light and a bad network for two thirds of the fleet, until the alarm."""
    stage.pace.want(stage.settings.watching_factor)
    with stage.phase("healthy days"):
        stage.wait("healthy days to pass", lambda _: stage.clock.now() >= stage.change_at, 3 * 60)
    with stage.phase("bad days"):
        stage.wait(
            "low light and a bad network to be noticed",
            lambda sight: sight.alarms,
            5 * 60,
        )
    with stage.phase("drift alarm"):
        sight = stage.wait(
            "the platform to decide what to do about it",
            lambda now: any(alarm["action"] == "retrain" for alarm in now.alarms),
            3 * 60,
        )
    stage.pace.want(stage.settings.learning_factor)
    return sight
