"""Carries out the planner's steps: download, verify, install, and prepare the change for the frame loop.

Runs beside the frame loop. Everything slow or fallible happens here; what is left for the frame loop is one
exchange of names and a pointer. Invariants: a step that fails changes nothing that runs; a refusal is told once
with its cause; what cannot be fetched now is tried again later, ever more rarely.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from contracts.bundle import Bundle, BundleError, MissingPiece
from contracts.wire import Cause, InstallStage
from edge_agent.bundles import UNUSABLE, Bundles
from edge_agent.errors import Cancelled, PlatformError, SlotError, TrustError, Withdrawn
from edge_agent.journal import Journal, Note
from edge_agent.pace import Going, always
from edge_agent.planner import Download, Exchange, GoBack, Install, Refuse, Step, Trial, UseBuiltIn, Want
from edge_agent.playback import Playback
from edge_agent.sealed import NoKey, SealedBundles, is_sealed_path
from edge_agent.slot_store import Prepared, SlotStore
from edge_agent.slots import (
    Slots,
    arm,
    begin_trial,
    exchange,
    install,
    reject,
    roll_back,
    use_built_in,
)
from edge_agent.store import SUFFIX
from edge_agent.tee import TeeRefused, TeeUnavailable, Why
from edge_agent.updater import SignedRepository

log = logging.getLogger(__name__)
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 600.0
CAUSES = {
    Why.WRONG_KEY: Cause.NO_KEY,
    Why.WRONG_CLASS: Cause.WRONG_TARGET,
    Why.OLD_EPOCH: Cause.OLD_EPOCH,
    Why.BROKEN: Cause.TEE_FAILED,
}
MAY_PASS = frozenset({Cause.NO_KEY, Cause.TEE_FAILED, Cause.UNTRUSTED, Cause.NO_SPACE})
"""What is no fault of the bundle: told, and tried again."""


@dataclass(frozen=True)
class Change:
    """What the frame loop does between two frames: commit what was `prepared`, then play `playback`.

    `leaves` is the digest of the slot that ran when the change was prepared ("" for the built-in bundle).
    """

    leaves: str
    prepared: Prepared
    playback: Playback
    notes: tuple[Note, ...]
    trial: bool = False


@dataclass
class Pause:
    """How often an offer could not be taken, and until when it rests (monotonic seconds)."""

    failures: int = 0
    until: float = 0.0
    told: Cause = Cause.NONE


class UpdateExecutor:
    """Executes one plan at a time."""

    def __init__(
        self,
        device: str,
        slots: SlotStore,
        bundles: Bundles,
        repository: SignedRepository,
        journal: Journal,
        monotonic: Callable[[], float] = time.monotonic,
        sealed: SealedBundles | None = None,
        sealed_only: bool = False,
    ) -> None:
        self._sealed, self._sealed_only = sealed, sealed_only
        self._device, self._slots, self._bundles = device, slots, bundles
        self._repository, self._journal, self._monotonic = repository, journal, monotonic
        self._pauses: dict[str, Pause] = {}
        self.downloads = 0
        self.refused = 0

    @property
    def deltas(self) -> int:
        """How many bundles came as a delta."""
        return self._repository.deltas + (self._sealed.deltas if self._sealed else 0)

    def run(self, steps: list[Step], going: Going = always) -> Change | None:
        """Carry out `steps`; return the change for the frame loop, if any. Raises Unreachable, OSError.

        `going` is called before each step and often during a download; when it raises Cancelled the plan ends, and
        what was fetched so far is kept for another time.
        """
        for step in steps:
            try:
                going()
                change = self._execute(step, going)
            except Cancelled as error:
                log.info("update called off: %s", error)
                return None
            except SlotError as error:
                log.warning("update step %s not possible: %s", type(step).__name__, error)
                return None
            except _Stopped:
                return None
            if change is not None:
                return change
        return None

    def _execute(self, step: Step, going: Going) -> Change | None:
        match step:
            case GoBack(cause, detail):
                return self._leave(partial(roll_back, cause=cause, detail=detail), cause, detail)
            case UseBuiltIn(cause, detail):
                return self._leave(partial(use_built_in, cause=cause, detail=detail), cause, detail)
            case Refuse(want, cause, detail):
                self._refuse(want, cause, detail, final=False)
            case Download(want):
                self._download(want, going)
            case Install(want):
                self._install(want)
            case Trial(want):
                return self._trial(want)
            case Exchange(want):
                return self._exchange(want)
        return None

    def _leave(self, transition: Callable[[Slots], Slots], cause: Cause, detail: str) -> Change:
        leaves = self._slots.slots.running.digest
        try:
            playback = self._bundles.for_slots(transition(self._slots.slots))
        except UNUSABLE as error:
            log.warning("the bundle to go back to is not usable (%s); the built-in one takes over", error)
            transition, playback = partial(use_built_in, cause=cause, detail=detail), self._bundles.built_in
        return Change(leaves, self._slots.prepare(transition), playback, ())

    def _download(self, want: Want, going: Going) -> None:
        self._rest_if_paused(want)
        target, store = want.target, self._bundles.store
        try:
            with store.exclusive(target.digest):
                bundle = self._fetch_sealed(want, going) if is_sealed_path(target.path) else self._fetch(want, going)
        except Withdrawn as error:
            self._journal.note(Note(target.digest, InstallStage.REFUSED, Cause.WITHDRAWN, str(error)))
            raise
        except TrustError as error:
            self._refuse(want, Cause.UNTRUSTED, str(error), final=False)
        except (BundleError, NoKey, TeeRefused, TeeUnavailable) as error:
            cause = cause_of(error)
            self._refuse(want, cause, str(error), final=cause not in MAY_PASS)
        except OSError as error:
            cause = Cause.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else Cause.DAMAGED
            self._refuse(want, cause, str(error), final=False)
        except PlatformError:
            self._pause(want)
            raise
        else:
            self._check_epoch(want, bundle.manifest.security_epoch)
            self._pauses.pop(target.digest, None)
            self.downloads += 1
            self._journal.note(Note(target.digest, InstallStage.DOWNLOADED))

    def _fetch(self, want: Want, going: Going) -> Bundle:
        target, store = want.target, self._bundles.store
        if self._sealed_only:
            raise TrustError(f"{target.path} is not sealed, and this device takes sealed bundles only")
        incoming, known = store.incoming(target.digest, self._device), store.path(target.digest)
        at_hand = known if known.exists() else None
        bases = {d: path for d, path in self._bundles.at_hand(self._slots.slots).items() if path.suffix == SUFFIX}
        found = self._repository.fetch(target.path, incoming, at_hand, target.digest, bases, going)
        return store.adopt(found, target.digest) if found == incoming else store.open(target.digest)

    def _fetch_sealed(self, want: Want, going: Going) -> Bundle:
        if self._sealed is None:
            raise TeeUnavailable("the offered bundle is sealed and this device has no trusted environment")
        incoming = self._bundles.store.incoming(want.target.digest, self._device)
        return self._sealed.fetch(want.target, incoming, self._bundles.at_hand(self._slots.slots), going)

    def _check_epoch(self, want: Want, epoch: int) -> None:
        """The number that the state document promises must be the one that the bundle carries."""
        if epoch != want.target.security_epoch:
            detail = f"the bundle has security epoch {epoch}, the offer says {want.target.security_epoch}"
            self._refuse(want, Cause.OLD_EPOCH, detail, final=True)

    def _install(self, want: Want) -> None:
        target = want.target
        self._slots.apply(
            partial(
                install,
                digest=target.digest,
                version=target.release_version,
                offer=want.offer,
                security_epoch=target.security_epoch,
            )
        )
        self._journal.note(Note(target.digest, InstallStage.INSTALLED))

    def _trial(self, want: Want) -> Change:
        digest, offer = want.target.digest, want.offer
        playback = self._open(want)
        armed = self._slots.apply(partial(arm, digest=digest, offer=offer))
        if not armed.holding(digest):
            raise _Stopped
        prepared = self._slots.prepare(partial(begin_trial, digest=digest, offer=offer))
        return Change(armed.running.digest, prepared, playback, (Note(digest, InstallStage.TRIAL),), trial=True)

    def _exchange(self, want: Want) -> Change:
        digest, left = want.target.digest, self._slots.slots.running.digest
        playback = self._open(want)
        prepared = self._slots.prepare(partial(exchange, digest=digest))
        return Change(left, prepared, playback, (Note(digest, InstallStage.CONFIRMED),))

    def _open(self, want: Want) -> Playback:
        try:
            return self._bundles.open(want.target.digest)
        except UNUSABLE as error:
            cause = cause_of(error)
            self._refuse(want, cause, str(error), final=cause not in MAY_PASS)

    def _rest_if_paused(self, want: Want) -> None:
        pause = self._pauses.get(want.target.digest)
        if pause is not None and self._monotonic() < pause.until:
            raise _Stopped

    def _refuse(self, want: Want, cause: Cause, detail: str, final: bool) -> NoReturn:
        """Stop this plan and tell the platform once.

        `final` bars the offer for ever. Otherwise the cause may pass (a stale cache, a torn transfer), so it is
        told when it is met for the second time in a row.
        """
        digest = want.target.digest
        self.refused += 1
        log.warning("bundle %s refused (%s): %s", digest[:12], cause.value, detail)
        pause = self._pause(want)
        if final:  # the slot record tells it
            self._slots.apply(partial(reject, digest=digest, offer=want.offer, cause=cause, detail=detail))
        elif pause.told is not cause and pause.failures > 1:
            pause.told = cause
            self._journal.note(Note(digest, InstallStage.REFUSED, cause, detail))
        raise _Stopped

    def _pause(self, want: Want) -> Pause:
        if len(self._pauses) > 64:
            self._pauses.clear()
        pause = self._pauses.setdefault(want.target.digest, Pause())
        pause.until = self._monotonic() + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**pause.failures)
        pause.failures += 1
        return pause


def cause_of(error: Exception) -> Cause:
    """Tell why a bundle could not be opened or loaded: no key for it, not made for this device, or not whole."""
    if isinstance(error, TeeRefused):
        return CAUSES.get(error.why, Cause.DAMAGED)
    if isinstance(error, TeeUnavailable):
        return Cause.TEE_FAILED
    if isinstance(error, NoKey):
        return Cause.NO_KEY
    damaged = isinstance(error, BundleError | OSError) and not isinstance(error, MissingPiece)
    return Cause.DAMAGED if damaged else Cause.WRONG_TARGET


class _Stopped(Exception):
    """This plan ends here; the reason was recorded."""
