"""Where time goes: the parts add up, and the five answers say what the figures say."""

from __future__ import annotations

import pytest

from compiler.driver import compile_program
from compiler.measures.answers import QUESTIONS, Left, Memory, answers, streams_of, view_answers
from compiler.measures.kernels import FrameUsage, KernelUsage, hidden_share
from compiler.measures.texts import count, milliseconds, share, size
from contracts.npu import load_spec
from tests.compiler.bundles import WAYS, profile, view
from tests.support.models import vsr_qdq

SPEC = load_spec("npu-4t")


@pytest.mark.parametrize("way", WAYS)
def test_kernels_add_up_to_the_frame(way: str) -> None:
    for frame in profile(way).frames:
        assert frame.usage.sum("total_ns") == pytest.approx(frame.estimate.total_ns)
        parts = ("compute_ns", "wait_ns", "launch_ns", "dispatch_ns")
        for kernel in frame.usage.kernels:
            assert sum(getattr(kernel, part) for part in parts) == pytest.approx(kernel.total_ns, abs=0.01)


@pytest.mark.parametrize("way", WAYS)
def test_the_share_of_hidden_transfers_is_that_of_the_estimate(way: str) -> None:
    for frame in profile(way).frames:
        assert frame.usage.hidden_share == pytest.approx(frame.estimate.dma_hidden_share, abs=1e-6)


def test_stripes_are_counted_as_launches_and_dispatches() -> None:
    kernels = profile("striped").frame().usage.kernels
    assert all(kernel.launches == 1 and kernel.dispatches > 10 for kernel in kernels)
    assert all(kernel.stripes == 1 for kernel in profile("whole").frame().usage.kernels)


def test_the_highest_byte_of_all_kernels_is_the_peak_without_constants() -> None:
    found = profile("whole")
    assert max(kernel.sram_top for kernel in found.frame().usage.kernels) <= found.profile.sram_peak


@pytest.mark.parametrize(
    ("transfer", "wait", "expected"), [(0.0, 0.0, None), (10.0, 0.0, 1.0), (10.0, 4.0, 0.6), (10.0, 30.0, 0.0)]
)
def test_hidden_is_what_was_not_waited_for(transfer: float, wait: float, expected: float | None) -> None:
    assert hidden_share(transfer, wait) == expected


def frame(compute: float = 0.0, wait: float = 0.0, launch: float = 0.0) -> FrameUsage:
    total = compute + wait + launch
    kernel = KernelUsage("head", ("CONV",), 1, 1, 0, 2_000_000, 10, compute, wait, launch, 0.0, wait, total, 0)
    return FrameUsage("u85-like", (kernel,), total)


def test_five_answers_come_in_the_same_order_from_compiler_and_file() -> None:
    program = view("whole").programs[0]
    told = view_answers(program, program.profiles[0])
    assert tuple(question for question, _ in told) == QUESTIONS
    report = compile_program(vsr_qdq(64, 64, 3), "npu-4t", [(96, 128)])[1].profiles[0]
    assert tuple(question for question, _ in report.answers) == QUESTIONS


def test_the_report_and_the_file_give_the_same_answers() -> None:
    _, report = compile_program(vsr_qdq(64, 64, 3), "npu-4t", [(360, 640)])
    assert dict(report.profiles[0].answers)["time"]
    program = view("striped").programs[0]
    assert "dispatches" in dict(view_answers(program, program.profiles[0]))["limited by"]


def test_what_fits_says_so_with_the_bound() -> None:
    def told(bound: int) -> str:
        return dict(answers(SPEC, [frame(1e6)], Memory(3 << 20, bound, 0, ()), Left((), ())))["fits"]

    head, end = "yes: SRAM 3.00 MiB of 4.00 MiB, ", "; no intermediate in DDR"
    assert told(2 << 20) == f"{head}no placement of these buffers needs less than 2.00 MiB{end}"
    assert told((3 << 20) - 127) == f"{head}the least that these buffers need{end}"


def test_what_left_sram_says_why() -> None:
    memory = Memory(3 << 20, None, 5 << 20, ("trunk lives in DDR: SRAM is short",))
    told = dict(answers(SPEC, [frame(1e6)], memory, Left((), ())))
    assert told["fits"].startswith("partly: ")
    assert told["fits"].endswith("5.00 MiB of intermediates in DDR, because trunk lives in DDR: SRAM is short")


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        ({"compute": 3e6, "wait": 1e6}, "compute 3.00 ms (75.0 %)"),
        ({"compute": 1e6, "wait": 3e6}, "waiting for DDR 3.00 ms (75.0 %)"),
        ({"compute": 1e6, "launch": 3e6}, "1 launches 3.00 ms (75.0 %)"),
    ],
)
def test_the_largest_part_is_named_first(parts: dict[str, float], first: str) -> None:
    told = dict(answers(SPEC, [frame(**parts)], Memory(1, 1, 0, ()), Left((), ())))
    assert told["limited by"].startswith(first)
    assert told["limited by"].endswith("the array's peak rate alone needs 1.0 µs")


def test_cpu_kernels_and_unfused_edges_carry_their_reasons() -> None:
    left = Left(
        [("host0", "the NPU has no command for softmax")], [{"producer": "a", "consumer": "b", "reason": "why"}]
    )
    told = dict(answers(SPEC, [frame(1e6)], Memory(1, 1, 0, ()), left))
    assert told["on the CPU"] == "host0: the NPU has no command for softmax"
    assert told["not fused"] == "a → b: why"


def test_several_streams_count_every_frame() -> None:
    assert (streams_of("360x640"), streams_of("360x640x4"), streams_of("360x640x4@0.5")) == (1, 4, 4)
    told = dict(answers(SPEC, [frame(4e6)], Memory(1, 1, 0, ()), Left((), ()), streams=4))
    assert told["time"] == "4.00 ms for 4 frames on the u85-like array (1000.0 frames/s)"


def test_numbers_are_written_for_people() -> None:
    assert [size(value) for value in (12, 2048, 3 << 20)] == ["12 B", "2.0 KiB", "3.00 MiB"]
    assert [milliseconds(value) for value in (0.0, 1500.0, 2.5e6)] == ["0 ms", "1.5 µs", "2.50 ms"]
    assert [share(value) for value in (0.0, 0.0001, 0.5)] == ["0.0 %", "<0.1 %", "50.0 %"]
    assert [count(value) for value in (5, 1.5e3, 2e6, 3e9)] == ["5", "1.50 k", "2.00 M", "3.00 G"]
