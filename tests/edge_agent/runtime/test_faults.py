"""Faults are data: read from JSON, refused with a reason, drawn from the seed."""

from __future__ import annotations

import pytest

from edge_agent.runtime.npu.faults import Faults, FaultsInvalid, FaultSource


def test_faults_survive_json() -> None:
    faults = Faults(driver_error_rate=0.25, slow_factor=2.0, driver="1.2", match="^tail$")
    assert Faults.from_mapping(faults.to_mapping()) == faults


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "JSON object"),
        ("{", "not JSON"),
        ('{"speed": 2}', "unknown fault"),
        ('{"driver_error_rate": 1.5}', "0..1"),
        ('{"hang_rate": "often"}', "wrong type"),
        ('{"slow_factor": 0}', "slow_factor"),
        ('{"operating_point": 1.5}', "operating_point"),
        ('{"driver": "new"}', "dotted version"),
        ('{"match": "("}', "regular expression"),
    ],
)
def test_bad_faults_are_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(FaultsInvalid, match=words):
        Faults.from_json(text)


def test_the_same_seed_draws_the_same_faults() -> None:
    faults = Faults(driver_error_rate=0.5, hang_rate=0.1, bit_flip_rate=0.2)
    one, two, other = (FaultSource(faults, seed) for seed in (3, 3, 4))
    drawn = [[source.draw() for _ in range(50)] for source in (one, two, other)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
