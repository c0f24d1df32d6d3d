"""compare-perf: growth within the limits passes, beyond them is named with its kernel."""

from __future__ import annotations

import csv
import io

import pytest

from compiler.errors import CompileError
from compiler.perf import PerfLimits, compare
from compiler.pieces import BASELINE_COLUMNS


def table(
    block: float = 200.0, ddr: int = 1000, peak: int = 3_000_000, target: str = "npu-4t", model: str = "ideal"
) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, BASELINE_COLUMNS, restval="0", lineterminator="\n")
    writer.writeheader()
    head = {"target": target, "program": "model", "profile": "360x640", "array_model": model}
    writer.writerow({**head, "kernel": "head", "microseconds": 100.0, "ddr_bytes": 500})
    writer.writerow({**head, "kernel": "block0", "microseconds": block, "ddr_bytes": ddr - 500})
    writer.writerow({**head, "kernel": "total", "microseconds": 100 + block, "ddr_bytes": ddr, "sram_peak": peak})
    return text.getvalue().encode()


def test_an_equal_profile_passes() -> None:
    assert compare(table(), table()) == []


def test_growth_within_the_limits_passes() -> None:
    assert compare(table(block=214.0, ddr=1099), table()) == []


def test_latency_beyond_five_percent_names_the_kernel() -> None:
    (found,) = compare(table(block=216.0), table())
    assert (found.measure, found.kernel, found.limit) == ("microseconds", "block0", 315.0)
    assert "most in kernel block0" in str(found)


def test_traffic_beyond_ten_percent_names_the_kernel() -> None:
    (found,) = compare(table(ddr=1101), table())
    assert (found.measure, found.kernel) == ("ddr_bytes", "block0")


def test_a_peak_over_the_targets_sram_is_a_regression() -> None:
    (found,) = compare(table(peak=(4 << 20) + 1), table())
    assert (found.measure, found.limit) == ("sram_peak", 4 << 20)


def test_a_profile_that_vanished_is_a_regression() -> None:
    found = compare(table(), table() + table(model="u85-like").split(b"\n", 1)[1])
    assert [entry.measure for entry in found] == ["missing"]


def test_a_new_profile_is_none() -> None:
    assert compare(table() + table(model="u85-like").split(b"\n", 1)[1], table()) == []


def test_limits_can_be_set() -> None:
    assert compare(table(block=260.0), table(), PerfLimits(latency_percent=30)) == []


@pytest.mark.parametrize(
    "data", [b"", b"a,b\n1,2\n", b"\xff\xfe", table().replace(b"total", b"other"), table().replace(b"100.0", b"fast")]
)
def test_a_table_that_is_none_is_one_error(data: bytes) -> None:
    with pytest.raises(CompileError, match=r"current: .*give a"):
        compare(data, table())


def test_an_unknown_target_is_one_error() -> None:
    with pytest.raises(CompileError, match="unknown NPU target"):
        compare(table(target="npu-9t"), table(target="npu-9t"))
