"""A new reference after a release: what the fleet looked like before is no longer what the model is made for.

Releases knows when a rollout completed; drift asks it and remembers each completed rollout once. A cohort of the
rollout's device classes whose reference is older than that is compared, from then on, with its first days after it
(`services.drift.baselines`). The old reference stays, and judges until the new one is complete.
"""

from __future__ import annotations

from typing import Any, Protocol

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.wire.releases import Rollout, RolloutList, RolloutState
from services.drift.limits import LIMITS
from services.drift.models import Rebase

DEVICE_CLASS = "device_class"


class Releases(Protocol):
    """The call to the releases service: `services.kit.clients.ServiceClient` has it."""

    def get(self, path: str, **params: str | int | float | bool | None) -> Any: ...  # Any: JSON


def completed_rollouts(releases: Releases) -> list[Rollout]:
    """Ask for the newest rollouts and return those that completed. Raises what the client raises."""
    listed = RolloutList.model_validate(releases.get("/releases/v1/rollouts", limit=LIMITS.rollouts))
    return [one for one in listed.items if one.state is RolloutState.COMPLETED and one.finished is not None]


def remember(session: Session, rollouts: list[Rollout], now: float) -> int:
    """Write down rollouts not seen before; returns how many."""
    new = 0
    for rollout in rollouts:
        assert rollout.finished is not None
        row = insert(Rebase).values(
            release=rollout.id,
            device_classes=_classes(rollout),
            finished=rollout.finished,
            created=now,
        )
        new += session.execute(row.on_conflict_do_nothing().returning(Rebase.release)).first() is not None
    return new


def _classes(rollout: Rollout) -> list[str]:
    """The device classes that a rollout was for; empty for all. Behind a rule, those that it found."""
    named = rollout.selector.get(DEVICE_CLASS, ())
    return sorted(named or (rollout.device_classes if rollout.rule else ()))
