"""The conditions that training gets lie near every cluster, not near the heaviest stand-ins only."""

from __future__ import annotations

import numpy as np

from flows.data.degrade import Degradation
from flows.data.pairs import View
from flows.hardset import HardSet, StandIn, TargetCluster
from flows.steps.hard import MAX_CONDITIONS, choose_conditions, hard_conditions


def stand_in(cluster: str, noise: float, place: float, reached: int) -> StandIn:
    vectors = np.full((2, 32), place, np.float32)
    return StandIn(cluster, "clip", View(), Degradation(gain=0.5, noise=noise), vectors, 0.0, reached)


def hard_set(*stand_ins: StandIn) -> HardSet:
    return HardSet(stand_ins, 0.1, {}, {}, {}, len(stand_ins))


def test_a_light_cluster_far_away_gets_a_condition() -> None:
    """Twelve stand-ins of one dense cluster weigh more, each, than the only one of a small cluster."""
    dense = [stand_in("dense", noise, 0.001 * noise, 9) for noise in range(1, 13)]
    lone = stand_in("lone", 30.0, 1.0, 2)
    members = np.concatenate([one.vectors for one in dense])
    clusters = [TargetCluster("dense", members), TargetCluster("lone", np.full((2, 32), 1.0, np.float32))]
    chosen = choose_conditions(hard_set(*dense, lone), clusters)
    assert len(chosen) <= MAX_CONDITIONS
    assert lone.degradation in chosen
    heaviest = sorted((*dense, lone), key=lambda one: -one.reached)[:MAX_CONDITIONS]
    assert lone not in heaviest


def test_the_condition_that_most_members_lie_near_comes_first() -> None:
    near, far = stand_in("a", 1.0, 0.0, 5), stand_in("b", 2.0, 1.0, 5)
    clusters = [TargetCluster("a", np.zeros((2, 32), np.float32)), TargetCluster("b", np.ones((7, 32), np.float32))]
    assert choose_conditions(hard_set(near, far), clusters) == (far.degradation, near.degradation)


def test_without_stand_ins_there_is_no_condition() -> None:
    assert choose_conditions(hard_set(), [TargetCluster("a", np.zeros((1, 32), np.float32))]) == ()


def test_conditions_come_back_from_the_record() -> None:
    assert hard_conditions({"conditions": [{"gain": 0.5, "noise": 3.0}]}) == (Degradation(gain=0.5, noise=3.0),)
