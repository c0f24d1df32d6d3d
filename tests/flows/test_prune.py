"""Channels go where they are missed least, the budget is met, and training wins back what the cut cost."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.errors import FlowError
from flows.search.prune import cut, prune
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import Architecture, Stage
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.train import TrainSettings, train_net

WIDE = Architecture(8, (Stage(1, 16), Stage(1, 16)))
SMALL = TrainSettings(batch=4, patch=16, hard_share=0.25)


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    y, x = np.mgrid[0:64, 0:64]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 60 * np.cos(y[..., None] / 3.0)
    high = np.clip(np.stack([np.roll(waves, shift, 1) for shift in range(4)]), 0, 255).astype(np.uint8)
    return PairSet((Pair("waves", NORMAL, shrink(high, 2), high),))


@pytest.fixture(scope="module")
def wide(pairs: PairSet) -> torch.nn.Module:
    """A trained network whose second stage does next to nothing in its last twelve channels."""
    net = train_net(WIDE, pairs, Budget(steps=150), settings=SMALL)
    with torch.no_grad():
        net.blocks[1].project.weight[:, 4:].mul_(1e-3)
    return net


def test_the_stage_that_is_missed_least_is_cut_first_and_training_recovers(
    pairs: PairSet, wide: torch.nn.Module
) -> None:
    weights = {name: value.clone() for name, value in wide.state_dict().items()}
    found = prune(
        wide, WIDE, (4, 8, 16), lambda one: float(one.parameters()), 0.8, pairs, pairs, pairs, Budget(steps=120),
        settings=SMALL,
    )  # fmt: skip
    assert [step.stage for step in found.steps][:2] == [1, 1]
    assert found.architecture.parameters() <= 0.8 * WIDE.parameters()
    assert found.cut <= found.before + 0.01
    assert found.recovered > found.cut
    assert found.recovered > found.before - 0.5
    assert all(torch.equal(weights[name], value) for name, value in wide.state_dict().items()), "the parent is kept"


def test_limit_that_no_width_meets_is_refused_with_a_remedy(pairs: PairSet, wide: torch.nn.Module) -> None:
    with pytest.raises(FlowError, match=r"pruning ends at 0\.\d+ of the cost.*; allow widths below 8"):
        prune(
            wide, WIDE, (8, 16), lambda one: float(one.parameters()), 0.1, pairs, pairs, pairs, Budget(steps=1),
            settings=SMALL,
        )  # fmt: skip


def test_limit_that_is_met_already_cuts_nothing(pairs: PairSet, wide: torch.nn.Module) -> None:
    found = prune(
        wide, WIDE, (8, 16), lambda one: float(one.parameters()), 1.0, pairs, pairs, pairs, Budget(steps=1),
        settings=SMALL,
    )  # fmt: skip
    assert (found.architecture, found.steps) == (WIDE, ())
    assert found.cut == found.before


def test_history_is_kept_when_stages_get_narrower(pairs: PairSet) -> None:
    recurrent = Architecture(8, (Stage(1, 16),), 4)
    found = cut(VsrNet(recurrent), recurrent, (4, 8, 16), lambda one: float(one.parameters()), 0.8, pairs)
    assert (found.architecture.history, found.architecture.stages[0].mid < 16) == (4, True)


def test_width_that_saves_nothing_is_passed_over(pairs: PairSet, wide: torch.nn.Module) -> None:
    def by_sixteens(one: Architecture) -> float:
        return float(sum(-(-(stage.mid + 4) // 16) for stage in one.stages))

    found = cut(wide, WIDE, (4, 8, 14, 16), by_sixteens, 0.8, pairs)
    assert [(step.stage, step.mid, step.cost) for step in found.steps] == [(1, 8, 3.0)]
