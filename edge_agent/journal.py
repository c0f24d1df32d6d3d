"""What the device tells the platform about its bundles, numbered across restarts.

Notes and health reports wait in memory until `write` makes messages of them and puts them into the outbox: a frame
waits neither for the disk nor for arithmetic.
The platform hears of roll backs and of ends out of order from the slot record itself (`tell`, `tell_fall`), under ids
that stay the same, so a power cut between record and message costs neither cause nor crash and makes no second event.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from contracts.wire import Cause, HealthReport, InstallEvent, InstallStage
from edge_agent.limits import LIMITS
from edge_agent.observers.health import HealthWindow
from edge_agent.outbox import Kind, Outbox
from edge_agent.slots import Fall, RollBack

PER_START = 1_000_000


@dataclass(frozen=True)
class Note:
    """One step of one bundle."""

    digest: str
    stage: InstallStage
    cause: Cause = Cause.NONE
    detail: str = ""


class Journal:
    """Numbers and stores notes and health reports. `starts` is how often this device started, `secret` makes ids that
    no other device has.
    """

    def __init__(self, outbox: Outbox, starts: int, secret: str = "") -> None:
        self._outbox, self._secret = outbox, secret
        self._numbers = count(starts * PER_START)
        self._waiting: deque[tuple[Kind, Callable[[], bytes]]] = deque(maxlen=LIMITS.notes_waiting)
        self._writing = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many messages are not in the outbox yet."""
        return len(self._waiting)

    def note(self, note: Note) -> None:
        """Take an installation step."""
        number = next(self._numbers)
        self._waiting.append((Kind.INSTALL, lambda: _event(note, uuid.uuid4().hex, number)))

    def health(self, window: HealthWindow, digest: str, state: str) -> None:
        """Take the health of a window that has ended; an empty one says nothing."""
        if not window.frames:
            return
        number = next(self._numbers)
        self._waiting.append((Kind.HEALTH, lambda: window.report(digest, number, state).model_dump_json().encode()))

    def tell(self, entry: RollBack) -> bool:
        """Put a roll back or a refusal into the outbox now; False when it could not be stored."""
        stage = InstallStage.ROLLED_BACK if entry.ran else InstallStage.REFUSED
        note = Note(entry.digest, stage, Cause(entry.cause), entry.detail)
        body = _event(note, _event_id(entry), next(self._numbers))
        return self._outbox.put(Kind.INSTALL, body)

    def tell_fall(self, fall: Fall, digest: str) -> bool:
        """Put an end out of order into the outbox now, as a window of the one frame that never came out; False when it
        could not be stored. `digest` names the bundle that ran.
        """
        identifier = hashlib.sha256(f"fall/{self._secret}/{fall.number}/{digest}".encode()).hexdigest()[:32]
        report = HealthReport(
            report_id=identifier, digest=digest, sequence=next(self._numbers), frames=1, upscaled=0, crashes=1
        )
        return self._outbox.put(Kind.HEALTH, report.model_dump_json().encode())

    def write(self) -> None:
        """Put what waits into the outbox."""
        with self._writing:
            while self._waiting:
                kind, made = self._waiting.popleft()
                self._outbox.put(kind, made())


def _event(note: Note, event_id: str, number: int) -> bytes:
    event = InstallEvent(
        event_id=event_id,
        digest=note.digest,
        stage=note.stage,
        cause=note.cause,
        detail=note.detail[:200],
        sequence=number,
    )
    return event.model_dump_json().encode()


def _event_id(entry: RollBack) -> str:
    facts = f"{entry.number}/{entry.digest}/{entry.offer}/{entry.cause}"
    return hashlib.sha256(facts.encode()).hexdigest()[:32]
