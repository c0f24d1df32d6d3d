"""The whole composition from nothing to a finished loop, with or without kills."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.prove.composition import Composition, Service
from deploy.prove.engine import PREFIX, Addresses, Engine, EngineError, arguments, until
from deploy.prove.killing import Kill, Killer, phase_of
from deploy.prove.ledger import Ledger, rows

JOB_S, HEALTHY_S, LOOP_S, SETTLE_S = 300.0, 300.0, 3_600.0, 120.0
LOOK_S, LEDGER_S = 2.0, 20.0
ENDED = "loop finished"

Say = Callable[[str], None]


@dataclass
class Outcome:
    """What happened. `lost` and `not_passed_on` count acknowledged reports."""

    seconds_up: float = 0.0
    seconds_loop: float = 0.0
    exit_code: int = -1
    users: dict[str, int] = field(default_factory=dict)
    kills: list[Kill] = field(default_factory=list)
    acknowledged: int = 0
    unanswered: int = 0
    refused: dict[int, int] = field(default_factory=dict)
    lost: int = -1
    not_passed_on: int = -1
    fleet: dict[str, Any] = field(default_factory=dict)  # Any: JSON
    rows: dict[str, int] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)  # Any: JSON


def bring_up(engine: Engine, composition: Composition, say: Say) -> float:
    """Networks, volumes, then every service when what it depends on is there. Returns seconds. Raises EngineError."""
    began = time.monotonic()
    addresses = Addresses(composition)
    for name, internal in composition.networks.items():
        words = ["network", "create", "--disable-dns", "--subnet", addresses.subnet(name)]
        engine.podman(*words, *(["--internal"] if internal else []), f"{PREFIX}-{name}")
    for service in composition.services:
        for other, condition in service.depends_on.items():
            _wait_for(engine, other, condition)
        engine.podman("run", *arguments(service, composition, addresses))
        say(f"started {service.name}")
    for service in composition.services:
        if not service.is_job and service.health is not None:
            until(lambda name=service.name: engine.healthy(name), f"{service.name} to be healthy", HEALTHY_S)  # type: ignore[misc]
    return time.monotonic() - began


def _wait_for(engine: Engine, name: str, condition: str) -> None:
    if condition == "service_healthy":
        until(lambda: engine.healthy(name), f"{name} to be healthy", HEALTHY_S)
    elif condition == "service_completed_successfully":
        until(lambda: engine.exit_code(name) is not None, f"{name} to end", JOB_S)
        if engine.exit_code(name) != 0:
            raise EngineError(f"{name} ended with {engine.exit_code(name)}: {engine.logs(name)[-600:]}")


def users(engine: Engine, services: tuple[Service, ...]) -> dict[str, int]:
    """User id of the first process of every running container, as the kernel tells it."""
    found = {}
    for service in services:
        pid = engine.pid(service.name)
        if pid:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found[service.name] = int(next(line for line in lines if line.startswith("Uid:")).split()[1])
    return found


def run_loop(engine: Engine, composition: Composition, kill: bool, say: Say) -> Outcome:
    """Bring it up, follow the container `demo` to its end, count. Raises EngineError."""
    outcome = Outcome()
    killer = Killer(engine, composition, say) if kill else None
    outcome.seconds_up = bring_up(engine, composition, say)
    outcome.users = users(engine, composition.services)
    say(f"all up and healthy after {outcome.seconds_up:.0f} s")
    api = composition.service("api")
    base = f"http://{Addresses(composition).of(api, 'outside')}:8080"
    ledger = Ledger(engine, base, engine.volume("clock") / "clock.json")
    ledger.open()
    began = time.monotonic()
    try:
        _follow(engine, killer, ledger, say, began)
    finally:
        ledger.close()
    outcome.seconds_loop = time.monotonic() - began
    outcome.exit_code = engine.exit_code("demo") or 0
    outcome.kills = killer.done if killer else []
    outcome.acknowledged, outcome.unanswered, outcome.refused = (
        len(ledger.acknowledged), ledger.unanswered, ledger.refused
    )  # fmt: skip
    _count(engine, ledger, outcome)
    return outcome


def _follow(engine: Engine, killer: Killer | None, ledger: Ledger, say: Say, began: float) -> None:
    """Tell new phases of the demo and kill at the moments, until the demo ends."""
    told, looked = "", began
    while engine.exit_code("demo") is None:
        log = engine.logs("demo")
        phase = phase_of(log)
        if phase != told:
            told = phase
            say(f"demo: {phase}")
        if killer is not None:
            killer.step(phase)
        if time.monotonic() - looked > LEDGER_S:
            ledger.look()
            looked = time.monotonic()
        if time.monotonic() - began > LOOP_S:
            raise EngineError(f"the loop took longer than {LOOP_S:.0f} s; last words: {log[-600:]}")
        time.sleep(LOOK_S)
    if killer is not None and not killer.finished:
        say("the loop ended before every service was killed; the rest is killed now")
        while not killer.finished:
            killer.step("report")
            time.sleep(1)


def _count(engine: Engine, ledger: Ledger, outcome: Outcome) -> None:
    """Hold what was acknowledged against the rows, after giving the streams time to drain."""
    sent = set(ledger.acknowledged)
    deadline = time.monotonic() + SETTLE_S
    while True:
        kept = set(rows(engine, "select encode(pseudonym, 'hex') from telemetry.reports"))
        ledger.look()
        if sent <= ledger.taken or time.monotonic() > deadline:
            break
        time.sleep(LOOK_S)
    outcome.lost, outcome.not_passed_on = len(sent - kept), len((sent & kept) - ledger.taken)
    for name, query in {
        "reports": "select count(*) from telemetry.reports",
        "segments": "select count(*) from telemetry.segments",
        "drift alarms": "select count(*) from drift.alarms",
        "devices": "select count(*) from releases.devices",
    }.items():
        outcome.rows[name] = int(rows(engine, query)[0])
    folder = engine.volume("demo")
    status, report = folder / "fleet.json", folder / "report.json"
    outcome.fleet = json.loads(status.read_text()) if status.is_file() else {}
    outcome.report = json.loads(report.read_text()) if report.is_file() else {}


def keep_logs(engine: Engine, composition: Composition, folder: Path) -> None:
    """Write every container's log and the demo's report to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for service in composition.services:
        (folder / f"{service.name}.log").write_text(engine.logs(service.name))
    try:
        demo = engine.volume("demo")
    except EngineError:
        return
    for name in ("report.json", "report.html"):
        if (demo / name).is_file():
            (folder / name).write_bytes((demo / name).read_bytes())
