"""The numbers that devices use for evidence beside the net are those that training clips give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edge_agent.observers.evidence import GRAIN, SOFTNESS, STREAM
from edge_agent.observers.signs import signs_of
from flows.data.corpus import Split, default_corpus
from flows.quality.evidence import Evidence, measure
from flows.tasks.vsr.metrics import as_upscaler

SEED = Path(__file__).resolve().parents[2] / "seeds" / "v1.onnx"
MEASURES = {
    "stream": lambda received: received.quantisers,
    "grain": lambda received: np.array([signs_of(frame).grain for frame in received.frames]),
    "softness": lambda received: np.array([-signs_of(frame).sharpness for frame in received.frames]),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Evidence]:
    clips = [
        (clip, scale)
        for clip in default_corpus().of(Split.TRAIN)
        for scale in (1, 2, 3)
        if min(clip.width, clip.height) // scale >= 128 and max(clip.width, clip.height) // scale <= 500
    ]
    return measure(clips, as_upscaler(SEED.read_bytes()), MEASURES, frames=6)


HELD = {"stream": STREAM, "grain": GRAIN, "softness": SOFTNESS}


@pytest.mark.parametrize(
    ("kind", "low", "high", "near"),
    [("stream", 24.0, 51.0, 2.0), ("grain", 3.0, 20.0, 1.5), ("softness", -0.8, 0.0, 0.04)],
)
def test_lines_are_those_of_training_clips(
    found: dict[str, Evidence], kind: str, low: float, high: float, near: float
) -> None:
    slope, zero = found[kind].line(low, high)
    assert slope == pytest.approx(HELD[kind].slope, rel=0.3)
    assert zero == pytest.approx(HELD[kind].zero, abs=near)


@pytest.mark.parametrize("kind", list(HELD))
def test_no_healthy_training_frame_reaches_a_bound(found: dict[str, Evidence], kind: str) -> None:
    assert max(found[kind].healthy) < HELD[kind].bound


def test_most_frames_that_lost_five_decibels_to_a_fault_pass_its_bound(found: dict[str, Evidence]) -> None:
    for kind, held in HELD.items():
        bad = np.array(found[kind].losses) > 5.0
        assert (np.array(found[kind].measures)[bad] > held.bound).mean() > 0.8, kind
