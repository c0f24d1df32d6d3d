"""Conditions that training gets are those that hurt the model, and of these the ones that most members lie near to."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from flows.data.corpus import Split, default_corpus
from flows.data.degrade import HARD, Degradation
from flows.data.pairs import View
from flows.run_folder import Json
from flows.steps.hard import MAX_CONDITIONS, hard_conditions
from flows.steps.harm import HARM_DB, measured_harm
from flows.tasks.vsr.metrics import as_upscaler

MILD, NOISY, COARSE = Degradation(gain=0.5, crf=21.0), Degradation(noise=20.0), Degradation(crf=38.0)


def row(condition: Degradation, reached: int, harm: float) -> Json:
    return {"degradation": asdict(condition), "reached": reached, "harm_db": harm}


def test_a_condition_that_costs_the_model_nothing_is_left_out_however_many_members_lie_near() -> None:
    hard = {"stand_ins": [row(MILD, 50, 0.8), row(NOISY, 3, 4.0), row(COARSE, 9, 6.0)]}
    assert hard_conditions(hard) == (COARSE, NOISY)


def test_the_mean_over_its_stand_ins_decides() -> None:
    hard = {"stand_ins": [row(NOISY, 5, HARM_DB + 2), row(NOISY, 5, HARM_DB - 1), row(COARSE, 1, HARM_DB - 0.1)]}
    assert hard_conditions(hard) == (NOISY,)


def test_where_no_condition_hurts_all_count_and_ten_are_enough() -> None:
    many = [Degradation(gain=0.3 + 0.02 * index) for index in range(15)]
    chosen = hard_conditions({"stand_ins": [row(one, index, 0.1) for index, one in enumerate(many)]})
    assert chosen == tuple(reversed(many))[:MAX_CONDITIONS]


def test_stand_ins_of_a_run_that_was_begun_before_harm_was_measured_all_count() -> None:
    old = [{"degradation": asdict(MILD), "reached": 2}]
    assert hard_conditions({"stand_ins": old}) == (MILD,)


@pytest.mark.parametrize(("condition", "harms"), [(MILD, False), (NOISY, True), (COARSE, True), (HARD, True)])
def test_harm_is_measured_with_the_model_itself(condition: Degradation, harms: bool) -> None:
    upscale = as_upscaler((Path(__file__).resolve().parents[2] / "seeds" / "v1.onnx").read_bytes())
    clip = next(one for one in default_corpus().of(Split.TRAIN) if one.id == "bikes/1")
    found = measured_harm([(clip, View(scale=1), condition)], upscale)
    assert (found[clip.id, condition] >= HARM_DB) is harms
