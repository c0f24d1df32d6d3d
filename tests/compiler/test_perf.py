"""compare-perf: growth within the limits passes, beyond them is named with its kernel."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from compiler.errors import CompileError
from compiler.measures.baseline import BASELINE_COLUMNS
from compiler.perf import Comparison, PerfLimits, compare, judge, read, read_trace, with_trace


def table(
    block: float = 200.0,
    ddr: int = 1000,
    peak: int = 3_000_000,
    target: str = "npu-4t",
    model: str = "ideal",
    profile: str = "360x640",
    kernel: str = "block0",
) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, BASELINE_COLUMNS, restval="0", lineterminator="\n")
    writer.writeheader()
    head = {"target": target, "program": "model", "profile": profile, "array_model": model}
    writer.writerow({**head, "kernel": "head", "microseconds": 100.0, "ddr_bytes": 500, "sram_peak": 1000})
    writer.writerow({**head, "kernel": kernel, "microseconds": block, "ddr_bytes": ddr - 500, "sram_peak": peak})
    writer.writerow({**head, "kernel": "total", "microseconds": 100 + block, "ddr_bytes": ddr, "sram_peak": peak})
    return text.getvalue().encode()


def both(**changes: object) -> bytes:
    more = table(model="u85-like", **changes)  # type: ignore[arg-type]
    return table(**changes) + more.split(b"\n", 1)[1]  # type: ignore[arg-type]


def measures(found: Comparison) -> list[str]:
    return [entry.measure for entry in found.regressions]


def test_an_equal_profile_passes() -> None:
    assert compare(table(), table()).ok


def test_growth_within_the_limits_passes() -> None:
    assert compare(table(block=214.0, ddr=1099), table()).ok


def test_latency_beyond_five_percent_names_the_kernel() -> None:
    (found,) = compare(table(block=216.0), table()).regressions
    assert (found.measure, found.kernel, found.limit) == ("latency_p99_us", "block0", 315.0)
    assert str(found) == ("npu-4t/model 360x640 ideal: 300 -> 316 µs, +5.3 %, allowed +5 %; block0 grew most (+16)")


def test_traffic_beyond_ten_percent_names_the_kernel() -> None:
    (found,) = compare(table(ddr=1101), table()).regressions
    assert (found.measure, found.kernel) == ("ddr_bytes", "block0")


def test_traffic_of_both_array_models_is_told_once() -> None:
    assert measures(compare(both(ddr=1101), both())) == ["ddr_bytes"]


def test_a_peak_over_the_targets_sram_names_the_kernel_on_top() -> None:
    (found,) = compare(table(peak=(4 << 20) + 1), table()).regressions
    assert (found.measure, found.limit, found.kernel) == ("sram_bytes", 4 << 20, "block0")


def test_a_budget_of_ones_own_is_kept_too() -> None:
    assert measures(compare(table(), table(), PerfLimits(sram_bytes=2_999_999))) == ["sram_bytes"]
    assert compare(table(), table(), PerfLimits(sram_bytes=3_000_000)).ok


def test_a_profile_that_vanished_is_a_regression() -> None:
    assert measures(compare(table(), both())) == ["missing"]


def test_a_profile_without_a_baseline_is_not_passed_in_silence() -> None:
    assert measures(compare(both(), table())) == ["no baseline"]
    assert compare(both(), table(), PerfLimits(allow_new=True)).ok


def test_a_kernel_that_grows_unseen_in_the_frame_is_found_when_asked() -> None:
    current, baseline = table(block=1010.0).replace(b"head,100.0", b"head,110.0"), table(block=1000.0)
    assert compare(current, baseline).ok
    (found,) = compare(current, baseline, PerfLimits(per_kernel=True)).regressions
    assert (found.kernel, found.baseline, found.current) == ("head", 100.0, 110.0)


def test_new_and_vanished_kernels_are_told_and_a_new_one_can_be_the_culprit() -> None:
    found = compare(table(block=400.0, kernel="block1"), table())
    assert found.regressions[0].kernel == "block1"
    assert found.notes == (
        "npu-4t/model 360x640 ideal: new kernels block1",
        "npu-4t/model 360x640 ideal: kernels no longer there block0",
    )


def test_rows_hold_every_measure_of_frame_and_kernels() -> None:
    rows = compare(table(block=220.0), table()).rows
    frame = next(row for row in rows if not row.kernel and row.measure == "latency_p99_us")
    assert (frame.baseline, frame.current) == (300.0, 320.0)
    assert frame.growth_percent == pytest.approx(100 * 20 / 300)
    assert {row.kernel for row in rows} == {"", "head", "block0"}


def test_limits_can_be_set() -> None:
    assert compare(table(block=260.0), table(), PerfLimits(latency_percent=30)).ok


def test_a_table_of_an_older_compiler_is_still_a_baseline() -> None:
    rows = list(csv.DictReader(io.StringIO(table().decode())))
    kept = [column for column in BASELINE_COLUMNS if column not in ("dispatches", "hidden_dma_share", "wait_us")]
    text = io.StringIO()
    writer = csv.DictWriter(text, kept, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    assert compare(table(), text.getvalue().encode()).ok


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a,b\n1,2\n",
        b"\xff\xfe",
        table().replace(b"total", b"other"),
        table().replace(b"100.0", b"fast"),
        table().replace(b"100.0", b"nan"),
        table().replace(b"100.0", b"-1"),
        b"{}",
        b'{"figures": []}',
        b"{" * 100_000,
    ],
)
def test_a_table_that_is_none_is_one_error(data: bytes) -> None:
    with pytest.raises(CompileError, match=r"current: .*give "):
        compare(data, table())


def test_an_unknown_target_is_one_error() -> None:
    with pytest.raises(CompileError, match="unknown NPU target"):
        compare(table(target="npu-9t"), table(target="npu-9t"))


# ---- measured traces


def trace(scale: float = 1.0, frames: int = 200, seed: int = 0) -> bytes:
    random = np.random.default_rng(seed)
    rows = [
        f"{frame},{kernel},{base * scale * (1 + 0.02 * abs(random.standard_normal())):.4f}"
        for frame in range(frames)
        for kernel, base in (("head", 100.0), ("block0", 100.0), ("block0", 100.0))
    ]
    return ("frame,kernel,microseconds\n" + "\n".join(rows) + "\n").encode()


def test_the_percentile_of_a_trace_is_over_frames_with_stripes_added_up() -> None:
    rows = "".join(f"{n},head,{n}\n{n},head,{n}\n" for n in range(1, 101))
    found = read_trace("t", f"frame,kernel,microseconds\n{rows}".encode())
    expected = float(np.percentile(2 * np.arange(1, 101), 99.0))
    assert (found.frames, found.frame_p99_us, found.kernels_p99_us) == (100, expected, {"head": expected})


def test_a_trace_without_frames_counts_rows_of_each_kernel() -> None:
    rows = "".join(f"head,{n}\ntail,10\n" for n in range(1, 101))
    found = read_trace("t", f"kernel,microseconds\n{rows}".encode())
    assert found.frame_p99_us == pytest.approx(float(np.percentile(np.arange(1, 101) + 10, 99.0)))


def test_json_traces_are_the_same_as_csv() -> None:
    rows = [{"frame": n, "kernel": "head", "microseconds": n} for n in range(1, 101)]
    assert read_trace("t", json.dumps(rows).encode()).kernels_p99_us["head"] == pytest.approx(99.01)


def test_a_total_row_is_the_frames_own_time() -> None:
    rows = "".join(f"{n},head,1\n{n},total,5\n" for n in range(100))
    found = read_trace("t", f"frame,kernel,microseconds\n{rows}".encode())
    assert (found.frame_p99_us, found.kernels_p99_us) == (5.0, {"head": 1.0})


def test_two_traces_compare_alone() -> None:
    assert compare(trace(seed=1), trace()).ok
    (found,) = compare(trace(1.1), trace()).regressions
    assert (found.measure, found.array_model, found.kernel) == ("latency_p99_us", "measured", "block0")


def test_a_measured_time_takes_the_place_of_the_estimate() -> None:
    slow = with_trace(read("current", both(block=900.0)), read_trace("t", trace()))
    fast = with_trace(read("baseline", both()), read_trace("t", trace(seed=1)))
    assert judge(slow, fast, PerfLimits()).ok
    assert not compare(both(block=900.0), both()).ok


def test_traffic_and_memory_are_judged_beside_a_trace() -> None:
    hungry = with_trace(read("current", both(ddr=1200)), read_trace("t", trace()))
    before = with_trace(read("baseline", both()), read_trace("t", trace()))
    assert measures(judge(hungry, before, PerfLimits())) == ["ddr_bytes"]


def test_a_trace_says_what_it_measured_when_there_is_a_choice() -> None:
    several = read("current", table() + table(profile="540x960").split(b"\n", 1)[1])
    with pytest.raises(CompileError, match=r"give --measures, one of npu-4t/model/360x640, npu-4t/model/540x960"):
        with_trace(several, read_trace("t", trace()))
    with pytest.raises(CompileError, match=r"npu-4t/model/9x9 is not in current"):
        with_trace(several, read_trace("t", trace()), "npu-4t/model/9x9")
    found = with_trace(several, read_trace("t", trace()), "npu-4t/model/540x960")
    assert [key.profile for key in found.samples if key.array_model == "measured"] == ["540x960"]


def test_a_trace_of_whole_frames_takes_the_culprit_from_the_estimate() -> None:
    def whole(microseconds: float) -> bytes:
        return ("kernel,microseconds\n" + f"total,{microseconds}\n" * 100).encode()

    slow = with_trace(read("current", both(block=260.0)), read_trace("t", whole(400)))
    fast = with_trace(read("baseline", both()), read_trace("t", whole(300)))
    (found,) = judge(slow, fast, PerfLimits()).regressions
    assert (found.array_model, found.kernel) == ("measured", "block0")
    assert "the frame is measured, its kernels are estimated" in str(found)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (trace(frames=99), "99 frames, their 99th percentile says nothing; measure at least 100"),
        (b"kernel,microseconds\nhead,1\nhead,1\ntail,1\n", "no frame column says which belong together"),
        (b"kernel,microseconds\nhead,fast\n", "not a measured trace"),
        (b"kernel,microseconds\nhead,inf\n", "not a measured trace"),
        (b'[{"kernel": "head"}]', "not a measured trace"),
        (b"[" * 100_000, "not a measured trace"),
    ],
)
def test_a_trace_that_is_none_is_one_error(data: bytes, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        read_trace("t", data)


def test_unlike_files_are_not_compared() -> None:
    with pytest.raises(CompileError, match="current: a measured trace, and baseline is a profile table; compare like"):
        compare(trace(), table())


# ---- the JSON of a bench


def figures(**values: object) -> bytes:
    rows = {
        "c88x8.u85_ms": (50.0, "ms, launches and dispatches in", True),
        "c88x8.ddr_mb": (5.0, "MB a frame", True),
        "c88x8.vela_ms": (53.9, "ms", True),
        "c88x8.compile_wall_s": (2.0, "s", True),
        "c88x8.kernels": (12, "launches a frame", True),
    }
    for name, value in values.items():
        old = rows[name.replace("__", ".")]
        rows[name.replace("__", ".")] = value if isinstance(value, tuple) else (value, *old[1:])
    found = [{"id": k, "value": v, "unit": u, "reach": "", "ok": ok} for k, (v, u, ok) in rows.items()]
    return json.dumps({"machine": {}, "figures": found}).encode()


def test_bench_figures_of_time_and_traffic_keep_the_limits() -> None:
    assert compare(figures(c88x8__u85_ms=52.0, c88x8__ddr_mb=5.4), figures()).ok
    found = compare(figures(c88x8__u85_ms=53.0, c88x8__ddr_mb=5.6), figures())
    assert [(entry.profile, entry.measure) for entry in found.regressions] == [
        ("c88x8.u85_ms", "latency_p99_us"),
        ("c88x8.ddr_mb", "ddr_bytes"),
    ]


def test_host_and_rival_times_are_not_judged() -> None:
    assert compare(figures(c88x8__vela_ms=99.0, c88x8__compile_wall_s=2.9), figures()).ok


def test_a_promise_that_is_no_longer_kept_is_a_regression() -> None:
    assert measures(compare(figures(c88x8__kernels=(13, "launches a frame", False)), figures())) == ["promise"]
