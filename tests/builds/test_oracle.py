"""The second opinion computes in integers throughout, however a model writes its grids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import NpuDevice
from services.builds.oracle import Oracle, with_scalar_grids

SEED_MODEL = Path(__file__).resolve().parents[2] / "seeds" / "v1.onnx"


def test_grids_in_lists_of_one_are_judged_like_scalars() -> None:
    """v1 was written that way; on noise of 360 x 640 about 0.1 % of the values differed, the gate's limit."""
    model = SEED_MODEL.read_bytes()
    program = Program.open(compile_program(model, "npu-4t", [(360, 640)])[0])
    device = NpuDevice("npu-4t", jitter=0.0)
    frame = np.random.default_rng(3).integers(0, 256, (360, 640, 3), dtype=np.uint8)
    ours = device.infer(device.load(program), frame).outputs
    theirs = Oracle(model).run(frame[None], program.profiles[0])
    for name, image in ours.items():
        np.testing.assert_array_equal(image, theirs[name][0])


def test_numbers_of_grids_stay_and_channels_keep_their_lists() -> None:
    before = onnx.load_from_string(SEED_MODEL.read_bytes())
    after = onnx.load_from_string(with_scalar_grids(SEED_MODEL.read_bytes()))
    changed = 0
    for old, new in zip(before.graph.initializer, after.graph.initializer, strict=True):
        a, b = onnx.numpy_helper.to_array(old), onnx.numpy_helper.to_array(new)
        np.testing.assert_array_equal(a.ravel(), b.ravel())
        changed += a.shape != b.shape
        assert a.shape == b.shape or (a.shape, b.shape) == ((1,), ())
    assert changed > 10
