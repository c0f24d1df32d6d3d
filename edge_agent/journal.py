"""What the device tells the platform about its bundles: written to the outbox, numbered across restarts."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from itertools import count

from contracts.wire import Cause, InstallEvent, InstallStage
from edge_agent.observers.health import HealthWindow
from edge_agent.outbox import Kind, Outbox

PER_START = 1_000_000


@dataclass(frozen=True)
class Note:
    """One step of one bundle."""

    digest: str
    stage: InstallStage
    cause: Cause = Cause.NONE
    detail: str = ""


class Journal:
    """Numbers and stores notes and health reports. `starts` is how often this device started."""

    def __init__(self, outbox: Outbox, starts: int) -> None:
        self._outbox = outbox
        self._numbers = count(starts * PER_START)

    def note(self, note: Note) -> None:
        """Store an installation step."""
        event = InstallEvent(
            event_id=uuid.uuid4().hex,
            digest=note.digest,
            stage=note.stage,
            cause=note.cause,
            detail=note.detail[:200],
            sequence=next(self._numbers),
        )
        self._outbox.put(Kind.INSTALL, event.model_dump_json().encode())

    def health(self, window: HealthWindow, digest: str, state: str) -> None:
        """Store the health of a window and begin the next; an empty window says nothing."""
        if window.frames:
            report = window.report(digest, next(self._numbers), state)
            self._outbox.put(Kind.HEALTH, report.model_dump_json().encode())
