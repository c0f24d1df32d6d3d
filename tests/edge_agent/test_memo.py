"""A memo answers for a picture only where a picture alone decides the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import compile_bundle
from contracts.bundle import Bundle
from contracts.clock import SystemClock
from edge_agent.engines import Memo, RunnerLoader
from edge_agent.sources import SourceFrame
from tests.support.agent_twin import toy_observer
from tests.support.models import quality_qdq, recurrent_qdq, vsr_qdq

SIZE = (32, 48)
MODELS = {"a net of one frame": (vsr_qdq(), 1), "a net that keeps states": (recurrent_qdq(factor=2), 0)}


@pytest.mark.parametrize("name", MODELS)
def test_the_memo_is_asked_only_for_results_of_one_frame(tmp_path: Path, name: str) -> None:
    model, hits = MODELS[name]
    observer = replace(toy_observer(), embedding_id="memo-1").to_bytes()
    path = tmp_path / "a.elb"
    compile_bundle(model, quality_qdq(), observer, ["npu-4t"], [SIZE], {}, path, "1.0.0", 1)
    memo = Memo(1 << 20)
    playback = RunnerLoader("npu-4t", SystemClock(), memo=memo).load(Bundle.open(path))
    pixels = np.random.default_rng(1).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    for _ in range(2):
        playback.upscale(SourceFrame(pixels, "the same picture"))
    assert memo.hits == hits
