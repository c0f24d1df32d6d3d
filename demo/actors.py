"""The devices of the demo: one process with the light ones, one process for each full one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo.scene import HARD, NORMAL, Scene
from demo.settings import DemoSettings

FAULTY_CLASS = "npu-2t"
FAULT_RATE = 0.35
"""Share of frames on which the older driver of the faulty class fails under the build that it chokes on."""


@dataclass(frozen=True)
class Group:
    """Devices that are alike. `changes` tells whether their surroundings turn bad."""

    name: str
    device_class: str
    scenario: str
    changes: bool

    @property
    def cohort(self) -> str:
        """Drift's name of the group."""
        return f"{self.device_class}/{self.scenario}"

    @property
    def tags(self) -> dict[str, str]:
        """Device tags."""
        network = "cellular" if self.changes else "fibre"
        return {
            "device_class": self.device_class,
            "scenario": self.scenario,
            "network": network,
            "region": "demo",
        }


GROUPS = (
    Group("office", "npu-4t", "office", changes=False),
    Group("home", "npu-4t", "home", changes=True),
    Group("mobile", "npu-2t", "mobile", changes=True),
)


@dataclass(frozen=True)
class World:
    """Where devices find the platform, their factory bundle and their surroundings."""

    folder: Path
    factory: Path
    base_url: str
    enrolment_token: str
    clock_file: Path
    change_at: float
    scene: Scene
    settings: DemoSettings
    choking_build: str = ""
    """Build id that the faulty class's driver fails on; empty while no driver is faulty."""

    def faults(self, group: Group) -> dict[str, object]:
        """What goes wrong on devices of a group."""
        if group.device_class != FAULTY_CLASS or not self.choking_build:
            return {}
        return {"driver_error_rate": FAULT_RATE, "match": self.choking_build}


@dataclass
class Actor:
    """A child process of ours."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None


@dataclass
class Actors:
    """All device processes; `stop` ends them by their ids, in a bounded time."""

    members: list[Actor] = field(default_factory=list)

    def start(self, name: str, command: Sequence[str], world: World) -> None:
        """Start one process with its log file."""
        log = world.folder / f"{name}.log"
        environment = {**os.environ, "EDGELOOP_CLOCK_FILE": str(world.clock_file), "OMP_NUM_THREADS": "1"}
        with log.open("ab") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, env=environment)
        self.members.append(Actor(name, process, log))

    def dead(self) -> list[Actor]:
        """Processes that ended by themselves, which none should."""
        return [actor for actor in self.members if not actor.alive]

    def stop(self, patience_s: float = 20.0) -> None:
        """Ask all to end, then insist."""
        for actor in self.members:
            if actor.alive:
                actor.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        for actor in self.members:
            try:
                actor.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                actor.process.kill()
                actor.process.wait(5)
        self.members.clear()


def restart_devices(actors: Actors, world: World) -> None:
    """All devices start anew in a changed world; what they installed and learned is on their disks."""
    actors.stop()
    start_fleet(actors, world)
    start_full_agents(actors, world)


def start_fleet(actors: Actors, world: World) -> None:
    """The light devices: the same agent code, frames sampled, no composed output."""
    path = world.folder / "fleet.config.json"
    path.write_text(json.dumps(fleet_config(world), indent=1))
    path.chmod(0o600)
    actors.start("fleet", [sys.executable, "-m", "edgeloop", "agent", "fleet", "--config", str(path)], world)


def start_full_agents(actors: Actors, world: World) -> None:
    """Full agents: every frame is upscaled and written to mp4."""
    for number in range(world.settings.full_devices):
        group = GROUPS[number % len(GROUPS)]
        name = f"agent-{number + 1}-{group.name}"
        path = world.folder / f"{name}.config.json"
        path.write_text(json.dumps(agent_config(world, name, group, number), indent=1))
        path.chmod(0o600)
        actors.start(name, [sys.executable, "-m", "edgeloop", "agent", "run", "--config", str(path)], world)


def fleet_config(world: World) -> dict[str, object]:
    """Configuration of the fleet process."""
    settings = world.settings
    each = settings.light_devices // len(GROUPS)
    return {
        "state_dir": str(world.folder / "fleet"),
        "factory_bundle": str(world.factory),
        "platform_url": world.base_url,
        "enrolment_token": world.enrolment_token,
        "status_file": str(world.folder / "fleet.json"),
        "seed": settings.seed,
        "frames_per_day": settings.frames_per_day,
        "upscale_every": 4,
        "sync_s": 4.0,
        "stay_frames": 4,
        "stride": 2,
        **_habits(settings),
        "groups": [
            {
                "name": group.name,
                "count": each,
                "tags": group.tags,
                "schedule": schedule(world, group),
                "faults": world.faults(group),
            }
            for group in GROUPS
        ],
    }


def agent_config(world: World, name: str, group: Group, number: int) -> dict[str, object]:
    """Configuration of one full agent."""
    settings = world.settings
    source = world.folder / f"{name}.schedule.json"
    source.write_text(json.dumps(schedule(world, group), indent=1))
    return {
        "state_dir": str(world.folder / name),
        "factory_bundle": str(world.factory),
        "platform_url": world.base_url,
        "enrolment_token": world.enrolment_token,
        "source": str(source),
        "loop": True,
        "output": str(world.folder / f"{name}.mp4"),
        "output_piece_frames": 250,
        "tags": group.tags,
        "fps": settings.full_fps,
        "sync_s": 4.0,
        "seed": 10_000 + number,
        "faults": world.faults(group),
        **_habits(settings),
    }


def schedule(world: World, group: Group) -> dict[str, object]:
    """A group's surroundings over simulated time."""
    entries: list[dict[str, object]] = [{"from": 0, "paths": [str(p) for p in world.scene.paths(NORMAL)]}]
    if group.changes:
        entries.append({"from": world.change_at, "paths": [str(p) for p in world.scene.paths(HARD)]})
    return {"entries": entries}


def _habits(settings: DemoSettings) -> dict[str, object]:
    return {
        # a device of the demo is in one long call, and its talks with the platform are spread already
        "drift": {"minimum_frames": settings.min_report_frames, "minimum_sessions": 1, "spread_hours": 0.0},
        "trial": {"frames": settings.trial_frames, "misses": 3, "driver_errors": 2},
        "health": {"frames": 8, "seconds": 4 * 3_600.0},
        "hard": {"rearm_s": 12 * 3_600.0, "per_day": 2.0, "burst": 2.0},
    }
