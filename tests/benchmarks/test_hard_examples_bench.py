"""The bench of hard-example mining counts by the device's own chain, and by measured loss only."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.hard_examples import BAD_DB, figures, lowest_quiet_tau, roc_area, shares
from benchmarks.mining.calls import Call, Watched
from benchmarks.mining.chain import mine, uploads_in_an_hour
from benchmarks.mining.conditions import KNOWN
from edge_agent.observers.hard import HardSettings

TAU = 5.0
SETTINGS = HardSettings()


def watched(scores: list[float], seed: int = 0) -> Watched:
    features = np.random.default_rng(seed).integers(0, 256, (len(scores), 4, 4, 16), dtype=np.uint8)
    return Watched(features, np.array(scores, np.float64), np.zeros(len(scores)), np.array(scores, np.float64))


def test_frames_of_a_spell_that_was_uploaded_are_found_and_two_in_a_row_are_not() -> None:
    mined = mine(watched([1, 6, 6, 1, 6, 6, 6, 6, 6, 1]), TAU, SETTINGS)
    assert mined.found.tolist() == [False] * 4 + [True] * 5 + [False]
    assert mined.uploads == 1


def test_a_spell_that_ends_at_three_frames_is_found_too() -> None:
    mined = mine(watched([1, 6, 6, 6, 1, 1]), TAU, SETTINGS)
    assert mined.found.tolist() == [False, True, True, True, False, False]


def test_what_the_token_bucket_refuses_is_not_found() -> None:
    spells = watched([6, 6, 6, 6, 1] * 6)
    mined = mine(spells, TAU, SETTINGS)
    assert mined.uploads == 3
    assert int(mined.found.sum()) == 12


def test_a_duplicate_of_an_upload_is_found_without_another_upload() -> None:
    features = np.full((10, 4, 4, 16), 96, np.uint8)
    scores = np.array([6.0, 6, 6, 6, 1, 6, 6, 6, 6, 1])
    twice = Watched(features, scores, np.zeros(10), scores)
    mined = mine(twice, TAU, SETTINGS)
    assert mined.uploads == 1
    assert int(mined.found.sum()) == 8


def test_recall_counts_measured_loss_and_not_the_score() -> None:
    losses = np.array([BAD_DB] * 4 + [0.0] * 4)
    blind = Call("v", "dim", watched([1] * 8), losses)
    seeing = Call("v", "dim", watched([6] * 8), losses)
    assert shares([blind], TAU, SETTINGS) == (0.0, 1.0)
    assert shares([seeing], TAU, SETTINGS) == (1.0, 0.5)
    assert shares([blind, seeing], TAU, SETTINGS) == (0.5, 0.5)


def test_quiet_calls_upload_nothing_and_loud_ones_are_held_by_the_bucket() -> None:
    random = np.random.default_rng(0)
    assert uploads_in_an_hour([watched([1.0] * 24)], TAU, SETTINGS, random) == (0, 0)
    loud = [watched([6, 6, 6, 6, 1] * 5, seed) for seed in range(8)]
    uploads, unbraked = uploads_in_an_hour(loud, TAU, SETTINGS, random, call_s=60.0)
    assert 1 <= uploads <= SETTINGS.burst
    assert unbraked > 100


def test_a_missed_reach_is_printed_as_missed() -> None:
    calls = [Call("v", name, watched([1] * 8), np.full(8, 9.0)) for name in KNOWN]
    found = {
        figure.id: figure
        for figure in figures(calls, [watched([6.0, 6, 6, 1] * 6)], TAU, SETTINGS, hours=1, call_s=60.0)
    }
    assert not found["recall"].ok
    assert not found["recall_low_light"].ok
    assert not found["good.uploads_worst"].ok
    assert found["recall.blur_1.2"].value == pytest.approx(0.0)


def test_area_is_the_chance_that_a_bad_frame_scores_higher() -> None:
    assert roc_area(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1.0
    assert roc_area(np.array([1.0]), np.array([0.0, 1.0, 2.0, 1.0])) == pytest.approx(0.5)
    assert roc_area(np.array([]), np.array([1.0])) == 0.5


def test_the_lowest_quiet_threshold_lies_above_what_good_calls_repeat() -> None:
    good = [*(watched([2.0] * 6, seed) for seed in range(4)), watched([0.0] * 6)]
    assert lowest_quiet_tau(good, SETTINGS, call_s=600.0) == pytest.approx(2.0, abs=0.1)
