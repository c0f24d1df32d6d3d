"""The bench of the emulated device on a net that takes no time: every figure is there, and a wrong pixel shows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import npu
from benchmarks.emulator import switching
from benchmarks.emulator.cpu_time import alternated
from benchmarks.emulator.runners import Emulated, Image
from benchmarks.emulator.switching import Switch
from benchmarks.reference_nets import NetShape
from edgeloop.figures import Figure

SMALL = NetShape("small", 16, 2, 2, 24, 32)
IDS = {
    "differs_from_golden",
    "differs_from_onnxruntime",
    "cpu_ratio",
    "cpu_ms",
    "onnxruntime_cpu_ms",
    "simulated_ideal_ms",
    "simulated_u85_ms",
    "estimate_ideal_off",
    "estimate_u85_off",
}


def _by_id(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.id.removeprefix("small."): figure for figure in figures}


def test_a_net_has_all_its_figures_and_no_pixel_differs() -> None:
    figures = _by_id(npu.net_figures(SMALL))
    assert set(figures) == IDS
    assert figures["differs_from_golden"].ok
    assert figures["differs_from_onnxruntime"].ok


def test_a_wrong_pixel_is_counted_against_both_oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Emulated.run

    def wrong(self: Emulated, frame: Image) -> Image:
        image = run(self, frame)
        image[3, 5, 1] ^= np.uint8(1)
        return image

    monkeypatch.setattr(Emulated, "run", wrong)
    figures = _by_id(npu.net_figures(SMALL))
    for oracle in ("golden", "onnxruntime"):
        figure = figures[f"differs_from_{oracle}"]
        assert (figure.value, figure.ok) == (1, False)


def test_a_slow_or_allocating_switch_is_not_ok() -> None:
    good = npu.switch_figures("profile", Switch(0.4, 0.05, 0, 64))
    bad = npu.switch_figures("profile", Switch(6.0, 7.0, 1, 5000))
    assert [figure.id for figure in good] == [
        "switch.profile_host_ms",
        "switch.profile_simulated_ms",
        "switch.profile_allocated",
        "switch.profile_peak",
    ]
    assert [figure.ok for figure in (*good, *bad)] == [True] * 4 + [False] * 4


def test_switching_profile_allocates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "ROUNDS", 2)
    switch = switching.profile_switch()
    assert switch.arrays == 0
    assert switch.peak < npu.PEAK_BYTES


def test_what_a_run_allocates_behind_another_is_seen() -> None:
    behind = ["none"]

    def one() -> float:
        behind[0] = "one"
        return 0.0

    def other() -> float:
        needed = np.zeros(100_000 if behind[0] == "one" else 1_000, np.uint8)
        behind[0] = "other"
        return float(needed[0])

    assert 90_000 < switching.measured(one, other)[2] < 110_000


def test_both_functions_run_in_turn() -> None:
    order: list[str] = []
    alternated(lambda: order.append("ours"), lambda: order.append("theirs"), rounds=2)
    assert order == ["ours", "theirs"] * 3
