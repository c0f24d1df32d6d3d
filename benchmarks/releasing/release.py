"""One release from its first stage to its end: plan, looks, verdicts and state machine are the product's own."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.releasing.population import Bundle, Population
from contracts.wire.releases import RolloutState
from services.releases.domain.machine import Event, Look, Step, after, next_step
from services.releases.domain.plan import plan_stages
from services.releases.limits import ROLLOUT
from services.releases.verdict import Memory, VerdictPolicy, clean_canary, judge, watch

POLICY = VerdictPolicy()
REQUESTED = (500, 2_500, 10_000)
SOAK_S, LOOK_S, SILENT_AFTER_S = 4 * 3_600.0, 3_600.0, 8 * 3_600.0
MIN_DEVICES = 5
MOST_LOOKS = 400


@dataclass(frozen=True)
class Ending:
    """How a release ended: state, why, looks taken, share of the fleet that ever ran the new bundle."""

    state: RolloutState
    why: str
    looks: int
    exposed: float
    metric: str = ""

    @property
    def shipped(self) -> bool:
        return self.state is RolloutState.COMPLETED


def release(bundle: Bundle, devices: int, seed: int) -> Ending:
    """Let one release run until it ends or pauses for a person."""
    population = Population(devices, seed)
    points = plan_stages(
        REQUESTED,
        {name: [int(one) for one in places] for name, places in population.fleet().items()},
        MIN_DEVICES,
        POLICY.minimum_canary,
        POLICY.stratum_share,
        lambda share: clean_canary(POLICY, share, devices),
    )
    state, stage, waited, memory = RolloutState.RUNNING, 0, 0.0, Memory()
    for look in range(1, MOST_LOOKS):
        population.live(points[stage], bundle)
        waited += LOOK_S
        evidence = population.evidence(points, stage)
        memory = watch(memory, evidence, POLICY)
        last = stage == len(points) - 1
        following = 1.0 if last else points[stage + 1] / 10_000
        judgement = judge(evidence, POLICY, following, MIN_DEVICES, memory)
        patience = ROLLOUT.patience * SILENT_AFTER_S
        step = next_step(Look(state, last, waited, waited, SOAK_S, patience, ROLLOUT.patience_floor_s, judgement))
        if step.event is None:
            continue
        state = after(state, step.event)
        if step.event is not Event.ADVANCE:
            worst = judgement.worst
            exposed = float(population.started.mean())
            return Ending(state, step.why, look, exposed, worst.metric if worst else "")
        stage, waited = stage + 1, 0.0
    raise RuntimeError(f"a release without an end after {MOST_LOOKS} looks: {step_words(step)}")


def step_words(step: Step) -> str:
    """For an error."""
    return f"{step.decision.value}, {step.why}"
