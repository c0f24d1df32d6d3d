"""The rollout's state machine: states, a transition table, and the ordered rules of a tick.

Invariants: a finished rollout never runs again (a roll back is sticky); exposure only grows while it runs; safety
is the first rule and is asked in every state that has devices on the new bundle, paused included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from contracts.wire.releases import RolloutState
from services.releases.verdict import Decision, Judgement

ACTIVE = frozenset({RolloutState.RUNNING, RolloutState.PAUSED})
WAITING = frozenset({RolloutState.DRAFT, RolloutState.APPROVED})


class Event(StrEnum):
    """What can happen to a rollout."""

    APPROVE = "approve"
    START = "start"
    ADVANCE = "advance"
    COMPLETE = "complete"
    PAUSE = "pause"
    RESUME = "resume"
    ROLL_BACK = "rollback"
    KILL = "kill"


TRANSITIONS: dict[tuple[RolloutState, Event], RolloutState] = {
    (RolloutState.DRAFT, Event.START): RolloutState.RUNNING,
    (RolloutState.DRAFT, Event.APPROVE): RolloutState.APPROVED,
    (RolloutState.DRAFT, Event.KILL): RolloutState.KILLED,
    (RolloutState.APPROVED, Event.START): RolloutState.RUNNING,
    (RolloutState.APPROVED, Event.KILL): RolloutState.KILLED,
    (RolloutState.RUNNING, Event.ADVANCE): RolloutState.RUNNING,
    (RolloutState.RUNNING, Event.COMPLETE): RolloutState.COMPLETED,
    (RolloutState.RUNNING, Event.PAUSE): RolloutState.PAUSED,
    (RolloutState.RUNNING, Event.ROLL_BACK): RolloutState.ROLLED_BACK,
    (RolloutState.RUNNING, Event.KILL): RolloutState.KILLED,
    (RolloutState.PAUSED, Event.RESUME): RolloutState.RUNNING,
    (RolloutState.PAUSED, Event.ROLL_BACK): RolloutState.ROLLED_BACK,
    (RolloutState.PAUSED, Event.KILL): RolloutState.KILLED,
    (RolloutState.COMPLETED, Event.ROLL_BACK): RolloutState.ROLLED_BACK,
}


class IllegalTransition(Exception):
    """The rollout's state does not allow the event; nothing was changed."""

    def __init__(self, state: RolloutState, event: Event) -> None:
        allowed = sorted(known.value for start, known in TRANSITIONS if start is state)
        super().__init__(f"a {state.value} rollout cannot {event.value}; it can: {', '.join(allowed) or 'nothing'}")


def after(state: RolloutState, event: Event) -> RolloutState:
    """The state after `event`; raises IllegalTransition."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise IllegalTransition(state, event)
    return following


@dataclass(frozen=True)
class Look:
    """A rollout at one tick. Soak and ages are clock seconds, `waited_real_s` real seconds in this stage."""

    state: RolloutState
    last_stage: bool
    waited_s: float
    waited_real_s: float
    soak_s: float
    patience_s: float
    patience_floor_s: float
    judgement: Judgement


@dataclass(frozen=True)
class Step:
    """What a rule wants: an event or nothing (None), the decision to store, and why."""

    event: Event | None
    decision: Decision
    why: str


Rule = Callable[[Look], Step | None]


def harm_rolls_back(look: Look) -> Step | None:
    """Harm that is certain enough ends the rollout, also while it is paused."""
    if look.judgement.decision is not Decision.ROLLBACK:
        return None
    return Step(Event.ROLL_BACK, Decision.ROLLBACK, look.judgement.reasons[0])


def a_paused_rollout_waits_for_a_person(look: Look) -> Step | None:
    """Nothing but harm moves a paused rollout."""
    if look.state is not RolloutState.PAUSED:
        return None
    return Step(None, look.judgement.decision, "paused")


def a_stage_soaks(look: Look) -> Step | None:
    """No stage is shorter than its soak, whatever the evidence says."""
    if look.waited_s >= look.soak_s:
        return None
    return Step(None, Decision.CONTINUE, f"soaking: {look.waited_s:.0f} of {look.soak_s:.0f} s")


def a_safe_last_stage_completes(look: Look) -> Step | None:
    """The whole fleet has it and every guardrail is safe."""
    if look.judgement.decision is not Decision.PROMOTE or not look.last_stage:
        return None
    return Step(Event.COMPLETE, Decision.PROMOTE, "every guardrail is safe at full exposure")


def a_safe_stage_advances(look: Look) -> Step | None:
    """Every guardrail is safe at the exposure of the next stage."""
    if look.judgement.decision is not Decision.PROMOTE:
        return None
    return Step(Event.ADVANCE, Decision.PROMOTE, "every guardrail is safe for the next stage")


def a_stage_without_verdict_pauses(look: Look) -> Step | None:
    """The evidence had its time; a person looks before more devices are exposed."""
    late = look.waited_s >= look.soak_s + look.patience_s and look.waited_real_s >= look.patience_floor_s
    if not late:
        return None
    why = "; ".join(look.judgement.reasons[:3])
    return Step(Event.PAUSE, Decision.INCONCLUSIVE, f"no verdict in {look.waited_s:.0f} s: {why}")


def evidence_is_collected(look: Look) -> Step | None:
    """The last rule: go on."""
    return Step(None, Decision.CONTINUE, "; ".join(look.judgement.reasons[:3]))


RULES: tuple[Rule, ...] = (
    harm_rolls_back,
    a_paused_rollout_waits_for_a_person,
    a_stage_soaks,
    a_safe_last_stage_completes,
    a_safe_stage_advances,
    a_stage_without_verdict_pauses,
    evidence_is_collected,
)


def next_step(look: Look) -> Step:
    """The first rule that has something to say."""
    return next(step for step in (rule(look) for rule in RULES) if step is not None)
