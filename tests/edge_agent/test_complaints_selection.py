"""What users of other systems complain about and what concerns the device: each has the right behaviour here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contracts.bundle import Bundle, BundleError
from contracts.statistics import decode_report
from contracts.statistics.observer import CLIP
from edge_agent.enrol import Identity
from edge_agent.observers.drift import DriftObserver, Evidence
from edge_agent.observers.hard import HardFrame, HardMiner, HardSettings, Origin
from tests.support.agent_twin import NOON, TAGS, make_bundle, toy_observer

IDENTITY = Identity("device-1", "token", "{}", "key", "ab" * 32)
ORIGIN = Origin("toy-1", "1.0", TAGS, "0" * 32)
FPS, HOURS = 30, 4


def sticky_scores(rho: float, share_over: float, count: int) -> np.ndarray:
    """AR(1) scores of unit spread that lie over their threshold, 0, for this share of the time."""
    random = np.random.default_rng(5)
    noise = random.standard_normal(count) * np.sqrt(1 - rho**2)
    scores = np.empty(count)
    scores[0] = 0.0
    for index in range(1, count):
        scores[index] = rho * scores[index - 1] + noise[index]
    return scores - np.quantile(scores, 1 - share_over)


def uploads(scores: np.ndarray, settings: HardSettings) -> int:
    miner = HardMiner(settings)
    features = np.random.default_rng(6).integers(0, 256, (64, 2, 3, 16), dtype=np.uint8)
    sent = 0
    for index, score in enumerate(scores):
        frame = HardFrame(features[index % 64], float(score), 0.0)
        sent += miner.observe(frame, 0.0, NOON + index / FPS, ORIGIN) is not None
    return sent


def test_three_in_a_row_alone_floods_when_neighbouring_scores_are_alike_and_the_brakes_hold() -> None:
    """Flywheel reference, finding 10: 126 uploads an hour from a 1 % marginal rate."""
    scores = sticky_scores(0.95, 0.01, FPS * 3_600 * HOURS)
    alone = HardSettings(hysteresis=0.0, rearm_s=0.0, per_day=1e9, burst=1e9, duplicate_distance=0.0)
    assert uploads(scores[: FPS * 3_600], alone) > 60
    assert uploads(scores, HardSettings()) <= HOURS


def test_values_that_were_clipped_are_counted_and_reported() -> None:
    """flower#4982: a range that is too narrow saturates every larger value, and nobody is told."""
    drift, observer = DriftObserver(IDENTITY, TAGS, Evidence(frames=5, sessions=1)), toy_observer()
    inside, outside = np.full(256, 0.5, np.float32), np.full(256, 0.5, np.float32)
    outside[3] = 0.5 + 0.2 * (CLIP + 1)
    for index in range(10):
        drift.observe(outside if index < 4 else inside, 0.0, observer, NOON + index)
    data = drift.roll("toy-1", NOON + 86_400)
    assert data is not None
    report = decode_report(data)
    assert (report.frames, report.clipped) == (10, 4)
    assert float(report.mean[3]) == pytest.approx(0.4 * CLIP, abs=0.01)


def test_reference_units_come_signed_with_the_model_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    """A device that measured in other units than the fleet would drift by itself."""
    made = make_bundle(tmp_path, "1.0")
    piece = Bundle.open(made.path).piece("observer.npz")
    at = made.data.index(bytes(piece))
    for offset in (0, len(piece) // 2, len(piece) - 1):
        changed = bytearray(made.data)
        changed[at + offset] ^= 1
        path = tmp_path / f"changed-{offset}.elb"
        path.write_bytes(bytes(changed))
        with pytest.raises(BundleError):
            Bundle.open(path).piece("observer.npz")


def test_a_day_of_one_frame_would_be_the_frame_and_never_leaves() -> None:
    drift = DriftObserver(IDENTITY, TAGS, Evidence())
    drift.observe(np.full(256, 0.5, np.float32), 0.0, toy_observer(), NOON)
    assert drift.roll("toy-1", NOON + 86_400) is None
    assert drift.too_few == 1
