"""An export that a rounding tie keeps from agreeing is moved off the tie; one that is wrong is refused as before."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flows.quant import ties
from flows.quant.calibrate import calibrate
from flows.quant.export import Agreement, ExportError, export_vsr, proven
from flows.quant.lsq import ActivationQuantizer
from flows.quant.networks import QuantVsrNet
from flows.quant.ties import TRIES, proven_off_ties
from flows.tasks.vsr.architecture import HAND_MADE
from flows.tasks.vsr.net import VsrNet

FRAMES = np.random.default_rng(3).integers(0, 256, (1, 16, 16, 3), np.uint8)


@pytest.fixture
def network() -> QuantVsrNet:
    torch.manual_seed(1)
    made = QuantVsrNet(VsrNet(HAND_MADE))
    calibrate(made, [torch.rand(2, 3, 16, 16)])
    return made


def scales(network: QuantVsrNet) -> list[tuple[bool, float]]:
    return [
        (one.pinned, float(one.scale.detach())) for one in network.modules() if isinstance(one, ActivationQuantizer)
    ]


def test_a_network_that_agrees_is_left_as_it_is(network: QuantVsrNet) -> None:
    before = scales(network)
    assert proven_off_ties(network, export_vsr, FRAMES) == proven(network, export_vsr(network), FRAMES)
    assert scales(network) == before


def test_learned_grids_move_a_little_each_by_its_own_share(
    network: QuantVsrNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bytes] = []

    def tied_once(_network: QuantVsrNet, model: bytes, _frames: object) -> tuple[bytes, Agreement]:
        calls.append(model)
        if len(calls) == 1:
            raise ExportError("tie")
        return model, Agreement(0, 0.0)

    monkeypatch.setattr(ties, "proven", tied_once)
    before = scales(network)
    model, _ = proven_off_ties(network, export_vsr, FRAMES)
    assert model == calls[1] != calls[0]
    ratios = [after / first for (_, first), (_, after) in zip(before, scales(network), strict=True)]
    learned = [ratio for ratio, (pinned, _) in zip(ratios, before, strict=True) if not pinned]
    assert len(set(learned)) == len(learned)
    assert 1.0 < max(learned) < 1.002
    assert {ratio for ratio, (pinned, _) in zip(ratios, before, strict=True) if pinned} == {1.0}


def test_a_wrong_export_is_refused_after_a_few_moves(network: QuantVsrNet, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []

    def wrong(_network: QuantVsrNet, model: bytes, _frames: object) -> tuple[bytes, Agreement]:
        tried.append(model)
        raise ExportError("wrong")

    monkeypatch.setattr(ties, "proven", wrong)
    with pytest.raises(ExportError, match="wrong"):
        proven_off_ties(network, export_vsr, FRAMES)
    assert len(tried) == TRIES + 1
