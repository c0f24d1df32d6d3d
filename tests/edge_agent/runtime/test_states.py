"""Programs that keep something from frame to frame, on the device and in the checking mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contracts.npu.program import Op, Program, ProgramWriter, Space, StateTensor
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu import DeviceHang, Faults, NpuDevice
from edge_agent.runtime.npu.checking import check_profile
from tests.edge_agent.runtime import reference
from tests.edge_agent.runtime.assembler import ADD, Assembler, region

SIZE = (4, 8, 4)
FRAMES = [np.random.default_rng(seed).integers(0, 256, SIZE, dtype=np.uint8) for seed in range(4)]


def program(read_at: int = 512, seed: int = 0) -> Program:
    """y = frame + the frame before, which is kept at byte 512 of DDR; `read_at`: where it is looked for."""
    build = Assembler(names=[f"net{seed}"])
    frame, result, kept = (region(Space.DDR, offset, SIZE) for offset in (0, 256, 512))
    build.command(Op.ADD, src=frame, residual=region(Space.DDR, read_at, SIZE), dst=result, flags=1, **ADD)
    build.command(Op.SHUFFLE, src=frame, dst=kept)
    plain = Program.open(build.program(SIZE, [("y", 256, SIZE)], 1024))
    profile = replace(plain.profiles[0], states=(StateTensor("before", *SIZE, 1.0, 7, 512),))
    writer = ProgramWriter(plain.target, plain.build_id)
    writer.add_profile(profile, plain.commands(0))
    return Program.open(writer.to_bytes(plain.names, b"", b""))


def expected(frames: list[np.ndarray]) -> list[np.ndarray]:
    before = [np.full(SIZE, 7, np.uint8), *frames]
    return [reference.add(frame, kept, ADD) for frame, kept in zip(frames, before, strict=False)]


def test_a_frame_sees_what_the_one_before_left_until_the_stream_is_reset() -> None:
    device = NpuDevice("npu-4t")
    loaded = device.load(program())
    for _ in range(2):
        results = [device.infer(loaded, frame).outputs["y"] for frame in FRAMES]
        assert all(map(np.array_equal, results, expected(FRAMES)))
        device.reset()


def test_programs_that_take_turns_keep_their_own_states() -> None:
    device = NpuDevice("npu-4t", shared=True)
    loaded = [device.load(program(seed=seed)) for seed in range(2)]
    results: list[list[np.ndarray]] = [[], []]
    for number, frame in enumerate(FRAMES):
        which = number % 2
        results[which].append(device.infer(loaded[which], frame).outputs["y"])
    for which in range(2):
        assert all(map(np.array_equal, results[which], expected(FRAMES[which::2])))


def test_a_failed_frame_leaves_the_state_alone() -> None:
    device = NpuDevice("npu-4t")
    loaded = device.load(program())
    device.infer(loaded, FRAMES[0])
    device.set_faults(Faults(hang_rate=1.0))
    with pytest.raises(DeviceHang):
        device.infer(device.rematch(loaded), FRAMES[1])
    device.set_faults(Faults())
    result = device.infer(device.rematch(loaded), FRAMES[2]).outputs["y"]
    assert np.array_equal(result, expected([FRAMES[0], FRAMES[2]])[1])


def test_the_checking_mode_gives_a_program_its_state_and_runs_it_twice() -> None:
    spec = load_spec("npu-4t")
    assert check_profile(program(), 0, spec) == []
    findings = check_profile(program(read_at=768), 0, spec)
    assert any("nothing wrote" in text for text in findings)
