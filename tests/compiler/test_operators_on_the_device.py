"""Compile each operator, verify, run it on the emulated device: every byte equals the golden before any pass."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import golden
from compiler.driver import read_model
from compiler.program_builder import build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice
from tests.compiler.host_nets import HOST
from tests.compiler.oracle import frame_of
from tests.compiler.qdq_cases import EXACT, NEAR, NEWER_OPSET, TIES
from tests.compiler.qdq_nets import SHAPE
from tests.compiler.test_import_qoperator import EXACT as QOPERATOR
from tests.compiler.test_import_qoperator import SHAPE as INTEGER_SHAPE

SPEC = load_spec("npu-4t")
QDQ = {**EXACT, **NEAR, **TIES, **NEWER_OPSET, **HOST}
INTEGER = {f"integer {name}": make for name, make in QOPERATOR.items()}


@pytest.mark.parametrize("name", [*QDQ, *INTEGER])
def test_every_byte_equals_the_golden(name: str) -> None:
    model, size = (QDQ[name](), SHAPE) if name in QDQ else (INTEGER[name](False), INTEGER_SHAPE)
    profiles = read_model("model", model, [size]).profiles
    device = NpuDevice(SPEC, jitter=0.0)
    loaded = device.load(Program.open(build_program(profiles, SPEC, bytes(16)).data), bind_all=True)
    graph = profiles[0].imported
    for seed in (1, 2):
        frame = frame_of(graph, seed)
        outputs = device.infer(loaded, frame, profiles[0].name).outputs
        for output, image in golden.run(graph, frame).items():
            np.testing.assert_array_equal(outputs[output], image)
