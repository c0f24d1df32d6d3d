"""The bench of updates: what it prints when something is wrong, and a small part of what it does."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.updates import attack_figures, crash_figures
from benchmarks.updating import deltas
from benchmarks.updating.attacks import Outcome, Siege
from benchmarks.updating.crashes import Found
from benchmarks.updating.noise import Noise, no_core_ms, noise_figures
from benchmarks.updating.switching import _switches
from edgeloop.figures import Figure


def by_id(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.id: figure for figure in figures}


def test_a_device_without_a_bundle_is_named_and_not_ok() -> None:
    found = Found(runs=9, operations=300, bricked=["7 (rename slots.json), power lost"])
    figures = by_id(crash_figures("exchange", found))
    assert not figures["exchange.without_bundle"].ok
    assert "7 (rename slots.json)" in figures["exchange.without_bundle"].unit
    assert figures["exchange.floor_lower"].ok


def test_too_few_operations_mean_that_nothing_was_tested() -> None:
    assert not by_id(crash_figures("exchange", Found(operations=20)))["exchange.operations"].ok


def test_a_crash_told_twice_or_never_is_named_and_not_ok() -> None:
    found = Found(miscounted=["9 (flush slots.json), power lost: 2 of 1 crashes"])
    assert not found.all_well
    assert not by_id(crash_figures("exchange", found))["exchange.crash_miscounted"].ok


def test_one_slow_switch_of_a_hundred_is_not_ok_whatever_the_machine_did() -> None:
    figures = by_id(_switches("switch.slot", [*[0.1] * 99, 6.0], "ms"))
    assert figures["switch.slot.median"].ok
    assert figures["switch.slot.p99"].ok
    assert not figures["switch.slot.worst"].ok


def test_the_machines_own_hold_ups_are_measured(tmp_path: Path) -> None:
    noise = Noise()
    noise.listen(tmp_path, rounds=5, slices=20)
    figures = by_id(noise_figures(noise))
    assert figures["machine.flushed_write.worst"].value > 0
    assert figures["machine.exchange.median"].value > 0
    assert len(noise.held_up) == 20
    assert no_core_ms() >= 0


def test_one_accepted_bundle_is_one_too_many() -> None:
    outcome = Outcome(Counter({"tampered": 400}), ["tampered 3"], {"tampered": Counter({"untrusted": 399})}, True)
    figures = by_id(attack_figures(outcome))
    assert not figures["attacks.accepted"].ok
    assert figures["attacks.cases"].ok
    assert "untrusted 399" in figures["attacks.tampered"].unit


def test_fewer_cases_than_promised_are_not_ok() -> None:
    assert not by_id(attack_figures(Outcome(Counter({"tampered": 199}), last_good=True)))["attacks.cases"].ok


def test_the_retrained_bundles_travel_as_a_third_at_most(tmp_path: Path) -> None:
    figures = by_id(deltas.figures(tmp_path))
    assert all(figure.ok for figure in figures.values())
    assert {"delta.short.share", "delta.long.share", "delta.other_shape.same_bytes"} <= figures.keys()


@pytest.mark.slow
def test_one_attack_of_each_kind_is_refused_and_a_good_bundle_is_taken(tmp_path: Path) -> None:
    siege = Siege(tmp_path)
    seen: Counter[str] = Counter()
    for case in islice(siege.cases(), 500):
        seen[case.kind] += 1
        if seen[case.kind] == 1:
            got_in, causes = siege.accepted(case)
            assert not got_in, (case.kind, causes)
            assert causes != {"not wanted"}, case.kind
    assert len(seen) == 20
    assert siege.left_base == 0
    assert siege.good_gets_in()
