"""From a corpus and the production model to `quality.onnx` and `observer.npz`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from contracts.statistics.observer import ObserverParameters
from flows.data.corpus import Clip
from flows.quality.observer import build_observer, fit_score
from flows.quality.runner import QualityRunner
from flows.quality.snippets import Group, make_groups
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
    observer, figures = observe_material(model, material)
    return QualityBuild(model, observer, figures | {"max_lsb": found.max_lsb, "share": found.share})


def observe_material(model: bytes, material: Sequence[Group]) -> tuple[ObserverParameters, dict[str, float]]:
    """Score head (ridge on all frames) and observer (healthy frames) from what the exported net sees."""
    runner = QualityRunner(model)
    embeddings: list[NDArray[np.float32]] = []
    losses: list[float] = []
    healthy: list[bool] = []
    hard: list[bool] = []
    for group in material:
        condition = group.degradation
        for snippet in group.snippets:
            seen = runner.observe(snippet.frames).embedding
            embeddings.append(seen)
            losses += [group.expected_loss] * len(seen)
            healthy += [
                condition.crf <= 27 and condition.noise <= 1.5 and condition.gain >= 0.8 and condition.blur == 0.0
            ] * len(seen)
            hard += [condition.crf >= 33 and condition.noise >= 4 and condition.gain <= 0.75] * len(seen)
    values, measured = np.concatenate(embeddings), np.array(losses)
    score_w, score_b = fit_score(values, measured)
    well, bad = np.array(healthy), np.array(hard)
    observer = build_observer(model, values[well], values[bad], score_w, score_b)
    score = values.astype(np.float64) @ score_w + score_b
    return observer, {
        "score_correlation": float(np.corrcoef(score, measured)[0, 1]),
        "healthy_over_tau": float((score[well] > observer.tau).mean()),
        "hard_over_tau": float((score[bad] > observer.tau).mean()),
    }


def _calibration_batches(material: Sequence[Group], random: np.random.Generator) -> list[torch.Tensor]:
    snippets = [snippet for group in material for snippet in group.snippets]
    count = min(_CALIBRATION_SNIPPETS, len(snippets))
    picked = random.choice(len(snippets), count, replace=False)
    return [torch.from_numpy(snippets[i].frames).permute(0, 3, 1, 2).float() / 255.0 for i in picked]
