"""The keys whose state documents this device believes, and how it hears of new ones.

It begins with the key that enrolment gave. A document by a key that it does not know makes it read the signed list
(`contracts.state_keys`) from the update repository, at most once in `retry_s`; without one it reads the list once in
`fresh_s`, so that a key that was revoked is dropped also where nobody showed a document by the new one. A list that
could not be read for `stale_s` is too old to accept anything new by it: the document in force stays.

Invariants: the serial of the list only grows, also over a power cut; without the update repository nothing is learnt.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from contracts.state_keys import (
    MAX_LIST_BYTES,
    STATE_KEY_TARGET,
    KeyListError,
    StateKey,
    StateKeyList,
    decode_list,
    encode_list,
)
from edge_agent.disk import Disk
from edge_agent.errors import PlatformError, TrustError
from edge_agent.limits import LIMITS

log = logging.getLogger(__name__)
KEYS_FILE = "state-keys.json"
LIST_FILE = "state-key-target.json"


class Targets(Protocol):
    """The part of the update repository that is used here."""

    def fetch(self, path: str, to: Path, known: Path | None = None) -> Path:
        """Return a file that the newest signed metadata name. Raises PlatformError, OSError."""


class StateKeys:
    """Holds the newest list, in memory and on disk. `first` is the key of the identity, as text."""

    def __init__(
        self,
        folder: Path,
        first: str,
        disk: Disk,
        targets: Targets | None = None,
        real_now: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._disk, self._targets, self._now = folder, disk, targets, real_now
        self._list, self._checked = self._stored(first)
        self._tried: float | None = None

    @property
    def serial(self) -> int:
        """Serial of the list that is believed; 0 for the key of the identity alone."""
        return self._list.serial

    def trusted(self) -> tuple[Ed25519PublicKey, ...]:
        """The keys whose signature counts now."""
        return self._list.trusted(self._now())

    def known(self) -> tuple[Ed25519PublicKey, ...]:
        """Every key that ever counted: for the document that is in force already."""
        return self._list.known()

    def ended(self) -> tuple[tuple[Ed25519PublicKey, int], ...]:
        """Keys that count no more, each with the epoch of the last document that the platform signed with it."""
        return tuple(
            (key, one.last_epoch)
            for key, one in zip(self._list.known()[len(self._list.keys) :], self._list.ended, strict=True)
        )

    @property
    def due(self) -> bool:
        """Whether the list should be read again although nothing calls for it."""
        return self._targets is not None and self._age() >= LIMITS.keys_fresh_s and self._may_try()

    def demand_fresh(self) -> None:
        """Raise TrustError when the list is too old to accept a document by it."""
        if self._targets is not None and self._age() >= LIMITS.keys_stale_s:
            days = LIMITS.keys_stale_s / 86_400
            raise TrustError(f"the list of state keys could not be read for {days:g} days; nothing new is accepted")

    def refresh(self) -> bool:
        """Read the list from the update repository; True when it could be read. What goes wrong is logged."""
        if self._targets is None or not self._may_try():
            return False
        self._tried = self._now()
        try:
            path = self._folder / LIST_FILE
            data = self._disk.read(self._targets.fetch(STATE_KEY_TARGET, path, path), MAX_LIST_BYTES + 1)
            found = decode_list(data, self._list.serial)
        except (PlatformError, KeyListError, OSError) as error:
            log.warning("the list of state keys is not read anew: %s", error)
            return False
        self._list, self._checked = found, self._now()
        self._store()
        return True

    def _age(self) -> float:
        """Seconds since the list was read; a clock that went back counts as time gone by."""
        return abs(self._now() - self._checked)

    def _may_try(self) -> bool:
        return self._tried is None or abs(self._now() - self._tried) >= LIMITS.keys_retry_s

    def _store(self) -> None:
        document = {"checked": self._checked, "list": encode_list(self._list).decode()}
        self._disk.replace(self._folder / KEYS_FILE, json.dumps(document, sort_keys=True).encode())

    def _stored(self, first: str) -> tuple[StateKeyList, float]:
        fallback = StateKeyList(serial=0, keys=(StateKey(public=first),))
        try:
            raw = json.loads(self._disk.read(self._folder / KEYS_FILE, 2 * MAX_LIST_BYTES))
            return decode_list(raw["list"].encode()), float(raw["checked"])
        except FileNotFoundError:
            return fallback, self._now() - LIMITS.keys_fresh_s
        except (OSError, ValueError, KeyError, TypeError, AttributeError, KeyListError) as error:
            log.warning("the stored list of state keys is not usable (%s); reading it anew", error)
            return fallback, self._now() - LIMITS.keys_fresh_s
