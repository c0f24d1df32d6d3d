"""Better starts for quantisation: equalisation, KL ranges, rounding by output error, and the table of layer costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.quant.adaround import adaround, choose_codes
from flows.quant.calibrate import StreamingHistogram, calibrate, choose_grid, rounding_error
from flows.quant.divergence import divergence, kl_range
from flows.quant.equalise import equalised, ranges
from flows.quant.networks import QuantVsrNet
from flows.quant.qat import QAT_SETTINGS, QuantOptions, qat
from flows.quant.sensitivity import Part, as_json, as_text, layer_sensitivity
from flows.tasks.vsr.architecture import Architecture, Stage
from flows.tasks.vsr.net import ResidualBlock, VsrNet

ARCHITECTURE = Architecture(8, (Stage(1, 8), Stage(1, 12, 5)))


@pytest.fixture
def net() -> VsrNet:
    """A network with uneven inner channels and one that is dead."""
    torch.manual_seed(0)
    made = VsrNet(ARCHITECTURE)
    with torch.no_grad():
        for block in made.blocks:
            assert isinstance(block, ResidualBlock)
            block.expand.weight.mul_(torch.logspace(-2, 2, block.expand.out_channels).view(-1, 1, 1, 1))
            block.expand.weight[0] = 0.0
            block.project.weight.mul_(5.0)
            assert block.expand.bias is not None
            block.expand.bias.uniform_(-0.1, 0.1)
    return made


@pytest.fixture
def batch() -> torch.Tensor:
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def _blocks(net: VsrNet) -> list[ResidualBlock]:
    return [block for block in net.blocks if isinstance(block, ResidualBlock)]


def test_equalisation_leaves_the_float_function_unchanged_bit_for_bit(net: VsrNet, batch: torch.Tensor) -> None:
    made = equalised(net)
    with torch.inference_mode():
        assert torch.equal(made(batch), net(batch))
    assert not torch.equal(_blocks(made)[0].expand.weight, _blocks(net)[0].expand.weight)


def test_equalisation_brings_the_two_ranges_of_a_channel_together(net: VsrNet) -> None:
    def unevenness(block: ResidualBlock) -> torch.Tensor:
        into, out = ranges(block)
        return (torch.log2(into[1:]) - torch.log2(out[1:])).abs()

    for before, after in zip(_blocks(net), _blocks(equalised(net)), strict=True):
        assert float(unevenness(after).max()) <= 1.0 + 1e-5, "within the rounding to powers of two"
        assert float(unevenness(before).max()) > 4.0


def test_equalisation_leaves_a_dead_channel_and_the_given_net_alone(net: VsrNet) -> None:
    kept = [block.expand.weight.clone() for block in _blocks(net)]
    made = equalised(net)
    assert all(torch.equal(a, b.expand.weight) for a, b in zip(kept, _blocks(net), strict=True))
    assert all(bool(torch.isfinite(value).all()) for value in made.state_dict().values())
    assert torch.equal(_blocks(made)[0].project.weight[:, 0], _blocks(net)[0].project.weight[:, 0])


def _histogram(values: torch.Tensor) -> StreamingHistogram:
    made = StreamingHistogram()
    made.observe(values)
    return made


@pytest.mark.parametrize("seed", range(12))
def test_kl_is_never_chosen_when_it_rounds_worse(seed: int) -> None:
    random = np.random.default_rng(seed)
    shapes = (
        random.normal(0, 1, 4000),
        random.laplace(0, 1, 4000),
        random.uniform(-1, 3, 4000),
        random.exponential(1, 4000),
    )
    tail = random.normal(0, random.uniform(2, 30), 20)
    histogram = _histogram(torch.tensor(np.concatenate((shapes[seed % 4], tail)), dtype=torch.float32))
    plain, wider = choose_grid(histogram), choose_grid(histogram, kl=True)
    assert rounding_error(histogram, wider) <= rounding_error(histogram, plain)
    assert wider.rule == "kl" or wider == plain


def test_kl_is_off_by_default_and_wins_only_by_rounding_better(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.tensor(np.random.default_rng(0).laplace(0, 1, 40_000), dtype=torch.float32)
    histogram = _histogram(values)
    assert choose_grid(histogram).rule != "kl"
    edge = max(-histogram.low, histogram.high)
    rules = set()
    for share in np.linspace(0.3, 1.0, 60):
        ends = (max(histogram.low, -edge * share), min(histogram.high, edge * share))
        monkeypatch.setattr("flows.quant.calibrate.kl_range", lambda *_given, ends=ends: ends)
        rules.add(choose_grid(histogram, kl=True).rule)
    assert len(rules) == 2
    assert "kl" in rules


def test_kl_range_cuts_a_lone_outlier_and_keeps_an_even_spread() -> None:
    outlier = _histogram(torch.cat([torch.rand(200_000), torch.tensor([20.0])]))
    low, high = kl_range(outlier.centres(), outlier.counts, outlier.low, outlier.high)
    assert (low, high < 10.0) == (0.0, True)
    even = _histogram(torch.linspace(-1, 1, 50_000))
    low, high = kl_range(even.centres(), even.counts, even.low, even.high)
    assert (low, high) == pytest.approx((-1.0, 1.0), abs=0.05)


def test_divergence_is_zero_when_nothing_is_lost() -> None:
    centres = np.arange(256.0)
    counts = np.random.default_rng(0).integers(1, 100, 256).astype(float)
    assert divergence(centres, counts, 0.0, 255.0) == pytest.approx(0.0, abs=1e-12)
    assert divergence(centres, counts, 0.0, 60.0) > 0.1


def test_rounding_is_never_worse_than_to_nearest_and_stays_next_to_the_weight() -> None:
    random = torch.Generator().manual_seed(3)
    wished = torch.randn(6, 40, generator=random, dtype=torch.float64) * 20
    inputs = torch.randn(300, 40, generator=random, dtype=torch.float64).cumsum(dim=1)
    moments = inputs.T @ inputs / len(inputs)
    codes = choose_codes(wished, wished.round(), moments)
    assert bool(((codes - wished).abs() < 1.0).all())
    errors = [((inputs @ (given - wished).T) ** 2).mean(dim=0) for given in (wished.round(), codes)]
    assert bool((errors[1] <= errors[0]).all())
    assert float(errors[1].mean()) < 0.5 * float(errors[0].mean()), "correlated inputs leave much to gain"


def test_rounding_of_a_network_lowers_its_layers_errors_and_lies_on_the_grid(net: VsrNet, batch: torch.Tensor) -> None:
    network = QuantVsrNet(equalised(net))
    calibrate(network, [batch])
    rows = adaround(network, [batch])
    assert {row.layer for row in rows} >= {"head", "tail", "blocks.0.expand", "blocks.1.project"}
    assert all(row.chosen <= row.nearest for row in rows)
    assert sum(row.flipped for row in rows) > 0
    scale = network.head.weight_scale(network.input_grid.scale).view(-1, 1, 1, 1)
    steps = (network.head.weight / scale).detach()
    assert torch.allclose(steps, steps.round(), atol=1e-3)
    again = QuantVsrNet(equalised(net))
    calibrate(again, [batch])
    assert adaround(again, [batch]) == rows


def test_layer_costs_find_the_layer_that_was_spoilt(net: VsrNet, batch: torch.Tensor) -> None:
    network = QuantVsrNet(equalised(net))
    calibrate(network, [batch])
    with torch.no_grad():
        network.tail.log_scale.add_(4.0)
    rows = layer_sensitivity(network, [batch])
    assert next(row for row in rows if row.part is Part.WEIGHTS).layer == "tail"
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert [row.error for row in rows] == sorted((row.error for row in rows), reverse=True)
    assert len(rows) == 2 + 2 * ARCHITECTURE.depth + 4 + 3 * ARCHITECTURE.depth


def test_layer_costs_leave_the_network_as_it_was(net: VsrNet, batch: torch.Tensor) -> None:
    network = QuantVsrNet(net).eval()
    calibrate(network, [batch])
    with torch.inference_mode():
        before = network(batch)
        layer_sensitivity(network, [batch])
        assert torch.equal(network(batch), before)
    assert not network.training


def test_layer_costs_as_json_and_text(net: VsrNet, batch: torch.Tensor) -> None:
    network = QuantVsrNet(net)
    calibrate(network, [batch])
    rows = layer_sensitivity(network, [batch])
    spotless = replace(rows[0], error=0.0, psnr_db=float("inf"))
    assert as_json([spotless])[0]["psnr_db"] is None
    assert as_text(rows).count("| weights |") == 2 + 2 * ARCHITECTURE.depth


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    y, x = np.mgrid[0:96, 0:96]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 50 * np.cos(y[..., None] / 3.0)
    frames = np.clip(waves + np.random.default_rng(0).normal(0, 8, (4, 96, 96, 3)), 0, 255).astype(np.uint8)
    return PairSet((Pair("waves", NORMAL, shrink(frames, 2), frames),))


def test_options_are_off_by_default_and_each_still_gives_an_exact_export(pairs: PairSet) -> None:
    torch.manual_seed(0)
    net = VsrNet(ARCHITECTURE)
    plain = qat(net, pairs, None, None, settings=QAT_SETTINGS)
    assert qat(net, pairs, None, None, settings=QAT_SETTINGS, options=QuantOptions()).model == plain.model
    for options in (QuantOptions(equalise=True), QuantOptions(kl=True), QuantOptions(adaround=True)):
        made = qat(net, pairs, None, None, settings=QAT_SETTINGS, options=options)
        assert made.agreement.ok
    assert made.model != plain.model
