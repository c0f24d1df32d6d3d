"""Who began to take a bundle, known from the download itself, so that a device which then never speaks has a deadline.

A bundle that kills its device before the first report would else leave no trace: the device was exposed, and is just
not heard any more. What was merely taken counts for nothing else: not as installed, not as evidence for a bundle.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import structlog
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from contracts.device import DeviceTags
from contracts.targeting import facts_of
from services.kit.database import transaction
from services.releases import service
from services.releases.feedback import placements
from services.releases.limits import DEVICE
from services.releases.models import TAKEN, Device, Exposure

log = structlog.get_logger(__name__)
NAME = re.compile(r"(?:bundles|deltas)/(?:[0-9a-f]+\.)?([0-9a-f]{32})[0-9a-f-]*\.el[bd]")


class Takings:
    """Downloads of this process. A range that follows another of the same file is not noted again."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._noted: OrderedDict[tuple[str, str], float] = OrderedDict()

    def note(self, device_id: str, path: str) -> bool:
        """Write down that a device began to take the target at `path`; True when it was written. Never raises for
        a database that does not answer: the download goes on, and its next range tries again.
        """
        found = NAME.fullmatch(path)
        if found is None or not self._is_due(device_id, found.group(1)):
            return False
        try:
            return take(device_id, found.group(1))
        except SQLAlchemyError as error:
            log.warning("taking_not_noted", error=type(error).__name__)
            with self._lock:
                self._noted.pop((device_id, found.group(1)), None)
            return False

    def _is_due(self, device_id: str, digest: str) -> bool:
        key, now = (device_id, digest), self._monotonic()
        with self._lock:
            if self._noted.get(key, 0.0) > now:
                return False
            self._noted[key] = now + DEVICE.taking_s
            self._noted.move_to_end(key)
            while len(self._noted) > DEVICE.takings:
                self._noted.popitem(last=False)
            return True


def take(device_id: str, beginning: str) -> bool:
    """Begin the exposure of a device whose rollout has the bundle that begins so; one that has begun stays as it is."""
    with transaction() as session:
        device = session.get(Device, device_id)
        if device is None:
            return False
        facts = facts_of(DeviceTags.model_validate(device.tags), device.agent_version)
        offered = [one for one in placements(session, device_id, facts) if one.exposed]
        rows = [
            {
                "rollout_id": one.rollout_id,
                "device_id": device_id,
                "stratum": device.device_class,
                "bucket": one.bucket,
                "stage": TAKEN,
                "sequence": 0,
                "failed": False,
                "confirmed": False,
                "heard": False,
                "cause": "",
                "started": service.clock().now(),
            }
            for one in offered
            if one.digest.startswith(beginning)
        ]
        if rows:
            session.execute(insert(Exposure).values(rows).on_conflict_do_nothing())
        return bool(rows)
