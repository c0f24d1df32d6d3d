"""The memory planner: nothing alive shares a byte, and what leaves SRAM has a printed reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.constants import collect_constants
from compiler.errors import DoesNotFit
from compiler.memory import Buffer, MemoryPlan, plan_memory
from compiler.memory.buffers import lower_bound, naive_peak, value_buffers
from compiler.memory.greedy import place
from compiler.passes.pipeline import fuse
from compiler.passes.quant_table import QuantTableBuilder
from compiler.schedule import Schedule, schedule
from contracts.npu import NpuSpec, Space, load_spec
from tests.compiler.helpers import imported
from tests.support.models import QdqBuilder, quality_qdq, vsr_qdq

SPEC = load_spec("npu-4t")


def planned(model: bytes, spec: NpuSpec = SPEC) -> tuple[Schedule, MemoryPlan]:
    work = schedule(fuse(imported(model, 64, 96)).graph)
    quant = QuantTableBuilder(spec).run(work.graph)
    return work, plan_memory(work, collect_constants(work, spec.alignment), len(quant.data), spec)


@st.composite
def buffer_lists(draw: st.DrawFn) -> list[Buffer]:
    buffers = []
    for index in range(draw(st.integers(0, 25))):
        first = draw(st.integers(0, 20))
        buffers.append(Buffer(f"b{index}", draw(st.integers(1, 5000)), first, first + draw(st.integers(0, 8))))
    return buffers


@settings(max_examples=150, deadline=None)
@given(buffer_lists())
def test_buffers_alive_together_never_share_a_byte(buffers: list[Buffer]) -> None:
    placement = place(buffers, 128)
    for index, one in enumerate(buffers):
        assert placement.offsets[one.name] % 128 == 0
        for other in buffers[:index]:
            start, end = placement.offsets[one.name], placement.offsets[one.name] + one.size
            apart = end <= placement.offsets[other.name] or placement.offsets[other.name] + other.size <= start
            assert apart or not one.overlaps(other)
    assert placement.peak >= lower_bound(buffers)


def test_placement_is_deterministic() -> None:
    buffers = [Buffer(f"b{i}", 100 * (i % 7 + 1), i, i + 3) for i in range(20)]
    assert place(buffers, 128) == place(buffers, 128)


def test_the_trunk_of_all_residual_blocks_is_one_buffer() -> None:
    work, plan = planned(vsr_qdq(blocks=3))
    trunk = next(buffer for buffer in plan.buffers if "head_relu_dq_q" in buffer.values)
    assert trunk.values == ("head_relu_dq_q", "block0_add_dq_q", "block1_add_dq_q", "block2_add_dq_q")
    assert len(value_buffers(work)) == 6  # input, output, trunk, three middles


def test_input_and_outputs_live_in_ddr_and_nothing_else() -> None:
    work, plan = planned(vsr_qdq())
    outside = {value for value, home in plan.value_homes.items() if home.space == Space.DDR}
    assert outside == {work.graph.input, *(value for _, value in work.graph.outputs)}
    assert plan.reasons == ()
    assert plan.weights_resident
    assert plan.value_homes[work.graph.input].offset == 0


def test_the_plan_reports_peak_bound_and_gap() -> None:
    _, plan = planned(vsr_qdq())
    assert plan.bound <= plan.peak <= SPEC.sram_bytes
    assert plan.gap == plan.peak / plan.bound - 1
    assert plan.method.startswith("greedy by")


def test_fusion_and_reuse_need_less_than_the_naive_plan() -> None:
    _, plan = planned(vsr_qdq())
    assert plan.peak < 0.5 * naive_peak(imported(vsr_qdq(), 64, 96))


def test_short_sram_streams_constants_or_moves_buffers_and_says_so() -> None:
    _, plan = planned(vsr_qdq(), replace(SPEC, sram_bytes=60_000))
    assert plan.peak <= 60_000
    assert plan.reasons
    assert all("bytes" in reason for reason in plan.reasons)
    _, smaller = planned(vsr_qdq(), replace(SPEC, sram_bytes=20_000))
    assert smaller.peak <= 20_000
    assert any("lives in DDR" in reason for reason in smaller.reasons)
    assert smaller.traffic > plan.traffic


def test_sram_smaller_than_one_kernels_weights_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="weights of one kernel"):
        planned(vsr_qdq(), replace(SPEC, sram_bytes=4_096))


def test_a_value_that_is_also_an_output_is_not_overwritten_in_place() -> None:
    work, plan = planned(quality_qdq())
    features = next(value for name, value in work.graph.outputs if name == "features")
    assert plan.value_homes[features].space == Space.DDR


def test_a_convolution_that_adds_its_own_source_is_not_in_place() -> None:
    b = QdqBuilder(0)
    trunk = b.quantize("x", 1 / 255, 0, 4)
    b.conv(trunk, "head", 4)
    trunk = b.quantize("head", 0.02, 100, 4)
    b.conv(trunk, "body", 4)
    b.node("Add", [b.quantize("body", 0.02, 100, 4), trunk], "sum")
    b.conv(b.quantize("sum", 0.03, 100, 4), "tail", 4)
    b.quantize("tail", 0.02, 100, 4, output="y")
    _, plan = planned(b.model({"x": [1, 4, "h", "w"]}, {"y": [1, 4, "h", "w"]}))
    assert plan.value_homes["sum_dq_q"] != plan.value_homes["head_dq_q"]
