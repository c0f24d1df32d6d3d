"""Compile, then run on the emulated device: every pixel equals the golden of the graph before any pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler import golden
from compiler.driver import read_model
from compiler.program_builder import build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice
from tests.support.models import quality_qdq, single_conv_qdq, vsr_qdq

SPEC = load_spec("npu-4t")
SIZES = [(64, 96), (34, 46)]
CASES = {
    "vsr": (vsr_qdq(), SPEC.sram_bytes),
    "vsr with a 5x5 block": (vsr_qdq(kernel=[3, 5], mid=24, seed=3), SPEC.sram_bytes),
    "vsr without blocks": (vsr_qdq(blocks=0, seed=4), SPEC.sram_bytes),
    "constants streamed": (vsr_qdq(seed=5), 60_000),
    "activations in DDR": (vsr_qdq(seed=6), 30_000),
    "almost everything in DDR": (vsr_qdq(seed=7), 20_000),
    "quality": (quality_qdq(), SPEC.sram_bytes),
    "single": (single_conv_qdq(5, 9, 5, stride=2, relu=False), SPEC.sram_bytes),
}


@pytest.mark.parametrize("name", CASES)
def test_every_pixel_equals_the_golden(name: str) -> None:
    model, sram_bytes = CASES[name]
    spec = replace(SPEC, sram_bytes=sram_bytes)
    profiles = read_model("model", model, SIZES).profiles
    device = NpuDevice(spec, jitter=0.0)
    loaded = device.load(Program.open(build_program(profiles, spec, bytes(16)).data), bind_all=True)
    for profile in (*profiles, profiles[0]):
        graph = profile.imported
        frame = np.random.default_rng(1).integers(0, 256, graph.values[graph.input].shape, dtype=np.uint8)
        outputs = device.infer(loaded, frame, profile.name).outputs
        for output, image in golden.run(graph, frame).items():
            np.testing.assert_array_equal(outputs[output], image)
