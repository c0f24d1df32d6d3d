"""Every operator that the compiler imports: the device gives the golden interpreter's bytes, from a sound plan."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from compiler import golden
from compiler.driver import compile_program
from compiler.timing import estimate
from contracts.npu.program import Program
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu.checking import check_profile
from edge_agent.runtime.npu.engines.select import engine_named
from tests.compiler.oracle import frame_of, imported
from tests.compiler.qdq_cases import EXACT, NEAR, NEWER_OPSET, TIES
from tests.compiler.qdq_nets import SHAPE

CASES = {**EXACT, **NEAR, **TIES, **NEWER_OPSET}
TARGET = "npu-2t"


@lru_cache
def compiled(name: str) -> Program:
    return Program.open(compile_program(CASES[name](), TARGET, [SHAPE])[0])


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("name", CASES)
def test_the_device_equals_the_golden(name: str, engine: str) -> None:
    model = CASES[name]()
    graph = imported(model, *SHAPE)
    program = compiled(name)
    device = NpuDevice(TARGET, engine=engine_named(engine))
    loaded = device.load(program)
    for seed in (3, 4):
        frame = frame_of(graph, seed)
        result, expected = device.infer(loaded, frame).outputs, golden.run(graph, frame)
        assert result.keys() == expected.keys()
        for output, image in expected.items():
            assert np.array_equal(result[output], image)


@pytest.mark.parametrize("name", CASES)
def test_simulated_time_agrees_with_the_compilers_estimate(name: str) -> None:
    program = compiled(name)
    device = NpuDevice(TARGET)
    loaded = device.load(program)
    frame = program.commands(0)[program.profiles[0].n_prologue :]
    for array in device.spec.array_models:
        simulated, guessed = (
            device.nominal_time(loaded, 0, array.name),
            estimate(frame, program.names, device.spec, array),
        )
        assert simulated.total_ns == pytest.approx(guessed.total_ns, rel=1e-9)
        assert simulated.ddr_bytes == guessed.ddr_bytes
        busy = {kernel.name: kernel.total_ns for kernel in guessed.kernels if kernel.commands}
        assert {kernel.name: kernel.busy_ns for kernel in simulated.kernels} == pytest.approx(busy, rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_checking_mode_finds_nothing(name: str) -> None:
    assert check_profile(compiled(name), 0, load_spec(TARGET)) == []
