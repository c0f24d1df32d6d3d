"""Stripes through Concat and Split: the windows of a map share one ring of rows, each maker writes its own bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.gridding.integer_net import IntegerNet
from compiler import golden
from compiler.driver import read_model
from compiler.options import CompileOptions
from compiler.program_builder import CompiledProgram, FusedProfile, build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice
from edge_agent.runtime.npu.checking import check_profile
from tests.compiler.oracle import frame_of
from tests.support.models import recurrent_qdq

SPEC = load_spec("npu-4t")
SIZE = (24, 36)
Map = tuple[str, int]
"""A tensor and its channels."""


def densely_joined() -> bytes:
    """Each convolution reads all results before it, joined in place."""
    net = IntegerNet(0)
    joined, channels = net.conv("x", "c0", 4), 4
    for index in range(1, 4):
        made = net.conv(joined, f"c{index}", 3, inputs=channels, kernel=(5, 5), pads=(2, 2, 2, 2))
        joined, channels = net.concat([joined, made], f"j{index}", 0.03, 100), channels + 3
    return net.model(net.conv(joined, "f", 3, inputs=channels))


def two_branches() -> bytes:
    """One branch sees more rows than the other, so the windows of the joined map grow at different rates."""
    net = IntegerNet(1)
    far = net.conv(net.conv("x", "a", 4, kernel=(7, 3), pads=(3, 1, 3, 1)), "b", 5, kernel=(7, 3), pads=(3, 1, 3, 1))
    near = net.conv("x", "c", 3, kernel=(1, 1), pads=(0, 0, 0, 0))
    return net.model(net.conv(net.concat([near, far], "j", 0.03, 100), "f", 3, inputs=8))


def split_and_joined_turned() -> bytes:
    net = IntegerNet(2)
    parts = split(net, net.conv("x", "a", 8), "s", 3, 5)
    other = net.conv(parts[0], "b", 3, inputs=3)
    return net.model(net.conv(net.concat([parts[1], other], "j", 0.03, 100), "f", 3, inputs=8))


def split_frame() -> bytes:
    net = IntegerNet(3)
    net.facts["x"] = net.facts[net.conv("x", "a", 4)]
    parts = split(net, "a", "s", 1, 3)
    return net.model(net.conv(net.concat([parts[1], "a"], "j", 0.03, 100), "f", 3, inputs=7))


def side_by_side() -> bytes:
    """Columns instead of channels."""
    net = IntegerNet(4)
    a, b = net.conv("x", "a", 4), net.conv("x", "b", 4, strides=(1, 2))
    return net.model(net.conv(net.concat([a, b], "j", 0.03, 100, axis=3), "f", 3))


def joined_output() -> bytes:
    """The joined map is what the net gives."""
    net = IntegerNet(5)
    return net.model(net.concat([net.conv("x", "a", 4), net.conv("x", "b", 2, scale=0.02)], "j", 0.03, 100))


def trunk_beside_its_block() -> bytes:
    """An addition in place would replace rows that the joined map still shows."""
    net = IntegerNet(6)
    trunk = net.conv("x", "t", 4)
    total = net.two("QLinearAdd", trunk, net.conv(net.conv(trunk, "m", 6), "b", 4, inputs=6), "sum", 0.03, 100)
    return net.model(net.conv(net.concat([trunk, total], "j", 0.03, 100), "f", 3, inputs=8))


def split(net: IntegerNet, source: str, name: str, *sizes: int) -> list[str]:
    parts = [f"{name}{index}" for index in range(len(sizes))]
    for part, (first, last) in zip(parts, zip(np.cumsum((0, *sizes)), np.cumsum(sizes), strict=False), strict=True):
        net.facts[part] = net.facts[source]
        bounds = [net.constant(f"{part}.{key}", np.array([number])) for key, number in (("s", first), ("e", last))]
        net.node("Slice", [source, *bounds, net.constant(f"{part}.a", np.array([1]))], part)
    return parts


NETS: dict[str, Callable[[], bytes]] = {
    "densely joined": densely_joined,
    "two branches": two_branches,
    "split and joined turned": split_and_joined_turned,
    "split frame": split_frame,
    "side by side": side_by_side,
    "joined output": joined_output,
    "trunk beside its block": trunk_beside_its_block,
}


def drawn(seed: int) -> bytes:
    """A random net of convolutions, sums, functions, joins and slices."""
    random, net = np.random.default_rng(seed), IntegerNet(seed)
    maps: list[Map] = [(net.conv("x", "c0", 4), 4)]
    for index in range(int(random.integers(3, 8))):
        near = maps[int(random.integers(max(0, len(maps) - 3), len(maps)))]
        maps += grown(net, random, maps, near, f"v{index}")
    last, other = maps[-1], maps[int(random.integers(len(maps)))]
    joined = net.concat([last[0], other[0]], "last", 0.05, 100)
    return net.model(net.conv(joined, "f", 3, inputs=last[1] + other[1]))


def grown(net: IntegerNet, random: np.random.Generator, maps: list[Map], near: Map, name: str) -> list[Map]:
    """One operator more; none where it does not suit."""
    source, channels = near
    any_other = maps[int(random.integers(len(maps)))]
    kind = random.choice(["conv", "join", "slices", "sum", "function"])
    if kind == "conv":
        outputs, kernel = int(random.integers(2, 9)), int(random.choice([1, 3, 5]))
        pads = (kernel // 2,) * 4
        made = net.conv(source, name, outputs, inputs=channels, kernel=(kernel, kernel), pads=pads)
        return [(made, outputs)]
    if kind == "join":
        scale, zero = net.facts[source] if random.random() < 0.6 else (0.05, 90)
        made = net.concat([source, any_other[0]], name, float(scale), int(zero))
        return [(made, channels + any_other[1])]
    if kind == "slices" and channels > 1:
        first = int(random.integers(1, channels))
        return list(zip(split(net, source, name, first, channels - first), (first, channels - first), strict=True))
    if kind == "sum" and any_other[1] == channels:
        return [(net.two("QLinearAdd", source, any_other[0], name, 0.06, 110), channels)]
    return [(net.one("QLinearLeakyRelu", source, name, 0.04, 100, alpha=0.1), channels)]


def compiled(model: bytes, options: CompileOptions) -> tuple[FusedProfile, CompiledProgram]:
    profiles = read_model("model", model, [SIZE], options).profiles
    return profiles[0], build_program(profiles, SPEC, bytes(16), options)


def assert_exact(model: bytes, rows: int) -> None:
    profile, program = compiled(model, CompileOptions(stripe_rows=rows))
    assert program.profiles[0].segments, "stripes were asked for"
    opened, device = Program.open(program.data), NpuDevice(SPEC, jitter=0.0)
    frame = frame_of(profile.imported)
    outputs = device.infer(device.load(opened, bind_all=True), frame).outputs
    for name, image in golden.run(profile.imported, frame).items():
        np.testing.assert_array_equal(outputs[name], image)
    assert check_profile(opened, 0, SPEC) == []


@pytest.mark.parametrize("rows", [1, 2, 5, 24])
@pytest.mark.parametrize("name", NETS)
def test_stripes_through_windows_are_exact_and_the_plan_holds(name: str, rows: int) -> None:
    assert_exact(NETS[name](), rows)


@pytest.mark.parametrize("seed", range(12))
def test_random_nets_with_windows_are_exact_in_stripes(seed: int) -> None:
    for rows in (1, 3):
        assert_exact(drawn(seed), rows)


def test_several_streams_go_through_windows() -> None:
    profile, program = compiled(densely_joined(), CompileOptions(stripe_rows=4, streams=2))
    device = NpuDevice(SPEC, jitter=0.0)
    frames = [frame_of(profile.imported, seed) for seed in (1, 2)]
    outputs = device.infer(device.load(Program.open(program.data)), np.concatenate(frames)).outputs
    wanted = [golden.run(profile.imported, frame)["y"] for frame in frames]
    np.testing.assert_array_equal(outputs["y"], np.concatenate(wanted))


def test_windows_that_cut_rows_and_nets_that_keep_something_run_whole() -> None:
    net = IntegerNet(7)
    below = net.concat([net.conv("x", "a", 4), net.conv("x", "b", 4)], "j", 0.03, 100, axis=2)
    for model in (net.model(net.conv(below, "f", 3)), recurrent_qdq()):
        profiles = read_model("model", model, [(32, 48)]).profiles
        program = build_program(profiles, SPEC, bytes(16), CompileOptions(stripe_rows=4))
        assert program.profiles[0].segments == ()
