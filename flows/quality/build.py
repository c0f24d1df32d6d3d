"""From a corpus and the production model to `quality.onnx` and `observer.npz`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from contracts.statistics.observer import ObserverParameters
from flows.data.corpus import Clip
from flows.data.degrade import HARD_VARIETY, NORMAL_VARIETY, Degradation
from flows.quality.observer import build_observer, choose_tau, fit_score
from flows.quality.runner import QualityRunner
from flows.quality.snippets import Group, is_healthy, make_groups, natural_frames
from flows.quality.train import QualitySettings, train_quality
from flows.quant.calibrate import calibrate
from flows.quant.export import agreement, export_quality
from flows.quant.networks import QuantQualityNet
from flows.tasks.training import Budget, Progress
from flows.tasks.vsr.metrics import Upscaler

_CALIBRATION_SNIPPETS = 200


@dataclass(frozen=True)
class QualityBuild:
    """The exported net, its observer, and figures measured on training material."""

    model: bytes
    observer: ObserverParameters
    figures: dict[str, float]


def build_quality(
    clips: Sequence[Clip],
    upscale: Upscaler,
    budget: Budget,
    *,
    groups: int = 300,
    contents: int = 6,
    settings: QualitySettings | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> QualityBuild:
    """Make material, train, quantise, and fit score head and observer on what the quantised net puts out."""
    random = np.random.default_rng(seed)
    material = make_groups(clips, upscale, groups, contents, random)
    trainee = train_quality(material, budget, settings=settings, progress=progress)
    network = QuantQualityNet(trainee.net)
    calibrate(network, _calibration_batches(material, random))
    model = export_quality(network)
    sample = material[0].snippets[0].frames
    found = agreement(network, model, sample)
    observer, figures = observe_material(model, material, clips, random)
    return QualityBuild(model, observer, figures | {"max_lsb": found.max_lsb, "share": found.share})


def observe_material(
    model: bytes, material: Sequence[Group], clips: Sequence[Clip], random: np.random.Generator
) -> tuple[ObserverParameters, dict[str, float]]:
    """Score head (ridge on all frames), observer (healthy frames) and tau (unaltered scenes)."""
    runner = QualityRunner(model)
    embeddings: list[NDArray[np.float32]] = []
    losses: list[float] = []
    healthy: list[bool] = []
    for group in material:
        for snippet in group.snippets:
            seen = runner.observe(snippet.frames).embedding
            embeddings.append(seen)
            losses += [group.expected_loss] * len(seen)
            healthy += [is_healthy(group.degradation)] * len(seen)
    values, measured = np.concatenate(embeddings), np.array(losses)
    score_w, score_b = fit_score(values, measured)

    def scores(conditions: Sequence[Degradation]) -> NDArray[np.float64]:
        frames = natural_frames(clips, conditions, random)
        seen = np.concatenate([runner.observe(some).embedding for some in frames]).astype(np.float64)
        return np.asarray(seen @ score_w + score_b)

    well, bad = scores(NORMAL_VARIETY), scores(HARD_VARIETY)
    tau = choose_tau(well, bad)
    observer = build_observer(model, values[np.array(healthy)], score_w, score_b, tau)
    fitted = values.astype(np.float64) @ score_w + score_b
    return observer, {
        "score_correlation": float(np.corrcoef(fitted, measured)[0, 1]),
        "tau": tau,
        "healthy_over_tau": float((well > tau).mean()),
        "hard_over_tau": float((bad > tau).mean()),
    }


def _calibration_batches(material: Sequence[Group], random: np.random.Generator) -> list[torch.Tensor]:
    snippets = [snippet for group in material for snippet in group.snippets]
    count = min(_CALIBRATION_SNIPPETS, len(snippets))
    picked = random.choice(len(snippets), count, replace=False)
    return [torch.from_numpy(snippets[i].frames).permute(0, 3, 1, 2).float() / 255.0 for i in picked]
