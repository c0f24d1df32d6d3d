"""Layouts of maps too large for an index map move the same bytes as small ones."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import golden
from compiler.driver import compile_one
from contracts.npu import Program
from contracts.npu.program import Layout
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu.limits import LIMITS
from edge_agent.runtime.npu.shuffles import copy, paired
from tests.support.models import vsr_qdq


@pytest.mark.parametrize("strided", [False, True])
def test_a_large_map_is_enlarged_by_repetition(strided: bool) -> None:
    rows, cols = 160, 272
    wide = np.random.default_rng(1).integers(0, 256, (rows, cols + 5, 3), dtype=np.uint8)
    stored = wide[:, :cols] if strided else np.ascontiguousarray(wide[:, :cols])
    logical = np.zeros((2 * rows, 2 * cols, 3), np.uint8)
    assert logical.size > LIMITS.largest_index_map
    copy(*paired(Layout.NEAREST, 2, logical, stored))()
    np.testing.assert_array_equal(logical, stored.repeat(2, axis=0).repeat(2, axis=1))


def test_a_large_map_is_moved_from_space_to_depth() -> None:
    stored = np.random.default_rng(2).integers(0, 256, (320, 544, 3), dtype=np.uint8)
    logical = np.zeros((160, 272, 12), np.uint8)
    copy(*paired(Layout.S2D, 2, logical, stored))()
    tiles = stored.reshape(160, 2, 272, 2, 3).transpose(0, 2, 1, 3, 4)
    np.testing.assert_array_equal(logical, tiles.reshape(160, 272, 12))


def test_a_net_with_an_anchor_runs_on_frames_of_a_real_call() -> None:
    program, model = compile_one(vsr_qdq(blocks=1, seed=6), "npu-4t", [(160, 272)])
    (profile,) = model.profiles
    device = NpuDevice("npu-4t", jitter=0.0)
    frame = np.random.default_rng(3).integers(0, 256, (160, 272, 3), dtype=np.uint8)
    outputs = device.infer(device.load(Program.open(program.data)), frame).outputs
    for name, image in golden.run(profile.imported, frame).items():
        np.testing.assert_array_equal(outputs[name], image)
