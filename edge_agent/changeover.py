"""Which bundle plays: the first one at a start, a prepared change between two frames, the end of a trial.

`take`, `watch` and `guard` belong to the frame loop and never wait for the disk: a prepared change is one exchange of
names, a verdict is true in memory at once. `settle` belongs to whoever may wait: it writes what was decided, and then
tells it. Invariants: what plays is what the slots in memory say; a change that was prepared for another situation is
dropped, never applied; a roll back is told after it was written.
"""

from __future__ import annotations

import logging
import threading
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
from edge_agent.slots import (
    Slots,
    confirm,
    count_end,
    count_start,
    forget_falls,
    mark_told,
    roll_back,
    use_built_in,
)
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
        self.owing = threading.Event()
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
        """True while a decision waits for the disk; `owing` is set when one begins to."""
        return self._slots.pending

    def take(self, change: Change) -> None:
        """Carry out a prepared change; one that does not fit any more, or that the disk refuses, is dropped."""
        if self.slots.running.digest != change.leaves:
            return
        known = self.slots.left
        try:
            self._slots.commit(change.prepared)
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
        self._count_since(known)
        self.owing.set()

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

    def guard(self) -> bool:
        """Check the weights that play; changed ones are left for the built-in bundle at once. False when no bundle is
        fit to play.
        """
        if self._bundles.intact(self.playback.digest):
            return True
        now = self._clock.now()
        self._before_change(now)
        self._trial.end()
        self._fallback = None
        if self.slots.active:
            known = self.slots.left
            self._decide(partial(use_built_in, cause=Cause.DAMAGED, detail="weights changed in memory"))
            self._count_since(known)
            self.playback = self._bundles.built_in
            if self._bundles.intact(self.playback.digest):
                return True
        if not self._bundles.restore_built_in():
            return False
        self.playback = self._bundles.built_in
        return True

    def settle(self) -> None:
        """Write what was decided, then tell it; what the disk refuses stays to be done."""
        self.owing.clear()
        try:
            self._slots.flush()
            self._journal.write()
            told = [entry for entry in self.slots.untold if self._journal.tell(entry)]
            if told:
                self._slots.apply(partial(mark_told, numbers=frozenset(entry.number for entry in told)))
            for entry in told:
                log.warning("bundle %s left or refused (%s): %s", entry.digest[:12], entry.cause, entry.detail)
            self._tell_falls()
        except OSError as error:
            self.last_error = f"slot record not written: {error}"[:200]

    def end(self, orderly: bool = True) -> None:
        """The end of the process; one out of order is counted at the next start."""
        if orderly:
            self._slots.decide(count_end)
        self.settle()

    def _tell_falls(self) -> None:
        built_in = self._bundles.built_in.digest
        told = [fall for fall in self.slots.falls if self._journal.tell_fall(fall, fall.digest or built_in)]
        if told:
            self._slots.apply(partial(forget_falls, numbers=frozenset(fall.number for fall in told)))

    def _start(self) -> Playback:
        """Decide what plays first; a bundle that cannot be used any more is left for the one before it."""
        known = self.slots.left
        self._commit(count_start)
        playback = self._usable()
        self._count_since(known)
        if self.slots.on_trial and playback.digest == self.slots.running.digest:
            self._trial.begin(self._clock.now())
        return playback

    def _usable(self) -> Playback:
        for _ in range(2):
            try:
                return self._bundles.for_slots(self.slots)
            except UNUSABLE as error:
                self._commit(partial(roll_back, cause=Cause.DAMAGED, detail=str(error)))
        return self._bundles.built_in

    def _confirm(self) -> None:
        self._decide(confirm)
        self._fallback = None
        self.confirmed += 1
        self._journal.note(Note(self.playback.digest, InstallStage.CONFIRMED))

    def _roll_back(self, verdict: Verdict) -> None:
        known = self.slots.left
        after = self._decide(partial(roll_back, cause=verdict.cause, detail=verdict.detail))
        self.playback = self._before_trial(after)
        self._fallback = None
        self._count_since(known)

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

    def _count_since(self, known: int) -> None:
        for entry in self.slots.rollbacks:
            if entry.number > known and entry.ran:
                self.rolled_back += 1
                self.last_cause = entry.cause
                self.causes[entry.cause] += 1

    def _decide(self, transition: Transition) -> Slots:
        slots = self._slots.decide(transition)
        self.owing.set()
        return slots

    def _commit(self, transition: Transition) -> Slots:
        """Make a decision durable; when the disk refuses, it is true in memory and owed."""
        try:
            return self._slots.apply(transition)
        except OSError as error:
            self.last_error = f"slot record not written: {error}"[:200]
            return self._decide(transition)
