"""The device's side of the platform: the signed state document and the outbox's way out.

Only `sync` uses this, never the frame loop. The last accepted document is kept on disk and stays in force
while the platform is away: a killed device stays killed, a floor stays a floor. An older epoch is refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ValidationError

from contracts.device import DeviceTags
from contracts.state import MAX_DOCUMENT_BYTES, DeviceState, StateError, UnknownSigner, verify_state
from contracts.wire import FeedbackBatch, HealthReport, InstallEvent, InstallStage
from contracts.wire.base import Message
from contracts.wire.limits import LIMITS as WIRE
from edge_agent import __version__
from edge_agent.disk import Disk
from edge_agent.errors import Refused, Throttled, TrustError
from edge_agent.outbox import Entry, Kind, Outbox
from edge_agent.state_keys import StateKeys
from edge_agent.transport import Transport

log = logging.getLogger(__name__)
STATE_FILE = "state.json"
STATE_ROUTE = "/releases/v1/state"
FEEDBACK_ROUTE = "/releases/v1/feedback"
REPORTS_ROUTE = "/telemetry/v1/reports"
SEGMENTS_ROUTE = "/telemetry/v1/segments"
OCTETS = "application/octet-stream"
MALFORMED = (400, 409, 410, 413, 415, 422)
M = TypeVar("M", bound=Message)
Installs = Sequence[tuple[Entry, InstallEvent]]
Healths = Sequence[tuple[Entry, HealthReport]]
EMPTY = DeviceState(epoch=0, issued=0, expires=0)


@dataclass(frozen=True)
class Document:
    """A fetched state document and its ETag."""

    body: bytes
    etag: str


class StateFeed(Protocol):
    """Where the state document comes from; devices of one process may share one."""

    def fetch(self, known_etag: str) -> Document | None:
        """Return the document, or None when it did not change. Raises PlatformError."""


class HttpStateFeed:
    """Asks the platform, with the ETag of the last answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def fetch(self, known_etag: str) -> Document | None:
        answer = self._transport.get(STATE_ROUTE, known_etag)
        return None if answer.status == 304 else Document(answer.body, answer.headers.get("ETag", ""))


class StateKeeper:
    """Holds the last accepted document, in memory and on disk. `key` is that of the identity; `keys` learn others."""

    def __init__(
        self,
        folder: Path,
        feed: StateFeed,
        key: str,
        disk: Disk,
        real_now: Callable[[], float] = time.time,
        keys: StateKeys | None = None,
    ) -> None:
        self._path, self._feed, self._disk, self._now = folder / STATE_FILE, feed, disk, real_now
        self._keys = keys or StateKeys(folder, key, disk, None, real_now)
        self._etag, self._body = "", b""
        self.state = self._stored()
        self.refused = 0

    @property
    def known(self) -> bool:
        """True when a document was ever accepted."""
        return self.state is not EMPTY

    def poll(self) -> DeviceState:
        """Fetch, check and keep. Raises TrustError when the document is not to be obeyed; the last one
        stays.
        """
        document = self._feed.fetch(self._etag)
        if self._keys.due and self._keys.refresh() and self._floor() < self.state.epoch:
            self._etag = ""  # what is in force was forged; the next poll asks for the whole document
        if document is None:
            return self.state
        try:
            state = self._judged(document.body)
        except StateError as error:
            self.refused += 1
            raise TrustError(f"state document refused: {error}; epoch {self.state.epoch} stays in force") from error
        if state.epoch != self.state.epoch or not self._path.exists():
            self._disk.replace(self._path, document.body)
        self.state, self._etag, self._body = state, document.etag, document.body
        return state

    def _judged(self, body: bytes) -> DeviceState:
        """The document, by the keys that count now; a signature by none of them asks for the newest list of keys."""
        self._keys.demand_fresh()
        try:
            return verify_state(body, self._keys.trusted(), self._floor(), self._now())
        except UnknownSigner:
            if not self._keys.refresh():
                raise
            return verify_state(body, self._keys.trusted(), self._floor(), self._now())

    def _floor(self) -> int:
        """The lowest epoch that is accepted: that of the document in force, unless a key signed it after its end."""
        for key, last_epoch in self._keys.ended():
            if (
                self.state.epoch > last_epoch
                and _holds(self._body, key)
                and not _holds(self._body, *self._keys.trusted())
            ):
                return last_epoch
        return self.state.epoch

    def _stored(self) -> DeviceState:
        try:
            body = self._disk.read(self._path, MAX_DOCUMENT_BYTES + 1)
            state = verify_state(body, self._keys.known(), 0)
            self._body = body
            return state
        except FileNotFoundError:
            return EMPTY
        except (OSError, StateError) as error:
            log.warning("the stored state document is not usable (%s); waiting for a new one", error)
            return EMPTY


def _holds(body: bytes, *keys: Ed25519PublicKey) -> bool:
    """Whether one of these keys signed the document."""
    try:
        verify_state(body, keys, 0)
    except StateError:
        return False
    return True


@dataclass(frozen=True)
class Standing:
    """What a device says of itself with every batch."""

    tags: DeviceTags
    running_digest: str
    slot_stage: InstallStage
    state_epoch: int


@dataclass
class Sent:
    """Counts of what the platform took and what it refused for good."""

    batches: int = 0
    reports: int = 0
    segments: int = 0
    installs: int = 0
    health: int = 0
    refused: int = 0
    throttled_until: float = field(default=0.0, repr=False)


class Mail:
    """Carries the outbox to the platform, most important first, some messages a turn."""

    def __init__(
        self,
        outbox: Outbox,
        transport: Transport,
        most: int = 16,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox, self._transport, self._most, self._monotonic = outbox, transport, most, monotonic
        self.sent = Sent()

    def drain(self, standing: Standing) -> bool:
        """Send what waits; True when nothing is left. Raises PlatformError; unsent messages stay."""
        if self._monotonic() < self.sent.throttled_until:
            return False
        try:
            self._feedback(standing)
            self._singles(Kind.REPORT, REPORTS_ROUTE, OCTETS)
            self._singles(Kind.SEGMENT, SEGMENTS_ROUTE, "application/json")
        except Throttled as error:
            self.sent.throttled_until = self._monotonic() + error.retry_after
            return False
        return len(self._outbox) == 0

    def _feedback(self, standing: Standing) -> None:
        while True:
            installs = self._waiting(Kind.INSTALL, InstallEvent)
            health = self._waiting(Kind.HEALTH, HealthReport)
            if not installs and not health:
                return
            self._send_batch(standing, installs, health)

    def _waiting(self, kind: Kind, message: type[M]) -> list[tuple[Entry, M]]:
        """Return the oldest messages of a kind; one that another version of the agent wrote in a form
        unknown here is dropped.
        """
        found = []
        for entry, body in self._outbox.peek(kind, WIRE.feedback_items):
            try:
                found.append((entry, message.model_validate_json(body)))
            except ValidationError:
                self._outbox.drop(entry)
        return found

    def _send_batch(self, standing: Standing, installs: Installs, health: Healths) -> None:
        batch = FeedbackBatch(
            tags=standing.tags,
            running_digest=standing.running_digest,
            slot_stage=standing.slot_stage,
            state_epoch=standing.state_epoch,
            agent_version=__version__,
            installs=tuple(event for _, event in installs),
            health=tuple(report for _, report in health),
        )
        entries = [*(entry for entry, _ in installs), *(entry for entry, _ in health)]
        try:
            self._transport.post(FEEDBACK_ROUTE, batch.model_dump_json().encode())
        except Refused as error:
            if error.status not in MALFORMED:
                raise
            self._refused(standing, installs, health, error)
            return
        for entry in entries:
            self._outbox.done(entry)
        self.sent.batches += 1
        self.sent.installs += len(installs)
        self.sent.health += len(health)

    def _refused(self, standing: Standing, installs: Installs, health: Healths, error: Refused) -> None:
        """Find the message that the platform will never take: one by one, the rest gets through."""
        if len(installs) + len(health) > 1:
            for event in installs:
                self._send_batch(standing, [event], [])
            for report in health:
                self._send_batch(standing, [], [report])
            return
        log.warning("the platform refuses a message for good: %s", error)
        self.sent.refused += 1
        for entry in (*(entry for entry, _ in installs), *(entry for entry, _ in health)):
            self._outbox.drop(entry)

    def _singles(self, kind: Kind, route: str, media: str) -> None:
        for entry, body in self._outbox.peek(kind, self._most):
            try:
                self._transport.post(route, body, media)
            except Refused as error:
                if error.status not in MALFORMED:
                    raise
                log.warning("the platform refuses a %s for good: %s", kind.name.lower(), error)
                self.sent.refused += 1
                self._outbox.drop(entry)
                continue
            self._outbox.done(entry)
            if kind is Kind.REPORT:
                self.sent.reports += 1
            else:
                self.sent.segments += 1
