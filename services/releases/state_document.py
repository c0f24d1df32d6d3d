"""Builds, signs and serves the device state document.

`publish` runs in the transaction of the change that the document expresses, so a document never says what was not
committed. Serving reads memory, then the cache, then the database; a poll writes nothing. A worker puts the newest
document into the cache again every `STATE.refresh_s`, so the cache never runs out under the polls while a worker lives;
without one, a poll's renewal asks the database once in `STATE.cached_s`.

Invariants: the epoch only grows, also after the database was restored from a backup (it is never below the real
time in seconds); the cache holds committed documents only, never an older one over a newer one, and heals itself
within `STATE.cached_s`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import redis
from sqlalchemy import delete, event, select
from sqlalchemy.orm import Session

from contracts.state import DeviceState, RolloutEntry, Target, sign_state
from contracts.wire.releases import RolloutState
from services.kit.streams import connection
from services.releases.audience import audience_of
from services.releases.domain.machine import ACTIVE
from services.releases.limits import STATE
from services.releases.models import BundleRow, Control, LayerRow, RolloutRow, StageRow, StateDocument
from services.releases.state_signers import signers

CACHE_KEY = "releases:state"
CONTROL_ID = 1
_EPOCH_BYTES = 8
_KEEP_NEWEST = """
local held = redis.call('GETRANGE', KEYS[1], 0, 7)
if #held == 8 and struct.unpack('>I8', held) > struct.unpack('>I8', ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""


@dataclass(frozen=True)
class Served:
    """A signed document and its ETag."""

    epoch: int
    document: bytes

    @property
    def etag(self) -> str:
        return f'"{self.epoch}"'


def lock_control(session: Session) -> Control:
    """The fleet-wide row, locked until the transaction ends: changes of the document come one by one."""
    return session.get_one(Control, CONTROL_ID, with_for_update=True, populate_existing=True)


def publish(session: Session) -> Served:
    """Sign what holds now as the next epoch; call it last in the transaction that changed something."""
    session.flush()
    control, now = lock_control(session), int(time.time())
    control.epoch = max(control.epoch + 1, now)
    state = DeviceState(
        epoch=control.epoch,
        issued=now,
        expires=now + STATE.life_s,
        killed=control.killed,
        security_epoch_floor=control.security_epoch_floor,
        revoked=tuple(session.scalars(select(BundleRow.digest).where(BundleRow.revoked).order_by(BundleRow.digest))),
        baseline=_baseline(session, control),
        rollouts=tuple(_entries(session)),
    )
    served = Served(control.epoch, sign_state(state, *signers(session)))
    session.add(_row(served, state))
    session.execute(delete(StateDocument).where(StateDocument.epoch < _oldest_kept(session)))
    event.listen(session, "after_commit", lambda _session: remember(served), once=True)
    return served


def latest(session: Session) -> Served | None:
    """The newest committed document, from the database."""
    row = session.scalars(select(StateDocument).order_by(StateDocument.epoch.desc()).limit(1)).first()
    return Served(row.epoch, row.document) if row else None


def renew_if_aged(session: Session) -> bool:
    """Sign again when there is no document or half of its life is over; True when it did."""
    row = session.scalars(select(StateDocument).order_by(StateDocument.epoch.desc()).limit(1)).first()
    if row is not None and (row.expires_at - datetime.now(UTC)).total_seconds() > STATE.life_s / 2:
        return False
    publish(session)
    return True


def refresh_cache(session: Session) -> None:
    """Put the newest committed document into the cache again, before it runs out there."""
    served = latest(session)
    if served is not None:
        remember(served)


def target_of(bundle: BundleRow) -> Target:
    """A bundle as the state document names it."""
    return Target(
        path=bundle.target_path,
        digest=bundle.digest,
        length=bundle.length,
        release_version=bundle.release_version,
        security_epoch=bundle.security_epoch,
    )


def offers(session: Session) -> tuple[Target | None, list[RolloutEntry]]:
    """What the next document would offer: baseline and rollouts."""
    return _baseline(session, session.get_one(Control, CONTROL_ID)), _entries(session)


def _baseline(session: Session, control: Control) -> Target | None:
    bundle = session.get(BundleRow, control.baseline_digest) if control.baseline_digest else None
    return target_of(bundle) if bundle and not bundle.revoked else None


def _entries(session: Session) -> list[RolloutEntry]:
    """Rollouts in progress first, newest first, then completed ones that hold for a part of the fleet."""
    query = (
        select(RolloutRow, StageRow.basis_points, BundleRow, LayerRow)
        .join(StageRow, (StageRow.rollout_id == RolloutRow.id) & (StageRow.index == RolloutRow.stage))
        .join(BundleRow, BundleRow.digest == RolloutRow.digest)
        .outerjoin(LayerRow, LayerRow.name == RolloutRow.layer)
        .where(RolloutRow.state.in_([*ACTIVE, RolloutState.COMPLETED]), ~BundleRow.revoked)
        .where(RolloutRow.state.in_(ACTIVE) | RolloutRow.standing)
        .order_by(RolloutRow.standing, RolloutRow.created.desc(), RolloutRow.id)
    )
    return [_entry(row, points, bundle, layer) for row, points, bundle, layer in session.execute(query)]


def _entry(row: RolloutRow, points: int, bundle: BundleRow, layer: LayerRow | None) -> RolloutEntry:
    found = audience_of(row, layer)
    return RolloutEntry(
        id=row.id,
        target=target_of(bundle),
        salt=row.salt,
        basis_points=points,
        selector=found.guarded(),
        rule=found.rule,
        layer=found.layer,
    )


def _row(served: Served, state: DeviceState) -> StateDocument:
    return StateDocument(
        epoch=served.epoch,
        document=served.document,
        issued_at=datetime.fromtimestamp(state.issued, UTC),
        expires_at=datetime.fromtimestamp(state.expires, UTC),
    )


def _oldest_kept(session: Session) -> int:
    newest: Sequence[int] = session.scalars(
        select(StateDocument.epoch).order_by(StateDocument.epoch.desc()).limit(STATE.kept)
    ).all()
    return newest[-1] if len(newest) == STATE.kept else 0


class StateCache:
    """The document of this process: memory for `STATE.memory_s`, then one cache read, then the loader.

    A poll takes what memory holds (`held`) up to twice that age, while one of them has it read anew: so no poll waits
    for the cache, and a document is at most `2 * STATE.memory_s` old.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._held: Served | None = None
        self._until = self._asked = 0.0

    def held(self) -> Served | None:
        """What memory holds, unless it is too old to be given away; no I/O."""
        served, until = self._held, self._until
        return served if served is not None and self._monotonic() < until + STATE.memory_s else None

    def must_renew(self) -> bool:
        """True for one caller at a time, when what memory holds is due to be read anew."""
        with self._lock:
            now = self._monotonic()
            due = now >= self._until and now >= self._asked
            if due:
                self._asked = now + STATE.memory_s
            return due

    def get(self, load: Callable[[], Served]) -> Served:
        """The current document; `load` reads the database when the cache knows nothing."""
        with self._lock:
            if self._held is not None and self._monotonic() < self._until:
                return self._held
        served = recall()
        if served is None:
            served = load()
            remember(served)
        with self._lock:
            if self._held is None or served.epoch >= self._held.epoch:
                self._held, self._until = served, self._monotonic() + STATE.memory_s
            return self._held

    def clear(self) -> None:
        """Forget what memory holds."""
        with self._lock:
            self._held = None


def remember(served: Served) -> None:
    """Put a committed document into the cache, unless a newer one is there; without it, readers use the database."""
    try:
        value = served.epoch.to_bytes(_EPOCH_BYTES, "big") + served.document
        connection().eval(_KEEP_NEWEST, 1, CACHE_KEY, value, STATE.cached_s)
    except redis.RedisError:
        return


def recall() -> Served | None:
    """The cached document, or None."""
    try:
        value = connection().get(CACHE_KEY)
    except redis.RedisError:
        return None
    if not isinstance(value, bytes):
        return None
    return Served(int.from_bytes(value[:_EPOCH_BYTES], "big"), value[_EPOCH_BYTES:])
