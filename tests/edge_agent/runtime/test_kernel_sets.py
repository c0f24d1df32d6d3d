"""A hot or nearly empty device serves frames with the little kernels, and goes back when it has recovered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.driver import compile_bundle, compile_program
from contracts.bundle import Bundle, write_bundle
from contracts.npu.program import Program, ProgramWriter
from edge_agent.runtime.backend import BackendOptions
from edge_agent.runtime.npu import ClimateModel, NpuDevice, ProgramRefused
from edge_agent.runtime.npu.kernel_sets import KernelSet, KernelSetLimits
from edge_agent.runtime.npu_backend import NpuBackend
from tests.support.models import quality_qdq, vsr_qdq

SIZE = (36, 44)
TARGET = "npu-2t"
BIG, LITTLE = vsr_qdq(16, 16, 3, 3, seed=1), vsr_qdq(8, 8, 1, 3, seed=2)
FRAME = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)


def little_program(build_id: str, size: tuple[int, int]) -> bytes:
    """Return the little net's program under the bundle's build id."""
    program = Program.open(compile_program(LITTLE, TARGET, [size])[0])
    writer = ProgramWriter(program.target, bytes.fromhex(build_id))
    writer.add_profile(program.profiles[0], program.commands(0))
    return writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes())


def make_bundle(folder: Path, little_size: tuple[int, int] | None = SIZE) -> Bundle:
    compile_bundle(BIG, quality_qdq(), None, [TARGET], [SIZE], {}, folder / "big.elb", "1", 1)
    big = Bundle.open(folder / "big.elb")
    if little_size is None:
        return big
    pieces = {name: bytes(big.piece(name)) for name in big.names if name != "manifest.json"}
    build_id = big.manifest.build_id
    pieces[f"{TARGET}/model-little.npu"] = little_program(build_id, little_size)
    path = folder / "both.elb"
    write_bundle(path, pieces, build_id=bytes.fromhex(build_id), release_version="1", security_epoch=1)
    return Bundle.open(path)


def expected(model: bytes) -> np.ndarray:
    device = NpuDevice(TARGET)
    (image,) = device.infer(
        device.load(Program.open(compile_program(model, TARGET, [SIZE])[0])), FRAME
    ).outputs.values()
    return image


def backend_with(bundle: Bundle, climate: ClimateModel | None) -> NpuBackend:
    found = NpuBackend(BackendOptions(), climate, KernelSetLimits(hot_c=50.0, cool_c=45.0))
    found.load(bundle, TARGET)
    return found


def test_heat_changes_the_kernels_and_rest_changes_them_back(tmp_path: Path) -> None:
    backend = backend_with(make_bundle(tmp_path), ClimateModel(ambient_c=40.0))
    device = backend._ready().device
    assert np.array_equal(backend.upscale(FRAME).image, expected(BIG))
    assert device._climate is not None
    device._climate.pass_time(600.0, 1.0)  # ten minutes of full work
    hot = backend.upscale(FRAME)
    assert np.array_equal(hot.image, expected(LITTLE))
    first = hot.spans()[0]
    assert (first.name, first.duration_ms) == ("kernels model -> model-little", 0.0)
    assert float(first.detail["temperature_c"]) > 50.0
    assert not backend.upscale(FRAME).spans()[0].name.startswith("kernels")
    backend.idle(600.0)
    assert np.array_equal(backend.upscale(FRAME).image, expected(BIG))
    assert [switch.after for switch in backend.switches] == [KernelSet.LITTLE, KernelSet.BIG]


def test_other_kernels_begin_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_with(make_bundle(tmp_path), ClimateModel(ambient_c=40.0))
    device, resets = backend._ready().device, list[int]()
    monkeypatch.setattr(device, "reset", lambda: resets.append(len(backend.switches)))
    for _ in range(2):
        backend.upscale(FRAME)
    assert device._climate is not None
    device._climate.pass_time(600.0, 1.0)
    for _ in range(2):
        backend.upscale(FRAME)
    assert resets == [0, 1]


def test_an_empty_battery_asks_for_the_little_kernels(tmp_path: Path) -> None:
    backend = backend_with(make_bundle(tmp_path), ClimateModel(ambient_c=20.0, charge=0.1))
    assert np.array_equal(backend.upscale(FRAME).image, expected(LITTLE))
    assert "10% charge" in backend.switches[0].reason


@pytest.mark.parametrize("climate", [None, ClimateModel(ambient_c=20.0, charge=0.01)])
def test_without_little_kernels_or_a_climate_nothing_changes(tmp_path: Path, climate: ClimateModel | None) -> None:
    bundle = make_bundle(tmp_path, SIZE if climate is None else None)
    backend = backend_with(bundle, climate)
    assert np.array_equal(backend.upscale(FRAME).image, expected(BIG))
    assert not backend.switches


def test_little_kernels_of_another_size_are_refused(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, (24, 32))
    with pytest.raises(ProgramRefused, match="no little kernels for frames"):
        backend_with(bundle, None)
