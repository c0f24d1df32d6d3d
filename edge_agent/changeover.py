"""Which bundle plays: the first one at a start, a prepared change between two frames, the end of a trial.

Belongs to the frame loop. Invariants: what plays and what the slots say differ only while the disk refuses to be
written, and then the decision is owed and written as soon as it can be; a change that was prepared for another
situation is dropped, never applied.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from contracts.clock import Clock
from contracts.wire import Cause, InstallStage
from edge_agent.bundles import UNUSABLE, Bundles
from edge_agent.errors import SlotError
from edge_agent.journal import Journal, Note
from edge_agent.observers.health import Played, Verdict
from edge_agent.playback import Playback
from edge_agent.slot_store import SlotStore
from edge_agent.slots import Slots, confirm, count_end, count_start, roll_back
from edge_agent.trial import TrialWatch
from edge_agent.update import Change

log = logging.getLogger(__name__)
Transition = Callable[[Slots], Slots]


class Changeover:
    """Owns what plays. `before_change` is called while the old bundle still plays."""

    def __init__(
        self,
        slots: SlotStore,
        bundles: Bundles,
        journal: Journal,
        trial: TrialWatch,
        clock: Clock,
        before_change: Callable[[float], None],
    ) -> None:
        self._slots, self._bundles, self._journal = slots, bundles, journal
        self._trial, self._clock, self._before_change = trial, clock, before_change
        self._fallback: Playback | None = None
        self._owed: Transition | None = None
        self.confirmed = 0
        self.rolled_back = 0
        self.causes: Counter[str] = Counter()
        self.last_cause = ""
        self.last_error = ""
        self.playback = self._start()

    @property
    def slots(self) -> Slots:
        return self._slots.slots

    @property
    def on_trial(self) -> bool:
        return self._trial.running

    @property
    def owes(self) -> bool:
        """True while a decision waits for the disk."""
        return self._owed is not None

    def take(self, change: Change) -> None:
        """Carry out a prepared change; one that does not fit any more, or that the disk refuses, is dropped."""
        if self.slots.running.digest != change.leaves or self.owes:
            return
        try:
            self._slots.apply(change.transition)
        except (OSError, SlotError) as error:
            self.last_error = f"change of bundle put off: {error}"[:200]
            return
        now = self._clock.now()
        self._before_change(now)
        self._fallback = self.playback if change.trial else None
        self.playback = change.playback
        self._trial.begin(now) if change.trial else self._trial.end()
        for note in change.notes:
            self._journal.note(note)
            if note.stage is InstallStage.ROLLED_BACK:
                self._count(note.cause)

    def watch(self, played: Played, now: float) -> None:
        """Count a frame of the bundle on trial; end the trial when it is decided."""
        if not self._trial.running:
            return
        verdict = self._trial.add(played, now)
        if not verdict.done:
            return
        self._trial.end()
        self._before_change(now)
        if verdict.cause is Cause.NONE:
            self._confirm()
        else:
            self._roll_back(verdict)

    def settle(self) -> None:
        """Write what the disk refused before."""
        owed = self._owed
        if owed is None:
            return
        try:
            self._slots.apply(owed)
        except OSError:
            return
        except SlotError:
            log.warning("an owed change of the slots is no longer possible")
        self._owed = None

    def end(self) -> None:
        """An orderly end of the process."""
        self._commit(count_end)

    def _start(self) -> Playback:
        """Decide what plays first; a bundle that cannot be used any more is left for the one before it."""
        before = self.slots
        after = self._commit(count_start)
        if before.on_trial and not after.on_trial:
            self._tell(before.running.digest, Cause.CRASH, "too many starts without a confirmation")
        playback = self._usable()
        if self.slots.on_trial and playback.digest == self.slots.running.digest:
            self._trial.begin(self._clock.now())
        return playback

    def _usable(self) -> Playback:
        for _ in range(2):
            try:
                return self._bundles.for_slots(self.slots)
            except UNUSABLE as error:
                digest, detail = self.slots.running.digest, str(error)
                self._commit(partial(roll_back, cause=Cause.DAMAGED, detail=detail))
                self._tell(digest, Cause.DAMAGED, detail)
        return self._bundles.built_in

    def _confirm(self) -> None:
        self._commit(confirm)
        self._fallback = None
        self.confirmed += 1
        self._journal.note(Note(self.playback.digest, InstallStage.CONFIRMED))

    def _roll_back(self, verdict: Verdict) -> None:
        digest = self.playback.digest
        self.playback = self._before_trial(roll_back(self.slots, verdict.cause))
        self._fallback = None
        self._commit(partial(roll_back, cause=verdict.cause, detail=verdict.detail))
        self._tell(digest, verdict.cause, verdict.detail)

    def _before_trial(self, after: Slots) -> Playback:
        """Return what plays after a roll back: from memory, or from disk when the process was restarted."""
        if not after.active:
            return self._bundles.built_in
        if self._fallback is not None and self._fallback.digest == after.running.digest:
            return self._fallback
        try:
            return self._bundles.for_slots(after)
        except UNUSABLE as error:
            log.warning("the bundle before is not usable (%s); the built-in one plays", error)
            return self._bundles.built_in

    def _tell(self, digest: str, cause: Cause, detail: str) -> None:
        log.warning("bundle %s rolled back (%s): %s", digest[:12], cause.value, detail)
        self._count(cause)
        self._journal.note(Note(digest, InstallStage.ROLLED_BACK, cause, detail))

    def _count(self, cause: Cause) -> None:
        self.rolled_back += 1
        self.last_cause = cause.value
        self.causes[cause.value] += 1

    def _commit(self, transition: Transition) -> Slots:
        """Make a decision durable; when the disk refuses, it is owed."""
        try:
            return self._slots.apply(transition)
        except OSError as error:
            self._owed = transition
            self.last_error = f"slot record not written: {error}"[:200]
            return self.slots
