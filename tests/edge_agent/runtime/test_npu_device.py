"""The emulated NPU runs a hand-assembled program exactly, refuses what it must, and fails as it is told."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.npu.program import COMMAND, FLAG_LAUNCH, FLAG_RESIDUAL_FIRST, Op, Program, ProgramError, Space
from edge_agent.runtime.npu import (
    DriverTooOld,
    Faults,
    FrameRefused,
    NpuDevice,
    PlanViolation,
    ProgramRefused,
)
from edge_agent.runtime.npu.engines.select import engine_named
from tests.edge_agent.runtime import reference
from tests.edge_agent.runtime.assembler import Assembler, Layer, layer, region, residual_net


def frames(size: tuple[int, int, int], count: int = 3) -> list[np.ndarray]:
    random = np.random.default_rng(9)
    return [random.integers(0, 256, size, dtype=np.uint8) for _ in range(count)]


@pytest.mark.parametrize("engine", ["ort", "ort-u8u8", "numpy"])
@pytest.mark.parametrize("shared", [False, True])
def test_every_engine_gives_exactly_the_arithmetic(engine: str, shared: bool) -> None:
    net = residual_net()
    device = NpuDevice("npu-4t", engine=engine_named(engine), shared=shared)
    loaded = device.load(Program.open(net.program))
    for frame in frames(net.size):
        result = device.infer(loaded, frame).outputs["y"]
        assert np.array_equal(result, reference.residual_net(net, frame))
        assert len(np.unique(result)) > 50  # a test that saturates proves nothing


def test_two_programs_take_turns_on_one_device() -> None:
    nets = [residual_net(seed=1), residual_net(seed=2, channels=12, blocks=1)]
    device = NpuDevice("npu-4t")
    loaded = [device.load(Program.open(net.program)) for net in nets]
    for frame in frames(nets[0].size):
        for net, program in zip(nets, loaded, strict=True):
            assert np.array_equal(device.infer(program, frame).outputs["y"], reference.residual_net(net, frame))


def test_shared_devices_do_not_disturb_each_other() -> None:
    nets = [residual_net(seed=seed) for seed in (1, 2, 1)]
    devices = [NpuDevice("npu-4t", shared=True, seed=index) for index in range(3)]
    loaded = [device.load(Program.open(net.program)) for device, net in zip(devices, nets, strict=True)]
    for frame in frames(nets[0].size):
        for device, net, program in zip(devices, nets, loaded, strict=True):
            assert np.array_equal(device.infer(program, frame).outputs["y"], reference.residual_net(net, frame))


def test_outputs_belong_to_the_caller() -> None:
    net = residual_net()
    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(net.program))
    one, two = frames(net.size, 2)
    kept = device.infer(loaded, one).outputs["y"]
    before = kept.copy()
    device.infer(loaded, two)
    assert np.array_equal(kept, before)


def test_strided_regions_streamed_weights_and_strides_are_exact() -> None:
    random = np.random.default_rng(3)
    size, channels = (10, 14, 5), 6
    one, two = layer(random, 5, channels, 5), layer(random, channels, 4, 1)
    build = Assembler(names=["a"])
    wide = {"row_stride": 14 * 16, "pixel_stride": 16}
    source = region(Space.SRAM, build.room(10 * 14 * 16), size, **wide)
    build.command(Op.DMA, src=region(Space.DDR, 0, size), dst=source)
    middle = region(Space.SRAM, build.room(5 * 7 * 8 + 128), (5, 7, channels), row_stride=7 * 8, pixel_stride=8)
    build.conv(source, middle, one.weights, one.bias, one.mult, input_zp=9, out_zp=30, sh=2, sw=2, flags=1)
    result = region(Space.DDR, 1024, (5, 7, 4))
    conv = build.conv(middle, result, two.weights, two.bias, two.mult, input_zp=30, out_zp=100)
    late = build.prologue[-3:]  # the constants of the second convolution arrive in the frame itself
    del build.prologue[-3:]
    build.frame[-1:] = [*late, conv]
    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(build.program(size, [("y", 1024, (5, 7, 4))], 2048)))
    for frame in frames(size):
        expected = reference.conv(reference.conv(frame, one, 9, 30, stride=2), two, 30, 100)
        assert np.array_equal(device.infer(loaded, frame).outputs["y"], expected)


def test_a_narrow_net_reads_the_first_channels_of_the_wide_ones_weights() -> None:
    random, size = np.random.default_rng(4), (6, 8, 3)
    wide = layer(random, 5, 7)
    narrow = Layer(wide.weights[:4, :3].copy(), wide.bias[:4], wide.mult[:4])
    build = Assembler(names=["a", "prologue"])
    fields = {**build.load_layer(wide), "weights_row": 5 * 9, "input_zp": 9, "out_zp": 30, "flags": 1}
    source, result = region(Space.DDR, 0, size), region(Space.DDR, 256, (6, 8, 4))
    build.conv(source, result, wide.weights, wide.bias, wide.mult, constants=fields)
    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(build.program(size, [("y", 256, (6, 8, 4))], 512)))
    for frame in frames(size):
        assert np.array_equal(device.infer(loaded, frame).outputs["y"], reference.conv(frame, narrow, 9, 30))


def test_rows_of_weights_that_overlap_are_refused() -> None:
    def change(stream: np.ndarray) -> None:
        stream["weights_row"][_conv_at(stream, 1)] = 71

    with pytest.raises(PlanViolation, match="weights of 71 bytes a row"):
        NpuDevice("npu-4t").load(Program.open(_with_stream(residual_net().program, change)), bind_all=True)


def test_weights_that_an_activation_overwrites_are_read_from_the_arena() -> None:
    net = residual_net(blocks=1)
    stream = Program.open(net.program).commands(0)
    weights = int(stream["weights_offset"][_conv_at(stream, 3)])

    def change(stream: np.ndarray) -> None:
        for name, number in (("dst", 1), ("src", 2)):  # the middle map lies on the tail's weights
            stream[name]["offset"][_conv_at(stream, number)] = weights

    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(_with_stream(net.program, change)))
    frame = frames(net.size)[0]
    assert not np.array_equal(device.infer(loaded, frame).outputs["y"], reference.residual_net(net, frame))


@pytest.mark.parametrize("engine", ["ort", "numpy"])
@pytest.mark.parametrize("subtract", [False, True])
@pytest.mark.parametrize("spread", [False, True], ids=["in place", "spread"])
def test_a_residual_that_comes_first_is_the_first_operand_of_the_sum(spread: bool, subtract: bool, engine: str) -> None:
    random, size = np.random.default_rng(5), (12, 16, 4)
    item = layer(random, 4, 16 if spread else 4)
    facts = {"a_scale": 13 / 255, "a_zp": 93, "b_scale": 5 / 255, "b_zp": 131, "c_scale": 22 / 255, "c_zp": 187}
    fields = {**facts, "a_scale": -facts["a_scale"]} if subtract else facts
    build = Assembler(names=["a"])
    block = 2 if spread else 1
    frame_at, made = region(Space.DDR, 0, size), (block * size[0], block * size[1], 4)
    residual = region(Space.DDR, 0, size, layout=3, block=2) if spread else frame_at
    target = region(Space.DDR, 1024, made, layout=2, block=2) if spread else region(Space.DDR, 1024, made)
    flags = FLAG_LAUNCH | FLAG_RESIDUAL_FIRST
    conv = {"input_zp": 131, "out_zp": 93, "residual": residual, "flags": flags, **fields}
    build.conv(frame_at, target, item.weights, item.bias, item.mult, **conv)
    device = NpuDevice("npu-4t", engine=engine_named(engine))
    loaded = device.load(Program.open(build.program(size, [("y", 1024, made)], 1024 + 4 * 768)))
    frame = frames(size)[0]
    own = reference.conv(frame, item, 131, 93)
    if spread:
        own = own.reshape(12, 16, 4, 2, 2).transpose(0, 3, 1, 4, 2).reshape(made)
        frame = frame.repeat(2, axis=0).repeat(2, axis=1)
    exchanged = {**facts, **{f"{a}_{fact}": fields[f"{b}_{fact}"] for a, b in ("ab", "ba") for fact in ("scale", "zp")}}
    outputs = device.infer(loaded, frame[::block, ::block]).outputs
    assert np.array_equal(outputs["y"], reference.add(frame, own, exchanged))
    assert subtract or not np.array_equal(outputs["y"], reference.add(own, frame, facts))


@pytest.mark.parametrize("shared", [False, True])
def test_constants_are_loaded_again_when_programs_take_turns(shared: bool) -> None:
    size, random = (4, 8, 4), np.random.default_rng(0)
    device = NpuDevice("npu-4t", shared=shared)
    runs = []
    for _ in range(2):
        constant = random.integers(0, 256, size, dtype=np.uint8)
        build = Assembler(names=["a"])
        place = region(Space.SRAM, build.load(constant.tobytes()), size)
        out = region(Space.DDR, 1024, size)
        build.command(Op.ADD, src=region(Space.DDR, 0, size), residual=place, dst=out, flags=1, **reference.ADD)
        loaded = device.load(Program.open(build.program(size, [("y", 1024, size)], 2048)))
        runs.append((loaded, constant))
    for frame in frames(size):
        for loaded, constant in runs:
            expected = reference.add(frame, constant, reference.ADD)
            assert np.array_equal(device.infer(loaded, frame).outputs["y"], expected)


def _conv_at(stream: np.ndarray, number: int) -> int:
    return int(np.flatnonzero(stream["op"] == Op.CONV)[number])


def _with_stream(file: bytes, change: object) -> bytes:
    """Return the program with its first profile's stream changed and all digests right."""
    from contracts.npu.program import ProgramWriter

    program = Program.open(file)
    stream = program.commands(0).copy()
    change(stream)  # type: ignore[operator]
    writer = ProgramWriter(program.target, program.build_id)
    writer.add_profile(program.profiles[0], stream)
    return writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s["dst"]["offset"].__setitem__(_conv_at(s, 0), 4 * 1024 * 1024 - 64), "ends at byte"),
        (lambda s: s["dst"]["rows"].__setitem__(_conv_at(s, 0), 5), "a result of"),
        (lambda s: s["weights_offset"].__setitem__(_conv_at(s, 0), 2**32 - 8), "constants end"),
        (lambda s: s["op"].__setitem__(_conv_at(s, 0), 77), "unknown operation"),
        (lambda s: s["dst"]["space"].__setitem__(_conv_at(s, 0), Space.CONST), "read-only"),
        (lambda s: s["src"]["space"].__setitem__(_conv_at(s, 0), 9), "unknown memory"),
        (lambda s: s["src"]["layout"].__setitem__(_conv_at(s, 0), 9), "unknown layout"),
        (lambda s: s["sh"].__setitem__(_conv_at(s, 0), 0), "a convolution with"),
        (lambda s: s["groups"].__setitem__(_conv_at(s, 0), 5), "do not divide"),
        (
            lambda s: s["dst"].__setitem__(_conv_at(s, 1), s["src"][_conv_at(s, 1)]),
            "overwrites its own input",
        ),
        (
            lambda s: s["dst"]["pixel_stride"].__setitem__(_conv_at(s, 0), 1),
            "overlap",
        ),
    ],
)
def test_a_wrong_plan_is_refused_by_name(change: object, words: str) -> None:
    device = NpuDevice("npu-4t")
    program = Program.open(_with_stream(residual_net().program, change))
    with pytest.raises(PlanViolation, match=words) as refused:
        device.load(program, bind_all=True)
    assert "command" in str(refused.value)


def test_a_truncated_or_damaged_program_is_refused() -> None:
    file = residual_net().program
    for bad in (file[:100], file[:-1], b"ZIP!" + file[4:], file[:4000] + b"\x55" + file[4001:], b""):
        with pytest.raises(ProgramError):
            Program.open(bad)


def test_a_program_for_another_target_is_refused() -> None:
    device = NpuDevice("npu-2t")
    with pytest.raises(ProgramRefused, match=r"npu-4t.*npu-2t"):
        device.load(Program.open(residual_net().program))


@pytest.mark.parametrize(
    "frame",
    [
        np.zeros((12, 17, 3), np.uint8),
        np.zeros((12, 16, 3), np.float32),
        np.zeros((12, 16), np.uint8),
        np.zeros((1, 12, 16, 3), np.uint8),
    ],
)
def test_a_frame_of_another_size_or_type_is_refused(frame: np.ndarray) -> None:
    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(residual_net().program))
    with pytest.raises(FrameRefused, match="12, 16, 3"):
        device.infer(loaded, frame)


def test_an_unknown_profile_is_refused() -> None:
    net = residual_net()
    device = NpuDevice("npu-4t")
    with pytest.raises(FrameRefused, match="999x1"):
        device.infer(device.load(Program.open(net.program)), frames(net.size)[0], "999x1")


def test_an_old_driver_refuses_to_load() -> None:
    device = NpuDevice("npu-4t", faults=Faults(driver="0.9"))
    with pytest.raises(DriverTooOld, match=r"0\.9"):
        device.load(Program.open(residual_net().program))


def test_commands_of_the_contract_are_decoded_whole() -> None:
    assert COMMAND.itemsize == 192  # a new field must be decoded, or refused, by the device
