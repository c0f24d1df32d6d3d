"""From an operator's call until 99 % of 10,000 polling devices obeyed, over the real API on loopback.

One device in twenty really downloads, tries and reports the new bundle. The others begin with both bundles in their
slots, since downloading is not what is measured here. All poll every 30 s, the life of the document in caches.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from benchmarks.serving.devices import add_devices, operator_token, state_key
from benchmarks.serving.platform import BenchPlatform, running_platform
from contracts.bundle import write_bundle
from contracts.state import public_key
from edge_agent.simulated.device import LightDevice, Surroundings, Ticket
from edge_agent.simulated.http import LightClient
from edge_agent.simulated.repository import SharedDocuments, SharedTargets
from edge_agent.simulated.run import LightFleet, Rhythm
from edgeloop.figures import Figure, at_most, exactly

DEVICES, SHARE, LIMIT_S = 10_000, 0.99, 60.0
REALLY_INSTALL = 5  # percent of the devices
RHYTHM = Rhythm(poll_s=30.0, jitter=0.1)
PROGRAM_BYTES = 48 * 1024
PATIENCE_S = 90.0
Tell = Callable[[float, str], None]


def figures(tell: Tell, devices: int = DEVICES, rhythm: Rhythm = RHYTHM) -> list[Figure]:
    """All figures of stopping."""
    tell(0.0, "starting PostgreSQL, Redis and a server")
    with running_platform() as platform, httpx.Client(base_url=f"{platform.url}/releases", timeout=60) as http:
        operator = _Operator(http)
        old, new = operator.bundle("1.0.0"), operator.bundle("2.0.0")
        tell(0.1, f"{devices} devices")
        tickets = add_devices(devices, old)
        operator.release(old, [10_000])
        rollout = operator.release(new, [10_000])
        return asyncio.run(_measure(platform, operator, tickets, (old, new, rollout), rhythm, tell))


async def _measure(
    platform: BenchPlatform,
    operator: _Operator,
    tickets: list[Ticket],
    names: tuple[str, str, str],
    rhythm: Rhythm,
    tell: Tell,
) -> list[Figure]:
    old, new, rollout = names
    client, mail = LightClient(platform.url, connections=128), LightClient(platform.url, connections=128)
    around = Surroundings(
        client, mail, SharedDocuments(public_key(state_key())), SharedTargets(client), {}, Counter(), health_every=0
    )
    fleet = LightFleet([LightDevice(ticket, around) for ticket in tickets], rhythm)
    really = max(len(tickets) * REALLY_INSTALL // 100, 1)
    waves = LightFleet(fleet.devices[:really], rhythm), LightFleet(fleet.devices[really:], rhythm, seed=1)

    async def wait(text: str, begun: float, whose: LightFleet, reached: Callable[[LightDevice], bool]) -> float:
        return await whose.until(reached, SHARE, PATIENCE_S, lambda there: tell(begun, f"{text}: {there:.1%}"))

    waves[0].start()
    installed = await wait("really installing", 0.2, waves[0], lambda one: one.running == new)
    for one in waves[1].devices:
        one.files, one.running = {old, new}, new
    waves[1].start()
    await wait("first polls", 0.3, fleet, lambda one: one.state is not None)
    state = await asyncio.to_thread(operator.pause, rollout)
    call = asyncio.to_thread(operator.act, rollout, "rollback")
    _, back = await asyncio.gather(call, wait("roll back", 0.4, fleet, lambda one: one.running == old))
    call = asyncio.to_thread(operator.kill, True)
    _, stopped = await asyncio.gather(call, wait("kill switch", 0.6, fleet, lambda one: one.stopped))
    call = asyncio.to_thread(operator.kill, False)
    _, lifted = await asyncio.gather(call, wait("lifting it", 0.8, fleet, lambda one: not one.stopped))
    told = back + stopped + lifted + await wait("reports", 0.9, fleet, lambda one: not one.pending)
    await asyncio.gather(*(wave.stop() for wave in waves))
    await client.close()
    await mail.close()
    counted = around.counters
    errors = sum(counted[name] for name in ("Unreachable", "TrustError", "StateError", "UnknownSigner"))
    unit = f"s until {SHARE:.0%} of {len(tickets)} devices, polls every {rhythm.poll_s:g} s"
    return [
        Figure("stop.really_installed", round(installed, 1), f"s, {really} devices by download", "printed", True),
        at_most("stop.rolled_back", round(back, 1), unit, LIMIT_S),
        at_most("stop.killed", round(stopped, 1), unit, LIMIT_S),
        at_most("stop.allowed_again", round(lifted, 1), unit, LIMIT_S),
        exactly("stop.state_before_the_call", state, "", "paused"),
        exactly("stop.failed_turns", errors, f"of {counted['polls']} polls", 0),
        Figure("stop.reports", counted["feedback"], "batches taken in meanwhile", "printed", True),
        Figure("stop.reported", round(told, 1), f"s until {SHARE:.0%} had told that they went back", "printed", True),
    ]


class _Operator:
    """An operator's calls."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._headers = {"Authorization": f"Bearer {operator_token()}"}

    def bundle(self, version: str) -> str:
        """Register a new bundle; returns its digest."""
        with tempfile.TemporaryDirectory() as folder:
            path, build_id = Path(folder) / "new.elb", os.urandom(16)
            program = bytes(24) + build_id + os.urandom(PROGRAM_BYTES)
            pieces = {f"{name}/model.npu": program for name in ("npu-2t", "npu-4t")}
            write_bundle(path, pieces, build_id=build_id, release_version=version, security_epoch=1)
            headers = {**self._headers, "Content-Type": "application/octet-stream"}
            answer = self._http.post("/v1/bundles/uploads", content=path.read_bytes(), headers=headers)
        return str(_ok(answer)["digest"])

    def release(self, digest: str, stages: list[int]) -> str:
        """Start a rollout; returns its id."""
        body = {"digest": digest, "stages": stages, "auto_start": True, "soak_s": 3_600.0}
        return str(_ok(self._http.post("/v1/rollouts", json=body, headers=self._headers))["id"])

    def act(self, rollout: str, action: str) -> None:
        """Pause or roll back."""
        path = f"/v1/rollouts/{rollout}/{action}"
        _ok(self._http.post(path, json={"reason": "bench"}, headers=self._headers))

    def pause(self, rollout: str) -> str:
        """Pause; returns the state after it."""
        self.act(rollout, "pause")
        return str(_ok(self._http.get(f"/v1/rollouts/{rollout}", headers=self._headers))["state"])

    def kill(self, killed: bool) -> None:
        """Stop the fleet, or let it go on."""
        _ok(self._http.post("/v1/kill-switch", json={"killed": killed, "reason": "bench"}, headers=self._headers))


def _ok(answer: httpx.Response) -> Any:  # Any: JSON
    if answer.is_error:
        raise RuntimeError(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json()
