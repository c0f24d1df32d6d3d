"""One light device: polls, downloads by range, tries, confirms or falls back, reports, obeys.

Invariants: it runs a bundle only after its bytes hashed right and its trial passed, or the one it ran before; a
document older than the newest it saw is not obeyed; while the platform does not answer, the last document holds.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from contracts.device import DeviceTags
from contracts.state import DeviceState, StateError, Target, UnknownSigner, choose_target
from edge_agent.errors import PlatformError, TrustError, Unreachable
from edge_agent.simulated.http import LightClient, Reply
from edge_agent.simulated.repository import SharedDocuments, SharedTargets
from edge_agent.simulated.scenario import GOOD, Behaviour, Character, measured

STATE_PATH = "/releases/v1/state"
FEEDBACK_PATH = "/releases/v1/feedback"
SIMULATED = "simulated"
"""What light devices say for the version of their agent."""
DOWNLOAD_TRIES = 6
PENDING_MOST = 64
Json = dict[str, Any]  # Any: JSON


@dataclass(frozen=True)
class Ticket:
    """A device's identity: what enrolment gave it, and what it runs from the factory."""

    device_id: str
    token: str
    tags: DeviceTags
    running: str = ""


@dataclass(frozen=True)
class Surroundings:
    """What the devices of one process share. `behaviours` by bundle digest; others are good.

    A window of health goes out with every `health_every`-th turn, never for 0; steps of an installation always do.
    Reports have connections of their own in `mail`: of real devices, none looks later because another one's report
    waits for an answer.
    """

    client: LightClient
    mail: LightClient
    documents: SharedDocuments
    targets: SharedTargets
    behaviours: dict[str, Behaviour]
    counters: Counter[str]
    seed: int = 0
    clock: Callable[[], float] = time.monotonic
    health_every: int = 1
    range_bytes: int = 32 * 1024


@dataclass
class LightDevice:
    """A device of the fleet. `running` is what it runs, `stopped` whether a kill switch holds it."""

    ticket: Ticket
    around: Surroundings
    running: str = ""
    previous: str = ""
    stopped: bool = False
    state: DeviceState | None = None
    etag: str = ""
    sequence: int = 0
    turns: int = 0
    refused: set[str] = field(default_factory=set)
    changed_at: float = 0.0
    pending: list[Json] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    sending: bool = False

    def __post_init__(self) -> None:
        self.running = self.running or self.ticket.running
        self._draw = random.Random(f"{self.around.seed}/{self.ticket.device_id}/reports")

    async def turn(self) -> None:
        """One poll and whatever follows from it, reports too. Never raises for what the platform does."""
        await self.look()
        await self.report()

    async def look(self) -> None:
        """One poll, and what the document asks for."""
        try:
            await self._poll()
            await self._follow()
        except (PlatformError, StateError) as error:
            self.around.counters[type(error).__name__] += 1

    async def report(self) -> None:
        """Send what waits; nothing while an earlier report is still on its way."""
        if self.sending:
            return
        self.sending = True
        try:
            await self._report()
        except PlatformError as error:
            self.around.counters[type(error).__name__] += 1
        finally:
            self.sending = False

    async def _poll(self) -> None:
        headers = self._headers({"If-None-Match": self.etag} if self.etag else {})
        reply = await self.around.client.request("GET", STATE_PATH, headers)
        self.around.counters["polls"] += 1
        if reply.status == 304:
            self.around.counters["unchanged"] += 1
            return
        if reply.status != 200:
            raise Unreachable(f"state document: status {reply.status}")
        found = await self._judged(reply.body)
        if self.state is not None and found.epoch < self.state.epoch:
            self.around.counters["older_documents"] += 1
            return
        self.state, self.etag = found, reply.headers.get("etag", "")

    async def _judged(self, document: bytes) -> DeviceState:
        """The document, by the keys that count; a signature by none of them asks for the newest list of keys."""
        try:
            return self.around.documents.state(document)
        except UnknownSigner:
            async with self.around.documents.learning:  # one device asks for all of the process
                if not self.around.documents.knows_signer(document):
                    self.around.documents.believe(await self.around.targets.state_keys(self._headers({})))
            return self.around.documents.state(document)

    async def _follow(self) -> None:
        """Do what the document says: stop, stay, change over, or return."""
        if self.state is None:
            return
        if self.state.killed != self.stopped:
            self.stopped, self.changed_at = self.state.killed, self.around.clock()
        if self.stopped:
            return
        target = choose_target(self.state, self.ticket.device_id, self.ticket.tags, SIMULATED)
        if target is None or target.digest == self.running or target.digest in self.refused:
            return
        if target.digest in self.files:  # it lies in the other slot: no download
            self._event(self.running, "rolled_back", "withdrawn")
            self._change(target.digest)
            return
        await self._install(target)

    async def _install(self, target: Target) -> None:
        behaviour = self._behaviour(target.digest)
        character = self._character(behaviour, target.digest)
        data = await self._download(target, behaviour)
        if data is None or character.tampered:
            self.refused.add(target.digest)
            self._event(target.digest, "refused", "damaged")
            return
        self._event(target.digest, "trial")
        if character.fails_trial:
            self.refused.add(target.digest)
            self._event(target.digest, "rolled_back", "driver_errors")
            return
        self.files |= {self.running, target.digest} - {""}
        self._change(target.digest)
        self._event(target.digest, "confirmed")

    def _change(self, digest: str) -> None:
        self.previous, self.running, self.changed_at = self.running, digest, self.around.clock()

    async def _download(self, target: Target, behaviour: Behaviour) -> bytes | None:
        """The bytes, range by range; a cut connection goes on where it was. None when they hash wrong."""
        file = await self.around.targets.find(target.path)
        data, tries = bytearray(), 0
        while len(data) < file.length:
            last = min(len(data) + self.around.range_bytes, file.length) - 1
            headers = self._headers({"Range": f"bytes={len(data)}-{last}"})
            reply = await self.around.client.request("GET", file.url, headers)
            self.around.counters["ranges"] += 1
            tries += 1
            if self._draw.random() < behaviour.cut_downloads and tries < DOWNLOAD_TRIES:
                data += reply.body[: len(reply.body) // 2]  # the connection broke half way
                self.around.counters["cut"] += 1
                continue
            if reply.status not in (200, 206):
                raise Unreachable(f"target {target.path}: status {reply.status}")
            data += reply.body
        self.around.counters["bytes"] += len(data)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise TrustError(f"target {target.path} hashes wrong")
        return bytes(data)

    async def _report(self) -> None:
        """Send what is waiting and one window of health; what is not accepted waits for the next turn."""
        self.turns += 1
        due = self.around.health_every and self.turns % self.around.health_every == 0
        health = self._health() if due and self.running and not self.stopped else []
        if not health and not self.pending:
            return
        lies = self.state is not None and self._character(self._behaviour(self.running), self.running).lies
        told = self.pending
        body = {
            "tags": self.ticket.tags.model_dump(),
            "running_digest": self.previous if lies and self.previous else self.running,
            "state_epoch": self.state.epoch if self.state else 0,
            "installs": told,
            "health": health,
        }
        sent = json.dumps(body).encode()
        reply = await self._send(sent)
        if reply.status != 202:
            self.around.counters[f"feedback_{reply.status}"] += 1
            return
        self.around.counters["feedback"] += 1
        self.pending = [event for event in self.pending if event not in told]
        if self._draw.random() < self._behaviour(self.running).repeats_feedback:
            await self._send(sent)
            self.around.counters["repeated"] += 1

    async def _send(self, body: bytes) -> Reply:
        headers = self._headers({"Content-Type": "application/json"})
        return await self.around.mail.request("POST", FEEDBACK_PATH, headers, body)

    def _health(self) -> list[Json]:
        behaviour = self._behaviour(self.running)
        character = self._character(behaviour, self.running)
        if character.silent:
            return []
        self.sequence += 1
        name = f"h{self.sequence}"
        numbers = measured(behaviour, character, self._draw)
        return [{"report_id": name, "digest": self.running, "sequence": self.sequence, **numbers}]

    def _event(self, digest: str, stage: str, cause: str = "none") -> None:
        self.sequence += 1
        self.around.counters[stage] += 1
        event = {"event_id": f"e{self.sequence}", "digest": digest, "stage": stage, "cause": cause}
        self.pending = [*self.pending, {**event, "sequence": self.sequence}][-PENDING_MOST:]

    def _behaviour(self, digest: str) -> Behaviour:
        found = self.around.behaviours.get(digest, GOOD)
        return GOOD if found.only_class and found.only_class != self.ticket.tags.device_class else found

    def _character(self, behaviour: Behaviour, digest: str) -> Character:
        return Character.of(behaviour, self.ticket.device_id, digest, self.around.seed)

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.ticket.token}", **more}
