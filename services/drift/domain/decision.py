"""What an alarm leads to. The ordered list `RULES` is the policy and its documentation.

Drift is not harm: retraining starts only where hard examples exist that the training set does not reach,
not while a retraining runs, not within the cool-down, not beyond the weekly budget. A run that failed releases the
cool-down, because nothing reached the fleet, but has been paid for from the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contracts.wire.drift import AlarmAction

WEEK_S = 7 * 86_400.0


@dataclass(frozen=True)
class Facts:
    """What is known when an alarm is decided. Times in seconds of the platform's clock.

    `coverage_at` is when the clusters were last computed (None: never), `clusters` and `uncovered` count
    them, `quality_fell` tells whether devices scored worse (None: not known), `retrained_at` lists past starts,
    `running` names the flow run that has not ended, if any, and `failed` tells whether the last one failed.
    """

    now: float
    raised_at: float
    coverage_at: float | None
    clusters: int
    uncovered: int
    retrained_at: tuple[float, ...]
    running: str | None
    cool_down_s: float
    weekly_budget: int
    quality_fell: bool | None = None
    failed: bool = False


@dataclass(frozen=True)
class Decision:
    """An action and the sentence that explains it to a person."""

    action: AlarmAction
    reason: str


def coverage_is_old(facts: Facts) -> Decision | None:
    """Wait until hard examples of the drifting days have been clustered."""
    if facts.coverage_at is not None and facts.coverage_at >= facts.raised_at:
        return None
    return Decision(AlarmAction.PENDING, "waiting for a clustering that is newer than the alarm")


def benign(facts: Facts) -> Decision | None:
    """The pictures changed, the quality did not, and no hard example is out of the training set's reach."""
    if facts.uncovered or facts.quality_fell or (facts.clusters and facts.quality_fell is None):
        return None
    calm = "quality did not fall and no hard cluster is uncovered"
    words = calm if facts.quality_fell is False else "no cluster of hard examples"
    return Decision(AlarmAction.BENIGN, f"benign: {words}")


def nothing_to_learn(facts: Facts) -> Decision | None:
    """Quality fell, but no device sent an example: there is nothing to train on, and a person should know."""
    if facts.clusters:
        return None
    words = "no examples: quality fell but no cluster of hard examples arrived; look at tau and the upload budget"
    return Decision(AlarmAction.NO_EXAMPLES, words)


def covered(facts: Facts) -> Decision | None:
    """The training set already reaches each cluster, at least in part."""
    if facts.uncovered:
        return None
    return Decision(AlarmAction.COVERED, f"covered: none of {facts.clusters} hard clusters is uncovered")


def already_running(facts: Facts) -> Decision | None:
    """One retraining at a time."""
    if facts.running is None:
        return None
    return Decision(AlarmAction.COOL_DOWN, f"running: retraining {facts.running} has not ended")


def cooling_down(facts: Facts) -> Decision | None:
    """Give the last retraining time to reach the fleet."""
    last = max(facts.retrained_at, default=None)
    if last is None or facts.failed or facts.now - last >= facts.cool_down_s:
        return None
    hours = (facts.now - last) / 3600
    return Decision(
        AlarmAction.COOL_DOWN,
        f"cool-down: last retraining started {hours:.1f} h ago, {facts.cool_down_s / 3600:.0f} h must pass",
    )


def over_budget(facts: Facts) -> Decision | None:
    """Bound what a noisy week can cost."""
    recent = sum(1 for start in facts.retrained_at if facts.now - start < WEEK_S)
    if recent < facts.weekly_budget:
        return None
    return Decision(AlarmAction.BUDGET, f"budget: {recent} retrainings in 7 days, {facts.weekly_budget} allowed")


RULES: tuple[Callable[[Facts], Decision | None], ...] = (
    coverage_is_old,
    benign,
    nothing_to_learn,
    covered,
    already_running,
    cooling_down,
    over_budget,
)


def decide(facts: Facts) -> Decision:
    """Return the answer of the first rule that has one; retrain when none objects."""
    for rule in RULES:
        decision = rule(facts)
        if decision is not None:
            return decision
    return Decision(AlarmAction.RETRAIN, f"{facts.uncovered} of {facts.clusters} hard clusters are uncovered")
