"""The lab server: a real process, real programs, refusals that leave it running, and no growth."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from contracts.bundle import write_bundle
from contracts.lab import LabClient, LabDied, LabRefused
from contracts.npu.program import Program
from tests.edge_agent.runtime import reference
from tests.edge_agent.runtime.assembler import BUILD_ID, Net, residual_net

COMMAND = [sys.executable, "-m", "edge_agent.lab", "--device-class", "npu-4t"]


def frames_for(net: Net, count: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *net.size), dtype=np.uint8)


@pytest.fixture(scope="module")
def lab() -> Iterator[LabClient]:
    with LabClient(COMMAND) as client:
        yield client


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "a.elb"
    pieces = {
        "npu-4t/model.npu": residual_net(seed=1).program,
        "npu-4t/quality.npu": residual_net(seed=2).program,
    }
    write_bundle(path, pieces, build_id=BUILD_ID, release_version="7", security_epoch=1)
    return path


def test_it_says_what_it_is(lab: LabClient) -> None:
    assert (lab.info.device_class, lab.info.driver) == ("npu-4t", "1.9.9")
    assert lab.info.engine in ("ort", "ort-u8u8"), "the second on processors without VNNI"


def test_a_bundle_runs_exactly_and_is_measured(lab: LabClient, bundle: Path) -> None:
    facts = lab.load(bundle)
    assert facts["build_id"] == BUILD_ID.hex()
    assert facts["programs"] == ["model", "quality"]
    net = residual_net(seed=1)
    frames = frames_for(net)
    result = lab.run("model", frames, "12x16")
    for frame, image in zip(frames, result.outputs["y"], strict=True):
        assert np.array_equal(image, reference.residual_net(net, frame))
    assert result.latency_ms.shape == (3,)
    assert [row.name for row in result.kernels] == ["head", "block0", "block1", "tail"]
    total = sum(row.microseconds for row in result.kernels)
    assert result.nominal_ms["u85-like"] == pytest.approx(total / 1000, rel=1e-9)
    assert result.nominal_ms["ideal"] <= result.nominal_ms["u85-like"]
    assert result.build_id == BUILD_ID.hex()
    assert result.ddr_bytes > frames[0].nbytes


def test_many_frames_travel_in_batches(lab: LabClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from contracts.lab import client
    from contracts.lab.limits import LabLimits

    net = residual_net(seed=3)
    lab.load_program(net.program)
    frames = frames_for(net, 50)
    monkeypatch.setattr(client, "LIMITS", LabLimits(batch_bytes=7 * frames[0].nbytes))
    result = lab.run("micro", frames)
    assert result.latency_ms.shape == (50,)
    assert np.array_equal(result.outputs["y"][49], reference.residual_net(net, frames[49]))


def test_refusals_name_their_kind_and_the_lab_goes_on(lab: LabClient, bundle: Path, tmp_path: Path) -> None:
    net = residual_net(seed=1)
    lab.load(bundle)
    damaged = tmp_path / "damaged.elb"
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    foreign = residual_net(target="npu-2t").program
    wrong = np.zeros((1, 5, 5, 3), np.uint8)
    for kind, request in {
        "DamagedPiece": lambda: lab.load(damaged),
        "FileNotFoundError": lambda: lab.load(tmp_path / "none.elb"),
        "ForeignBundle": lambda: lab.load(_file(tmp_path, b"PK hello")),
        "TruncatedProgram": lambda: lab.load_program(net.program[:-5]),
        "ProgramRefused": lambda: lab.load_program(foreign),
        "FrameRefused": lambda: lab.run("model", wrong),
        "RequestRefused": lambda: lab.run("nothing", wrong),
        "FaultsInvalid": lambda: lab.faults({"driver_error_rate": 2}),
    }.items():
        with pytest.raises(LabRefused) as refused:
            request()
        assert refused.value.kind == kind, refused.value
    frames = frames_for(net, 1)
    assert np.array_equal(lab.run("model", frames).outputs["y"][0], reference.residual_net(net, frames[0]))


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "foreign.elb"
    path.write_bytes(data)
    return path


def test_only_the_last_eight_single_programs_stay(lab: LabClient) -> None:
    net = residual_net(seed=6)
    for number in range(9):
        lab.load_program(net.program, f"program{number}")
    with pytest.raises(LabRefused, match="no program 'program0'"):
        lab.run("program0", frames_for(net, 1))
    assert lab.run("program1", frames_for(net, 1)).latency_ms.shape == (1,)


def test_faults_are_injected_and_healed(lab: LabClient) -> None:
    net = residual_net(seed=4)
    lab.load_program(net.program)
    lab.faults({"driver_error_rate": 1.0})
    with pytest.raises(LabRefused, match="DriverError"):
        lab.run("micro", frames_for(net, 1))
    lab.faults({})
    assert lab.run("micro", frames_for(net, 1)).latency_ms.shape == (1,)


def test_the_checking_mode_finds_nothing_in_a_good_plan(lab: LabClient) -> None:
    lab.load_program(residual_net(seed=5).program)
    assert lab.check("micro") == []


def test_a_killed_lab_is_reported() -> None:
    with LabClient(COMMAND) as lab:
        assert lab.pid is not None
        os.kill(lab.pid, 9)
        with pytest.raises(LabDied, match="status -9"):
            lab.profiles()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "abacus"], "no engine 'abacus'"),
        (["--faults", '{"speed": 1}'], "unknown fault"),
        (["--faults", "/nowhere/faults.json"], "No such file"),
        (["--array-model", "flat"], "no array model"),
    ],
)
def test_bad_options_end_with_a_reason(options: list[str], words: str) -> None:
    with pytest.raises(LabDied, match=f"(?s)status 2.*{words}"), LabClient([*COMMAND, *options]):
        pass


def test_an_unknown_device_class_ends_with_the_known_ones() -> None:
    with pytest.raises(LabDied, match=r"npu-9t.*npu-4t"), LabClient([*COMMAND[:-1], "npu-9t"]):
        pass


def test_hundreds_of_programs_and_frames_do_not_grow_the_process() -> None:
    with LabClient(COMMAND) as lab:
        assert lab.pid is not None
        for seed in range(60):
            _load_and_run(lab, seed)
        before = _resident_mb(lab.pid)
        for seed in range(60, 300):
            _load_and_run(lab, seed)
        net = residual_net(seed=1)
        lab.load_program(net.program)
        for _ in range(5):
            lab.run("micro", frames_for(net, 200))
        assert _resident_mb(lab.pid) - before < 60


def _load_and_run(lab: LabClient, seed: int) -> None:
    net = residual_net(seed=seed, blocks=1, channels=4 + seed % 5)
    assert Program.open(net.program).target == "npu-4t"
    lab.load_program(net.program)
    lab.run("micro", frames_for(net, 2))


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6
