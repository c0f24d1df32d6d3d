"""The quality net: material, invariance terms, observer, and what a device would see."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from contracts.features import segment_vector
from contracts.statistics.observer import ObserverParameters
from flows.data.corpus import Split, default_corpus
from flows.data.degrade import HARD, NORMAL, Degradation
from flows.quality.build import build_quality
from flows.quality.net import QualityNet
from flows.quality.observer import build_observer, choose_tau, fit_score, whitening
from flows.quality.runner import QualityRunner
from flows.quality.snippets import is_healthy, labels_of, make_groups, quality_loss, sample_degradation, vary_content
from flows.quality.train import QualityTrainee, observe_snippets, reverse_gradient, soft_codes, spread_ratio
from flows.tasks.training import Budget
from flows.tasks.vsr.metrics import Upscaler


def nearest(low: np.ndarray) -> np.ndarray:
    return low.repeat(2, axis=1).repeat(2, axis=2)


@pytest.fixture(scope="module")
def built() -> tuple[bytes, ObserverParameters, dict[str, float]]:
    upscale: Upscaler = nearest
    clips = [clip for clip in default_corpus().of(Split.TRAIN) if clip.video == "bikes"]
    made = build_quality(clips, upscale, Budget(steps=4), groups=12, contents=2)
    return made.model, made.observer, made.figures


def test_output_sizes_are_those_of_five_halvings() -> None:
    features, embedding = QualityNet()(torch.rand(2, 3, 72, 88))
    assert features.shape == (2, 16, 3, 3)
    assert embedding.shape == (2, 256, 3, 3)
    assert float(features.min().detach()) >= 0.0
    assert float(features.max().detach()) <= 1.0


def test_soft_codes_are_the_codes_that_devices_send() -> None:
    features = torch.rand(1, 16, 3, 4)
    raw = np.rint(features.numpy()[0].transpose(1, 2, 0) * 255.0)
    exact = torch.from_numpy(raw / 255.0).permute(2, 0, 1)[None].float()
    sent = segment_vector([(raw.astype(np.uint8) >> 4)])
    assert np.allclose(soft_codes(exact).mean((2, 3)).numpy()[0], sent[:16], atol=1e-6)


def test_trained_vector_equals_the_device_vector(built: tuple[bytes, ObserverParameters, dict[str, float]]) -> None:
    model, _, figures = built
    frames = np.random.default_rng(0).integers(0, 255, (3, 72, 88, 3), dtype=np.uint8)
    seen = QualityRunner(model).observe(frames)
    assert seen.features.shape == (3, 3, 3, 16)
    assert seen.embedding.shape == (3, 256)
    assert np.array_equal(seen.vector, segment_vector(seen.features >> 4))
    assert figures["max_lsb"] <= 1


def test_material_shares_a_condition_inside_a_group_and_varies_content() -> None:
    clips = [default_corpus().clip("bikes/1")]
    first, second = (make_groups(clips, nearest, 2, 3, np.random.default_rng(4)) for _ in range(2))
    assert [s.group for g in first for s in g.snippets] == [0, 0, 0, 1, 1, 1]
    assert all(
        np.array_equal(a.frames, b.frames)
        for g, h in zip(first, second, strict=True)
        for a, b in zip(g.snippets, h.snippets, strict=True)
    )
    assert not np.array_equal(first[0].snippets[0].frames[0][:40, :40], first[0].snippets[1].frames[0][:40, :40])


def test_changing_content_keeps_shape_and_type() -> None:
    frames = np.random.default_rng(0).integers(0, 255, (2, 32, 48, 3), dtype=np.uint8)
    for seed in range(8):
        varied = vary_content(frames, np.random.default_rng(seed))
        assert varied.shape == frames.shape
        assert varied.dtype == np.uint8


def test_loss_is_zero_for_a_healthy_call_and_grows_with_the_condition() -> None:
    y, x = np.mgrid[0:144, 0:176]
    high = np.clip(127 + 90 * np.sin(x / 4.0) * np.cos(y / 5.0), 0, 255).astype(np.uint8)
    high = np.repeat(np.repeat(high[None, ..., None], 3, axis=3), 9, axis=0)
    low = nearest(high[:, ::4, ::4])
    healthy = quality_loss(nearest, high, high[:, ::2, ::2], high, 1.0)
    worse = quality_loss(nearest, high, low, high, 1.0)
    assert worse > healthy + 1.0


def test_a_third_of_the_drawn_conditions_is_healthy() -> None:
    random = np.random.default_rng(0)
    drawn = [sample_degradation(random) for _ in range(300)]
    assert 0.25 < np.mean([is_healthy(d) for d in drawn]) < 0.5


def test_labels_tell_conditions_apart() -> None:
    assert np.linalg.norm(labels_of(HARD) - labels_of(NORMAL)) > 1.0
    assert np.allclose(labels_of(NORMAL), labels_of(Degradation(seed=5)))


def test_spread_ratio_is_small_when_groups_are_tight() -> None:
    groups = torch.tensor([0, 0, 1, 1])
    tight = torch.tensor([[0.0], [0.01], [1.0], [1.01]])
    loose = torch.tensor([[0.0], [1.0], [0.01], [1.01]])
    assert float(spread_ratio(tight, groups)) < 0.01 < float(spread_ratio(loose, groups))


def test_adversary_gradient_is_reversed() -> None:
    x = torch.ones(3, requires_grad=True)
    reverse_gradient(x, 0.5).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), -0.5))


def test_snippets_of_mixed_sizes_come_back_in_order() -> None:
    groups = make_groups([default_corpus().clip("bikes/1")], nearest, 2, 3, np.random.default_rng(1))
    snippets = [s for g in groups for s in g.snippets]
    trainee = QualityTrainee(QualityNet(), 1).eval()
    with torch.no_grad():
        together = observe_snippets(trainee, snippets)[0]
        alone = torch.cat([observe_snippets(trainee, [s])[0] for s in snippets])
    assert torch.allclose(together, alone, atol=1e-5)


def test_score_head_recovers_a_linear_rule() -> None:
    random = np.random.default_rng(0)
    embeddings = random.normal(size=(2000, 256)).astype(np.float32)
    weights = random.normal(size=256)
    found, offset = fit_score(embeddings, embeddings @ weights + 3.0)
    assert np.corrcoef(embeddings @ found + offset, embeddings @ weights)[0, 1] > 0.999


def test_threshold_stays_above_healthy_frames() -> None:
    healthy, hard = np.linspace(0, 1, 1000), np.linspace(0.5, 4, 1000)
    assert (healthy > choose_tau(healthy, hard)).mean() < 0.01
    assert choose_tau(healthy, hard + 4) == pytest.approx(0.995 + 0.25 * (4.85 - 0.995), abs=0.01)


def test_whitened_healthy_frames_have_about_unit_variance_and_no_direction_explodes() -> None:
    random = np.random.default_rng(0)
    standard = random.normal(size=(4000, 12)) @ random.normal(size=(12, 256))
    standard /= standard.std(axis=0)
    variance = np.var(standard @ whitening(standard).T, axis=0)
    assert 0.8 < variance[0] < 1.2
    assert variance.max() < 1.5


def test_observer_is_complete_and_repeats(built: tuple[bytes, ObserverParameters, dict[str, float]]) -> None:
    _, observer, _ = built
    assert ObserverParameters.from_bytes(observer.to_bytes()).to_bytes() == observer.to_bytes()
    assert bool(np.all(np.diff(observer.edges, axis=1) > 0))
    z, _ = observer.standardize(observer.mu0)
    assert np.allclose(z, 0.0)


def test_observer_survives_dead_dimensions() -> None:
    values = np.random.default_rng(0).uniform(size=(300, 256)).astype(np.float32)
    values[:, 7] = 0.0
    observer = build_observer(b"model", values, np.ones(256), 0.0, 1.0)
    assert np.isfinite(observer.projection).all()
    assert (observer.sd0 > 0).all()
