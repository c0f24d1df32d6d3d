"""NPU specifications: data files that load, and the arithmetic of the array models."""

from __future__ import annotations

import pytest

from contracts.npu import UnknownTarget, load_spec, target_names


def test_the_design_targets_exist() -> None:
    assert {"npu-4t", "npu-2t"} <= set(target_names())


@pytest.mark.parametrize("name", target_names())
def test_every_target_loads_and_has_both_array_models(name: str) -> None:
    spec = load_spec(name)
    assert spec.name == name
    assert [model.name for model in spec.array_models] == ["ideal", "u85-like"]
    assert spec.sram_bytes % spec.alignment == 0


def test_the_default_target_has_the_designed_numbers() -> None:
    spec = load_spec("npu-4t")
    assert (spec.peak_macs_per_ns, spec.sram_bytes, spec.launch_us) == (2000, 4 << 20, 78)


def test_an_ideal_array_charges_exactly_the_macs() -> None:
    assert load_spec("npu-4t").array_model("ideal").charged_macs(100, 9, 12, 48) == 100 * 9 * 12 * 48


@pytest.mark.parametrize(("taps", "charged"), [(1, 4), (9, 12), (25, 28)])
def test_the_u85_like_array_pads_taps_and_channels(taps: int, charged: int) -> None:
    model = load_spec("npu-4t").array_model("u85-like")
    assert model.charged_macs(10, taps, 12, 40) == 10 * charged * 16 * 48


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(UnknownTarget, match="npu-4t"):
        load_spec("npu-9t")


def test_driver_versions_are_compared_as_numbers() -> None:
    spec = load_spec("npu-4t")
    assert spec.supports_driver("1.2.10")
    assert not spec.supports_driver("0.9.9")
    assert not spec.supports_driver("2.0.0")
