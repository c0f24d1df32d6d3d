"""A hot or nearly empty device serves frames with the little kernels, and goes back when it has recovered."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import compile_bundle, compile_program
from compiler.options import CompileOptions
from contracts.bundle import Bundle, write_bundle
from contracts.npu import load_spec
from contracts.npu.program import Program, ProgramWriter
from edge_agent.runtime.backend import BackendOptions
from edge_agent.runtime.npu import ClimateModel, NpuDevice, ProgramRefused
from edge_agent.runtime.npu.climate import DeviceClimate
from edge_agent.runtime.npu.errors import PlanViolation
from edge_agent.runtime.npu.kernel_sets import KernelSet, KernelSetLimits
from edge_agent.runtime.npu_backend import NpuBackend
from tests.support.models import quality_qdq, recurrent_qdq, vsr_qdq

SIZE = (36, 44)
TARGET = "npu-2t"
BIG, NARROW = vsr_qdq(16, 16, 3, 3, seed=1), vsr_qdq(8, 8, 1, 3, seed=2)
FRAMES = np.random.default_rng(0).integers(0, 256, (4, *SIZE, 3), dtype=np.uint8)
FRAME = FRAMES[0]


def make_bundle(folder: Path, little: str = "same", model: bytes = BIG, size: tuple[int, int] = SIZE) -> Bundle:
    widths = {"half": NARROW} if little == "half" else {}
    options, path = CompileOptions(little=little), folder / "b.elb"
    compile_bundle(model, quality_qdq(), None, [TARGET], [size], {}, path, "1", 1, options=options, widths=widths)
    return Bundle.open(path)


def expected(model: bytes, frame: np.ndarray = FRAME) -> np.ndarray:
    device = NpuDevice(TARGET)
    program = Program.open(compile_program(model, TARGET, [frame.shape[:2]])[0])
    (image,) = device.infer(device.load(program), frame).outputs.values()
    return image


@cache
def expected_once() -> np.ndarray:
    return expected(BIG)


def backend_with(bundle: Bundle, climate: ClimateModel | None) -> NpuBackend:
    found = NpuBackend(BackendOptions(), climate, KernelSetLimits(hot_c=50.0, cool_c=45.0))
    found.load(bundle, TARGET)
    return found


def heat(backend: NpuBackend, seconds: float) -> float:
    """Let the device work at full load; returns its temperature."""
    device = backend._ready().device
    assert device._climate is not None
    return device._climate.pass_time(seconds, 1.0).temperature_c


def test_heat_changes_the_kernels_and_not_a_byte_and_rest_changes_them_back(tmp_path: Path) -> None:
    backend = backend_with(make_bundle(tmp_path), ClimateModel(ambient_c=40.0))
    cool = backend.upscale(FRAMES[0])
    assert heat(backend, 600.0) > 50.0
    hot = backend.upscale(FRAMES[1])
    backend.idle(50.0)
    between = backend.upscale(FRAMES[2])
    temperature = backend._ready().device.conditions
    assert temperature is not None
    assert 45.0 < temperature.temperature_c < 50.0, "cooler than the limit, and not yet cool enough to go back"
    assert [switch.after for switch in backend.switches] == [KernelSet.LITTLE]
    backend.idle(600.0)
    recovered = backend.upscale(FRAMES[3])
    assert [switch.after for switch in backend.switches] == [KernelSet.LITTLE, KernelSet.BIG]
    for frame, result in zip(FRAMES, (cool, hot, between, recovered), strict=True):
        assert np.array_equal(result.image, expected(BIG, frame))
    first = hot.spans()[0]
    assert (first.name, first.duration_ms) == ("kernels model -> model-little", 0.0)
    assert float(first.detail["temperature_c"]) > 50.0
    assert not between.spans()[0].name.startswith("kernels")


def test_other_kernels_go_on_with_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_with(make_bundle(tmp_path), ClimateModel(ambient_c=40.0))
    device, resets = backend._ready().device, list[int]()
    monkeypatch.setattr(device, "reset", lambda: resets.append(len(backend.switches)))
    for _ in range(2):
        backend.upscale(FRAME)
    assert device._climate is not None
    device._climate.pass_time(600.0, 1.0)
    for _ in range(2):
        backend.upscale(FRAME)
    assert resets == [0]


def test_an_empty_battery_asks_for_the_little_kernels(tmp_path: Path) -> None:
    backend = backend_with(make_bundle(tmp_path), ClimateModel(ambient_c=20.0, charge=0.1))
    assert np.array_equal(backend.upscale(FRAME).image, expected(BIG))
    assert backend._ready().device._core.name == "npu-2t/little"
    assert "10% charge" in backend.switches[0].reason


def test_a_device_at_a_frame_rate_rests_between_frames(tmp_path: Path) -> None:
    climate = ClimateModel(ambient_c=40.0)
    found = NpuBackend(BackendOptions(climate=climate, frame_s=2.0), limits=KernelSetLimits(hot_c=50.0, cool_c=45.0))
    found.load(make_bundle(tmp_path), TARGET)
    heat(found, 600.0)
    sets = []
    for _ in range(120):
        assert np.array_equal(found.upscale(FRAME).image, expected_once())
        sets.append(found._set)
    changes = [after for before, after in pairwise(sets) if before != after]
    assert (sets[0], changes) == (KernelSet.LITTLE, [KernelSet.BIG]), "hot at first, rested after two minutes or so"
    now = found._ready().device.conditions
    assert now is not None
    assert now.seconds == pytest.approx(600.0 + 120 * 2.0, abs=3.0)


def test_what_a_recurrent_net_keeps_goes_with_the_switch(tmp_path: Path) -> None:
    size = (32, 48)
    bundle = make_bundle(tmp_path, model=recurrent_qdq(), size=size)
    frames = np.random.default_rng(3).integers(0, 256, (6, *size, 3), dtype=np.uint8)
    steady, moved = backend_with(bundle, None), backend_with(bundle, ClimateModel(ambient_c=40.0))
    for number, frame in enumerate(frames):
        if number == 2:
            heat(moved, 600.0)
        if number == 4:
            moved.idle(600.0)
        assert np.array_equal(moved.upscale(frame).image, steady.upscale(frame).image), number
    assert len(moved.switches) == 2


def test_a_narrower_width_may_be_the_little_set(tmp_path: Path) -> None:
    backend = backend_with(make_bundle(tmp_path, "half"), ClimateModel(ambient_c=20.0, charge=0.1))
    assert np.array_equal(backend.upscale(FRAME).image, expected(NARROW))


@pytest.mark.parametrize("climate", [None, ClimateModel(ambient_c=20.0, charge=0.01)])
def test_without_little_kernels_or_a_climate_nothing_changes(tmp_path: Path, climate: ClimateModel | None) -> None:
    backend = backend_with(make_bundle(tmp_path, "none" if climate else "same"), climate)
    assert np.array_equal(backend.upscale(FRAME).image, expected(BIG))
    assert not backend.switches


def rewritten(bundle: Bundle, little: Program) -> Bundle:
    """The bundle with another little piece."""
    pieces = {name: bytes(bundle.piece(name)) for name in bundle.names if name != "manifest.json"}
    build_id = bytes.fromhex(bundle.manifest.build_id)
    writer = ProgramWriter(little.target, build_id)
    writer.add_profile(little.profiles[0], little.commands(0))
    program = writer.to_bytes(little.names, little.constants.tobytes(), little.quant.tobytes())
    pieces[f"{TARGET}/model-little.npu"] = program
    path = bundle.path.with_name("other.elb")
    write_bundle(path, pieces, build_id=build_id, release_version="1", security_epoch=1)
    return Bundle.open(path)


def test_little_kernels_of_another_size_are_refused(tmp_path: Path) -> None:
    other = Program.open(compile_program(BIG, TARGET, [(24, 32)])[0])
    bundle = rewritten(make_bundle(tmp_path), other)
    with pytest.raises(ProgramRefused, match="no little kernels for frames"):
        backend_with(bundle, None)


def test_a_plan_larger_than_the_little_core_is_refused(tmp_path: Path) -> None:
    size = (360, 640)
    big = Program.open(compile_program(vsr_qdq(32, 32, 2, 3), TARGET, [size])[0])
    assert big.profiles[0].sram_peak > load_spec(f"{TARGET}/little").sram_bytes
    writer = ProgramWriter(f"{TARGET}/little", bytes(16))
    writer.add_profile(big.profiles[0], big.commands(0))
    forged = Program.open(writer.to_bytes(big.names, big.constants.tobytes(), big.quant.tobytes()))
    with pytest.raises(PlanViolation):
        NpuDevice(TARGET).load(forged, bind_all=True)


def test_the_little_core_is_slower_and_draws_less_for_the_same_frame(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    big, little = (bundle.program(TARGET, name) for name in ("model", "model-little"))
    device = NpuDevice(TARGET, jitter=0.0)
    times = [device.infer(device.load(program), FRAME).time for program in (big, little)]
    assert times[1].compute_ns == pytest.approx(4 * times[0].compute_ns)
    spec, climate = load_spec(TARGET), DeviceClimate(load_spec(TARGET))
    core = load_spec(f"{TARGET}/little").thermal
    watts = climate.power_w(1.0), climate.power_w(1.0, core=core)
    assert 4 * (watts[1] - core.idle_w) < watts[0] - spec.thermal.idle_w, "less energy for each operation"
    assert climate.steady_c(1.0, core=core) < climate.steady_c(1.0)


def test_a_program_for_the_little_core_of_another_chip_is_refused(tmp_path: Path) -> None:
    little = make_bundle(tmp_path).program(TARGET, "model-little")
    with pytest.raises(ProgramRefused, match="npu-2t/little"):
        NpuDevice("npu-4t").load(little)
