"""Operators of the registry: what they reduce to in simple cases, where they run, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler import golden, golden_host
from compiler.errors import UnsupportedModel
from compiler.ir import Conv, Host, HostFunction, Value
from compiler.operators import Placement, place_operators, unsupported
from compiler.passes.pipeline import fuse
from tests.compiler.host_nets import HOST, registry, with_domain
from tests.compiler.oracle import after_each_pass, frame_of, imported
from tests.compiler.qdq_nets import SHAPE, Net

RANDOM = np.random.default_rng(6)


def value(height: int, width: int, channels: int, scale: float = 0.02, zero: int = 128) -> Value:
    return Value("v", height, width, channels, scale, zero)


def image(of: Value) -> golden.Image:
    return RANDOM.integers(0, 256, of.shape, dtype=np.uint8)


def host(function: HostFunction, **facts: object) -> Host:
    return Host("h", function, "a", "b", "r", **facts)  # type: ignore[arg-type]  # fields of Host


@pytest.mark.parametrize("name", HOST)
def test_no_pass_changes_a_host_operator_and_the_report_says_why_it_is_on_the_cpu(name: str) -> None:
    graph = imported(HOST[name](), *SHAPE)
    final = after_each_pass(graph, frame_of(graph))
    lines = [str(placed) for placed in place_operators(final) if placed.placement == Placement.HOST]
    assert len(lines) == 1
    assert "-> CPU: " in lines[0]
    assert lines[0].startswith("f_")


def test_alignment_with_offsets_of_zero_is_the_convolution() -> None:
    graph = imported(HOST["deformable alignment"](), *SHAPE)
    step = next(op for op in graph.operators if isinstance(op, Host))
    conv = step.convolution
    assert isinstance(conv, Conv)
    source, frame = graph.values[step.a], frame_of(graph)
    still = np.full((*SHAPE, 18), 128, np.uint8)
    result = graph.values[step.result]
    aligned = golden_host.execute(step, (frame, source), (still, value(*SHAPE, 18)), result)
    plain = golden.requantize(
        golden.convolve(frame, conv, source.zero_point),
        golden.multiplier(conv, source),
        conv.zero_point,
        conv.clamp,
    )
    np.testing.assert_array_equal(aligned, plain)


def test_a_warp_by_whole_pixels_moves_the_image() -> None:
    v = value(8, 12, 3)
    picture = image(v)
    motion = np.array([128, 128, 128 + 2, 128, 128, 128 - 3], np.uint8).reshape(1, 1, 6)
    warped = golden_host.execute(host(HostFunction.GLOBAL_MOTION_WARP), (picture, v), (motion, value(1, 1, 6, 1.0)), v)
    expected = np.full(v.shape, 128, np.uint8)
    expected[:6, 3:] = picture[2:, :-3]
    np.testing.assert_array_equal(warped, expected)


def test_upsampling_with_a_one_in_the_middle_repeats_pixels() -> None:
    v = value(4, 5, 2)
    picture = image(v)
    filters = np.full((4, 5, 9 * 4), 128, np.uint8)
    filters[:, :, 16:20] = 129
    step = host(HostFunction.DYNAMIC_UPSAMPLING, kernel=(3, 3), factor=2)
    made = golden_host.execute(step, (picture, v), (filters, value(4, 5, 36, 1.0)), replace(v, height=8, width=10))
    np.testing.assert_array_equal(made, picture.repeat(2, axis=0).repeat(2, axis=1))


def test_attention_over_equal_values_gives_the_value() -> None:
    v = value(4, 5, 2)
    picture = image(v)
    keys = RANDOM.integers(129, 256, (4, 5, 6), dtype=np.uint8)
    memory = np.concatenate([keys, np.concatenate([picture] * 3, axis=2)], axis=2)
    query = RANDOM.integers(129, 256, v.shape, dtype=np.uint8)
    step = host(HostFunction.LINEAR_TEMPORAL_ATTENTION)
    made = golden_host.execute(step, (query, v), (memory, replace(v, channels=12)), v)
    np.testing.assert_array_equal(made, picture)


def test_attention_without_any_score_gives_zero() -> None:
    v = value(4, 5, 2)
    dark = np.zeros(v.shape, np.uint8)
    memory = RANDOM.integers(0, 256, (4, 5, 4), dtype=np.uint8)
    made = golden_host.execute(host(HostFunction.LINEAR_TEMPORAL_ATTENTION), (dark, v), (memory, v), v)
    assert np.all(made == v.zero_point)


def test_an_old_driver_lacks_host_operators_tables_and_pools() -> None:
    graph = fuse(imported(HOST["global motion warp"](), *SHAPE)).graph
    lacking = unsupported(graph, "1.0.0")
    assert [line.split(" needs")[0] for line in lacking] == ["mean_GlobalAveragePool: Pool", "f_GlobalMotionWarp: Host"]
    assert len(unsupported(graph, "1.1.9")) == 1
    assert unsupported(graph, "1.2.0") == ()
    with pytest.raises(ValueError, match=r"'new' is not of the form 1\.2\.3"):
        unsupported(graph, "new")


def test_shapes_that_do_not_fit_are_refused_with_a_remedy() -> None:
    net = Net()
    memory = net.features("memory", 12)
    model = with_domain(net.done(registry(net, "LinearTemporalAttention", [net.frame, memory], "f")))
    with pytest.raises(UnsupportedModel, match=r"f_LinearTemporalAttention: memory .* concatenate T keys and T values"):
        imported(model, *SHAPE)
    net = Net()
    motion = net.features("motion", 6)
    model = with_domain(net.done(registry(net, "GlobalMotionWarp", [net.frame, motion], "f")))
    with pytest.raises(UnsupportedModel, match=r"give six numbers, \[1, 6, 1, 1\]"):
        imported(model, *SHAPE)
