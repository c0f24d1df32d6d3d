"""What to do next, as a pure function of what is and what is wanted.

No clock, no disk, no network: the planner gets the slots and the last accepted state document and returns
steps. Steps are idempotent; after a power cut the planner is asked again and returns what is left. The
rules are tried in order; the first that applies decides:

    1. the running bundle is revoked or below the security floor   -> go back, with that cause
    2. nothing is wanted                                           -> the built-in bundle
    3. the wanted bundle runs                                      -> nothing
    4. this very offer failed here before                          -> nothing, until another offer names it
    5. another bundle is on trial                                  -> go back first (withdrawn)
    6. the wanted bundle is below the security floor               -> refuse
    7. the wanted bundle lies in the other slot, confirmed         -> exchange the slots
    8. otherwise                                                   -> download, install, trial

The kill switch is not a step: it stops every NPU program at once (see `agent.py`) and the plan waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.device import DeviceTags
from contracts.state import DeviceState, RolloutEntry, Target, choose_target
from contracts.wire import Cause
from edge_agent import __version__
from edge_agent.slots import Slots, SlotState

BASELINE = "baseline"


@dataclass(frozen=True)
class Want:
    """The bundle this device should run and the offer (rollout id or baseline) that names it."""

    target: Target
    offer: str


@dataclass(frozen=True)
class GoBack:
    """Leave the running bundle."""

    cause: Cause
    detail: str


@dataclass(frozen=True)
class UseBuiltIn:
    """Leave both slots for the built-in bundle."""

    cause: Cause
    detail: str


@dataclass(frozen=True)
class Refuse:
    """Do not take what is offered."""

    want: Want
    cause: Cause
    detail: str


@dataclass(frozen=True)
class Download:
    """Fetch and verify the bundle into the store."""

    want: Want


@dataclass(frozen=True)
class Install:
    """Record the stored bundle in the spare slot."""

    want: Want


@dataclass(frozen=True)
class Trial:
    """Point to the spare slot and watch it."""

    want: Want


@dataclass(frozen=True)
class Exchange:
    """Point to the other slot, whose bundle was confirmed before."""

    want: Want


Step = GoBack | UseBuiltIn | Refuse | Download | Install | Trial | Exchange


def wanted(state: DeviceState, device_id: str, tags: DeviceTags, slots: Slots) -> Want | None:
    """Return what the document asks of this device. A rollout that failed here before is passed over."""
    open_offers = tuple(r for r in state.rollouts if not slots.failed_before(r.target.digest, r.id))
    target = choose_target(state.model_copy(update={"rollouts": open_offers}), device_id, tags, __version__)
    if target is None:
        return None
    return Want(target, next((r.id for r in open_offers if _offers(state, r, target, device_id, tags)), BASELINE))


def plan(slots: Slots, want: Want | None, state: DeviceState) -> list[Step]:
    """Return the steps from `slots` to what `state` wants."""
    floor = max(slots.security_floor, state.security_epoch_floor)
    running = slots.running
    if slots.active and running.digest in state.revoked:
        return [GoBack(Cause.REVOKED, "the state document revokes this bundle")]
    if slots.active and running.security_epoch < floor:
        return [GoBack(Cause.OLD_EPOCH, f"security epoch {running.security_epoch} is below {floor}")]
    if want is None:
        return [UseBuiltIn(Cause.WITHDRAWN, "the state document names no bundle")] if slots.active else []
    digest = want.target.digest
    if running.digest == digest:
        return []
    if slots.failed_before(digest, want.offer):
        return []
    if slots.on_trial:
        return [GoBack(Cause.WITHDRAWN, f"{want.offer} asks for another bundle")]
    if want.target.security_epoch < floor:
        return [Refuse(want, Cause.OLD_EPOCH, f"security epoch {want.target.security_epoch} is below {floor}")]
    return _towards(slots, want)


def _towards(slots: Slots, want: Want) -> list[Step]:
    held = slots.holding(want.target.digest)
    if held and slots.slot(held).state is SlotState.CONFIRMED:
        return [Exchange(want)]
    if held:
        return [Trial(want)]
    return [Download(want), Install(want), Trial(want)]


def _offers(state: DeviceState, entry: RolloutEntry, target: Target, device_id: str, tags: DeviceTags) -> bool:
    """Tell whether this very rollout is the one that chose `target`."""
    if entry.target != target:
        return False
    alone = state.model_copy(update={"rollouts": (entry,), "baseline": None})
    return choose_target(alone, device_id, tags, __version__) == target
