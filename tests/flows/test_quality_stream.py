"""The numbers that devices use for the stream's evidence are those that training clips give."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.observers import stream
from flows.data.corpus import Split, default_corpus
from flows.quality.stream import measure_line
from flows.tasks.vsr.metrics import as_upscaler

SEED = Path(__file__).resolve().parents[2] / "seeds" / "v1.onnx"


def test_devices_hold_the_line_that_training_clips_give() -> None:
    clips = [
        (clip, scale)
        for clip in default_corpus().of(Split.TRAIN)
        for scale in (1, 2, 3)
        if min(clip.width, clip.height) // scale >= 128 and max(clip.width, clip.height) // scale <= 700
    ]
    found = measure_line(clips, as_upscaler(SEED.read_bytes()), frames=8)
    assert found.slope == pytest.approx(stream.DB_PER_STEP, rel=0.15)
    assert found.zero == pytest.approx(stream.LOSSLESS_FROM, abs=2.0)
    assert found.healthy_most <= stream.HARD_FROM - 0.5
