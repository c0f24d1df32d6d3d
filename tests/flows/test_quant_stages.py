"""Training in stages: what rounds and learns in each, resuming, learned zero points, fitted weight scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.quant.calibrate import calibrate
from flows.quant.lsq import ActivationQuantizer, QuantConv2d
from flows.quant.networks import QuantVsrNet
from flows.quant.qat import QuantOptions, qat
from flows.quant.stages import Stage, StagePlan, train_in_stages
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.architecture import Stage as Blocks
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.train import TrainSettings

ARCHITECTURE = Architecture(8, (Blocks(1, 8),))
BATCHES = [torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))]


@pytest.fixture
def network() -> QuantVsrNet:
    torch.manual_seed(0)
    made = QuantVsrNet(VsrNet(ARCHITECTURE))
    calibrate(made, BATCHES)
    return made


def _loss(network: nn.Module) -> Tensor:
    x = BATCHES[0]
    return F.l1_loss(network(x), x.repeat_interleave(2, 2).repeat_interleave(2, 3))


def _scales(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.named_parameters() if name.endswith("log_scale")}


def _convs(network: nn.Module) -> list[QuantConv2d]:
    return [module for module in network.modules() if isinstance(module, QuantConv2d)]


def test_weights_round_from_the_second_stage_on_and_scales_learn_in_the_last(network: QuantVsrNet) -> None:
    seen: list[tuple[bool, bool]] = []

    def loss_of(_step: int, _random: np.random.Generator) -> Tensor:
        seen.append((all(conv.enabled for conv in _convs(network)), network.head_grid.log_scale.requires_grad))
        return _loss(network)

    rounded = train_in_stages(network, loss_of, BATCHES, Budget(steps=8), rate=1e-3, plan=StagePlan(0.25, 0.25, 0.5))
    assert seen == [(False, False)] * 2 + [(True, False)] * 2 + [(True, True)] * 4
    assert len(rounded) == len(_convs(network))
    assert not network.input_grid.log_scale.requires_grad, "a pinned grid never learns"


@pytest.mark.parametrize("rounded", [False, True])
def test_the_pixel_grid_rounds_while_training_only_when_asked_for(network: QuantVsrNet, rounded: bool) -> None:
    def loss_of(_step: int, _random: np.random.Generator) -> Tensor:
        with torch.no_grad():
            codes = network(BATCHES[0]) * 255.0
        assert bool(torch.allclose(codes, codes.round(), atol=1e-3)) is rounded
        assert network.head_grid.enabled
        return _loss(network)

    plan = StagePlan(rounded_ends=rounded)
    train_in_stages(network, loss_of, BATCHES, Budget(steps=7), rate=1e-3, plan=plan)
    assert network.output_grid.enabled
    assert network.tail_grid.enabled


def test_steps_are_counted_over_all_stages(network: QuantVsrNet) -> None:
    steps: list[int] = []

    def loss_of(step: int, _random: np.random.Generator) -> Tensor:
        steps.append(step)
        return _loss(network)

    train_in_stages(network, loss_of, BATCHES, Budget(steps=7), rate=1e-3)
    assert steps == list(range(7))


def test_activation_scales_hold_still_before_the_last_stage(network: QuantVsrNet) -> None:
    before = _scales(network)
    plan = StagePlan(0.5, 0.5, 0.0)
    train_in_stages(network, lambda _s, _r: _loss(network), BATCHES, Budget(steps=6), rate=1e-2, plan=plan)
    grids = {name: value for name, value in _scales(network).items() if "grid" in name}
    assert all(torch.equal(value, before[name]) for name, value in grids.items())


def test_a_run_that_was_killed_in_any_stage_ends_with_the_same_weights(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def trained(folder: Path, kill_at: int | None) -> QuantVsrNet:
        torch.manual_seed(0)
        made = QuantVsrNet(VsrNet(ARCHITECTURE))
        calibrate(made, BATCHES)

        def loss_of(step: int, random: np.random.Generator) -> Tensor:
            if step == kill_at:
                raise Killed
            return _loss(made) * float(random.uniform(0.5, 1.5))

        plan = StagePlan(0.25, 0.25, 0.5, zero_points=True)
        train_in_stages(made, loss_of, BATCHES, Budget(steps=12), rate=1e-3, plan=plan, checkpoint=folder / "qat.pt")
        return made

    (tmp_path / "whole").mkdir()
    whole = trained(tmp_path / "whole", None).state_dict()
    for kill_at in (1, 3, 4, 7, 11):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        with pytest.raises(Killed):
            trained(folder, kill_at)
        again = trained(folder, None).state_dict()
        assert all(torch.equal(again[name], value) for name, value in whole.items()), kill_at


def test_a_learned_zero_point_moves_to_where_values_are() -> None:
    grid = ActivationQuantizer(0.01, 0)
    grid.learn_zero_point()
    assert grid.shift is not None
    optimiser = torch.optim.SGD([grid.shift], 2e3)
    x = torch.linspace(-1.0, 1.0, 201)
    with torch.no_grad():
        before = float((grid(x) - x).square().mean())
    for _ in range(100):
        optimiser.zero_grad()
        torch.autograd.backward((grid(x) - x).square().mean())
        optimiser.step()
    grid.settle_zero_point()
    assert grid.shift is None
    assert float(grid.zero_point) == float(grid.zero_point.round()) > 80.0
    with torch.no_grad():
        assert float((grid(x) - x).square().mean()) < before / 100


def test_a_pinned_grid_has_no_zero_point_to_learn() -> None:
    grid = ActivationQuantizer(1 / 255, 128, pinned=True)
    grid.learn_zero_point()
    assert grid.shift is None


def test_learned_zero_points_are_exported_as_they_were_trained(pairs: PairSet) -> None:
    torch.manual_seed(0)
    plan = StagePlan(zero_points=True)
    settings = TrainSettings(batch=4, patch=16, rate=5e-4)
    found = qat(VsrNet(ARCHITECTURE), pairs, None, Budget(steps=12), settings=settings, options=QuantOptions(plan=plan))
    assert found.agreement.ok


def test_a_fitted_scale_rounds_every_channel_no_worse() -> None:
    torch.manual_seed(0)
    plain = nn.Conv2d(8, 16, 3)
    with torch.no_grad():
        plain.weight[:, 0, 0, 0] *= 6.0
    conv, unit = QuantConv2d(plain), torch.ones(())

    def errors() -> Tensor:
        scale = conv.weight_scale(unit).view(-1, 1, 1, 1)
        return (conv.weight_codes(unit) * scale - conv.weight).detach().square().sum(dim=(1, 2, 3))

    before = errors()
    conv.refit()
    assert bool((errors() <= before).all())


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5), (-0.5, 0.5, 1.0)])
def test_shares_that_are_no_shares_are_refused(shares: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        StagePlan(*shares)


def test_stages_that_are_shorter_than_a_step_still_round(network: QuantVsrNet) -> None:
    train_in_stages(network, lambda _s, _r: _loss(network), BATCHES, Budget(steps=1), rate=1e-3)
    scale = network.input_grid.scale
    codes = network.head.weight / network.head.weight_scale(scale).view(-1, 1, 1, 1)
    assert torch.allclose(codes, codes.round(), atol=1e-3)


def test_a_stage_of_no_share_is_left_out() -> None:
    assert [stage for stage, _ in StagePlan(0.0, 0.0, 1.0).stages] == [Stage.SCALES]


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    y, x = np.mgrid[0:48, 0:64]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 50 * np.cos(y[..., None] / 3.0)
    frames = np.clip(waves + np.random.default_rng(0).normal(0, 8, (4, 48, 64, 3)), 0, 255).astype(np.uint8)
    return PairSet((Pair("waves", NORMAL, shrink(frames, 2), frames),))


def test_training_in_stages_recovers_the_loss_of_rounding(pairs: PairSet) -> None:
    torch.manual_seed(0)
    net = VsrNet(ARCHITECTURE)
    settings = TrainSettings(batch=4, patch=16, rate=5e-4)
    rounded = qat(net, pairs, None, None, settings=settings)
    staged = qat(net, pairs, None, Budget(steps=40), settings=settings, options=QuantOptions(plan=StagePlan()))
    assert staged.agreement.ok
    assert evaluate(staged.model, pairs).psnr_rgb > evaluate(rounded.model, pairs).psnr_rgb


def test_the_teacher_is_left_out_when_its_share_is_nothing(pairs: PairSet, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = VsrNet(ARCHITECTURE)
    asked: list[int] = []
    whole = VsrNet.forward

    def forward(self: VsrNet, x: Tensor) -> Tensor:
        asked.append(1)
        return whole(self, x)

    monkeypatch.setattr(VsrNet, "forward", forward)
    settings = TrainSettings(batch=2, patch=16)
    for share, times in ((0.0, 0), (0.5, 3)):
        asked.clear()
        qat(net, pairs, None, Budget(steps=3), settings=settings, options=QuantOptions(teacher=share))
        assert len(asked) == times
    with pytest.raises(ValueError, match="0 to 1"):
        QuantOptions(teacher=1.5)
