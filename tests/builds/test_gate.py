"""Every rule of the gate: green on a good candidate, red on the one thing that it is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contracts.wire import GateVerdict
from services.builds.gate import RULES, judge
from services.builds.loading import Load
from services.builds.measurements import Candidate, Measurement

NORMAL = Measurement(
    target="npu-4t",
    program="model",
    profile="360x640",
    evaluation_set="e-1",
    condition="normal",
    frames=4,
    latency_ms=(6.0, 6.0, 6.1, 6.2),
    ddr_bytes=1_000_000,
    sram_peak=3_000_000,
    psnr_db=32.0,
    nearest_db=30.0,
    flicker_lsb=1.0,
    oracle_largest=1,
    oracle_share=0.0005,
    oracle_values=1_000,
)
HARD = replace(NORMAL, evaluation_set="e-2", condition="hard", psnr_db=27.0, nearest_db=27.5)


def _candidate(*rows: Measurement, **changes: Any) -> Candidate:
    usual: dict[str, Any] = {
        "build_id": "b-new",
        "size_bytes": 900_000,
        "measurements": rows or (NORMAL, HARD),
        "float_psnr": {"normal": 32.1, "night": 27.1},
        "sram_limits": {"npu-4t": 4 << 20},
        "set_names": {"e-1": "normal", "e-2": "night"},
    }
    return Candidate(**{**usual, **changes})


PRODUCTION = _candidate(build_id="b-old")


def _failed(verdict: GateVerdict) -> list[str]:
    return [check.id for check in verdict.checks if not check.ok]


def test_a_candidate_equal_to_production_passes() -> None:
    verdict = judge(_candidate(), PRODUCTION)
    assert verdict.passed
    assert verdict.reasons == ()
    assert len(verdict.checks) > len(RULES)


def test_the_first_build_ever_meets_only_absolute_rules() -> None:
    verdict = judge(_candidate(), None)
    assert verdict.passed
    assert {check.id.split("@")[0] for check in verdict.checks} == {
        "evidence.normal",
        "size.bundle",
        "sram.model",
        "oracle.largest.model",
        "oracle.share.model",
        "quantisation.drop",
        "quality.anchor",
    }


CASES = [
    ("latency.p99.model@npu-4t/360x640/normal", replace(NORMAL, latency_ms=(6.0, 6.0, 6.0, 6.9))),
    ("ddr.model@npu-4t/360x640/normal", replace(NORMAL, ddr_bytes=1_100_001)),
    ("sram.model@npu-4t/360x640/normal", replace(NORMAL, sram_peak=(4 << 20) + 1)),
    ("quality.normal@npu-4t/360x640/normal", replace(NORMAL, psnr_db=31.949)),
    ("flicker@npu-4t/360x640/normal", replace(NORMAL, flicker_lsb=1.051)),
    ("oracle.largest.model@npu-4t/360x640/normal", replace(NORMAL, oracle_largest=2)),
    ("oracle.share.model@npu-4t/360x640/normal", replace(NORMAL, oracle_share=0.0011)),
]


@pytest.mark.parametrize(("check", "row"), CASES, ids=[case[0].split("@")[0] for case in CASES])
def test_one_regression_blocks_and_only_its_own_rule_says_so(check: str, row: Measurement) -> None:
    verdict = judge(_candidate(row, HARD), PRODUCTION)
    assert not verdict.passed
    assert check in _failed(verdict)
    assert {name.split("@")[0] for name in _failed(verdict)} <= {check.split("@")[0], "quantisation.drop"}
    assert any(reason.startswith(check) and len(reason) > len(check) + 20 for reason in verdict.reasons)


@pytest.mark.parametrize(
    "row",
    [
        replace(NORMAL, latency_ms=(6.29, 6.29, 6.29, 6.29)),
        replace(NORMAL, ddr_bytes=1_100_000),
        replace(NORMAL, sram_peak=4 << 20),
        replace(NORMAL, psnr_db=31.951),
        replace(NORMAL, flicker_lsb=1.05),
        replace(NORMAL, oracle_share=0.001),
    ],
)
def test_the_limit_itself_still_passes(row: Measurement) -> None:
    assert judge(_candidate(row, HARD), PRODUCTION).passed


def test_a_hard_set_may_not_lose_anything() -> None:
    worse = replace(HARD, psnr_db=26.99)
    assert _failed(judge(_candidate(NORMAL, worse), PRODUCTION)) == ["quality.hard@npu-4t/360x640/night"]


def test_a_bundle_of_two_million_bytes_is_too_large() -> None:
    assert judge(_candidate(size_bytes=1_999_999), None).passed
    assert _failed(judge(_candidate(size_bytes=2_000_000), None)) == ["size.bundle"]


def test_a_quantisation_loss_names_the_calibration() -> None:
    verdict = judge(_candidate(float_psnr={"normal": 32.151}), PRODUCTION)
    assert _failed(verdict) == ["quantisation.drop@npu-4t/360x640/normal"]
    assert "calibration" in verdict.reasons[0]


def test_no_reference_of_the_float_model_means_no_check_of_it() -> None:
    verdict = judge(_candidate(float_psnr={}), PRODUCTION)
    assert verdict.passed
    assert not any(check.id.startswith("quantisation") for check in verdict.checks)


def test_a_destroyed_picture_is_blocked_even_without_production_and_float_reference() -> None:
    verdict = judge(_candidate(replace(NORMAL, psnr_db=12.0), HARD, float_psnr={}), None)
    assert _failed(verdict) == ["quality.anchor@npu-4t/360x640/normal"]


def test_a_hard_input_is_not_held_to_plain_enlargement() -> None:
    assert judge(_candidate(NORMAL, replace(HARD, nearest_db=40.0)), None).passed


def test_no_played_frame_never_passes() -> None:
    idle = replace(NORMAL, evaluation_set="", condition="none", psnr_db=None)
    verdict = judge(_candidate(idle), None)
    assert _failed(verdict) == ["evidence.normal@npu-4t"]


def test_a_device_class_that_saw_no_frame_never_passes() -> None:
    limits = {"npu-4t": 4 << 20, "npu-2t": 2 << 20}
    assert _failed(judge(_candidate(sram_limits=limits), None)) == ["evidence.normal@npu-2t"]


def test_decoding_that_holds_up_a_load_is_blocked_with_what_to_ask_for_instead() -> None:
    short, long = (Load("npu-4t", "model", ms, "constants coded: 1 byte for 2") for ms in (8.0, 8.1))
    kept = judge(_candidate(loads=(short,)), PRODUCTION)
    assert kept.passed
    assert [check.detail for check in kept.checks if check.id == "load.decode.model@npu-4t"] == [short.note]
    verdict = judge(_candidate(loads=(long,)), PRODUCTION)
    assert _failed(verdict) == ["load.decode.model@npu-4t"]
    assert "allowed are 8 ms, build it with entropy auto or off" in verdict.reasons[0]


def test_rows_that_production_lacks_are_not_compared() -> None:
    other = replace(NORMAL, profile="540x960", latency_ms=(99.0,))
    assert judge(_candidate(NORMAL, HARD, other), PRODUCTION).passed


def test_a_measurement_survives_json() -> None:
    assert Measurement.parse(NORMAL.document()) == NORMAL
