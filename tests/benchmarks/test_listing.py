"""`edgeloop bench` lists benches only, and each can be loaded."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.emulator.exact import golden_outputs
from benchmarks.emulator.runners import TARGET
from benchmarks.reference_nets import NetShape, qdq_model, quantized_net, smooth_frame
from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import NpuDevice
from edgeloop import bench
from edgeloop.bench import benches
from edgeloop.figures import Figure


def test_every_listed_bench_is_a_function() -> None:
    known = benches()
    assert {"compiler", "npu"} <= set(known)
    for name, load in known.items():
        assert callable(load()), name


def test_what_a_bench_prints_does_not_stand_before_its_json(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(_tell: object) -> list[Figure]:
        print("Collecting tensor data ...")  # as ONNX Runtime's calibration does
        return [Figure("one", 1, "1", "printed", True)]

    monkeypatch.setattr(bench, "benches", lambda: {"noisy": lambda: noisy})
    done = CliRunner().invoke(bench.app, ["noisy", "--json"])
    assert json.loads(done.stdout)["figures"][0]["id"] == "one"
    assert "Collecting" in done.stderr


def test_the_anchored_net_runs_on_the_device_bit_for_bit() -> None:
    model = qdq_model(quantized_net(NetShape("small", 16, 2, 2, 24, 32)), anchor=True)
    frame = smooth_frame(24, 32, 8)
    device = NpuDevice(TARGET)
    loaded = device.load(Program.open(compile_program(model, TARGET, [(24, 32)])[0]))
    (golden,) = golden_outputs(model, frame).values()
    (image,) = device.infer(loaded, frame).outputs.values()
    np.testing.assert_array_equal(image, golden)
