"""The golden vectors follow the text of docs/reference/arithmetic.md, checked in exact rational arithmetic."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib import resources
from typing import Any

import numpy as np
import pytest

VECTORS: dict[str, Any] = json.loads(
    (resources.files("contracts.npu") / "vectors" / "arithmetic.json").read_text(encoding="utf-8")
)


def f32(value: Fraction) -> Fraction:
    """Round to single precision, half to even, exactly."""
    near = np.float32(float(value))
    best: list[tuple[Fraction, int, Fraction]] = []
    for candidate in (np.nextafter(near, np.float32("-inf")), near, np.nextafter(near, np.float32("inf"))):
        exact = Fraction(float(candidate))
        odd = int(np.float32(candidate).view(np.uint32)) & 1
        best.append((abs(exact - value), odd, exact))
    return min(best)[2]


def rint(value: Fraction) -> int:
    return round(value)  # Fraction rounds half to even


def exact(vector: dict[str, Any], *names: str) -> list[Fraction]:
    return [Fraction(vector[name]) for name in names]


@pytest.mark.parametrize("index", range(0, 200, 20))
def test_requantisation_vectors_follow_the_text(index: int) -> None:
    for vector in VECTORS["requantize"][index : index + 20]:
        accumulator, multiplier = exact(vector, "accumulator", "multiplier")
        y = rint(f32(f32(accumulator) * multiplier)) + vector["out_zp"]
        assert min(max(y, vector["clamp_lo"]), vector["clamp_hi"]) == vector["y"], vector


@pytest.mark.parametrize("index", range(0, 200, 20))
def test_addition_vectors_follow_the_text(index: int) -> None:
    for vector in VECTORS["add"][index : index + 20]:
        a, b, sa, sb, sc = exact(vector, "a", "b", "a_scale", "b_scale", "c_scale")
        za, zb, zc = exact(vector, "a_zp", "b_zp", "c_zp")
        ra, rb = f32(sa / sc), f32(sb / sc)
        fixed = f32(zc - f32(ra * za + f32(rb * zb)))
        y = rint(f32(a * ra + f32(b * rb + fixed)))
        assert min(max(y, vector["add_lo"]), vector["add_hi"]) == vector["y"], vector


def test_the_vectors_use_both_ends_and_the_middle() -> None:
    for kind in ("requantize", "add"):
        results = [vector["y"] for vector in VECTORS[kind]]
        assert min(results) == 0
        assert max(results) == 255
        assert len(set(results)) > 60
