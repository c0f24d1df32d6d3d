"""The seed command makes everything that the loop starts from, small enough to commit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from contracts.statistics.observer import ObserverParameters
from flows.limits import LIMITS
from flows.seed import SeedError, SeedPlan, make_seeds
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE
from flows.tasks.vsr.metrics import as_upscaler
from flows.tasks.vsr.supernet import load_supernet
from flows.tasks.vsr.weights import load_net

SEEDS = Path(__file__).parents[2] / "seeds"


def test_committed_seeds_are_whole_and_small() -> None:
    assert sum(path.stat().st_size for path in SEEDS.iterdir()) <= LIMITS.max_seed_bytes
    described = json.loads((SEEDS / "seed.json").read_text())
    assert described["command"].startswith("python -m flows.seed")
    assert {clip["split"] for clip in described["corpus"]["clips"]} == {"train", "held-out"}
    assert load_net((SEEDS / "v1.npz").read_bytes()).architecture == HAND_MADE
    assert load_supernet(SEEDS / "supernet.npz").space == DEFAULT_SPACE
    ObserverParameters.from_bytes((SEEDS / "observer.npz").read_bytes())


def test_committed_model_beats_repeating_pixels() -> None:
    y, x = np.mgrid[0:96, 0:128]
    high = np.clip(127 + 60 * np.sin(x / 3.0) + 60 * np.cos(y / 4.0), 0, 255).astype(np.uint8)
    high = np.repeat(high[None, ..., None], 3, axis=3)
    low = high.reshape(1, 48, 2, 64, 2, 3).mean((2, 4)).round().astype(np.uint8)
    ours = as_upscaler((SEEDS / "v1.onnx").read_bytes())(low)
    repeated = low.repeat(2, axis=1).repeat(2, axis=2)
    assert np.square(ours - high.astype(float)).mean() < 0.5 * np.square(repeated - high.astype(float)).mean()


def test_later_parts_need_the_first_one(tmp_path: Path) -> None:
    with pytest.raises(SeedError, match="make the part v1 first"):
        make_seeds(SeedPlan(tmp_path, 0.01, ("quality",)))
