"""The drift bench: its devices are the agent's, its rates are held honestly, its peers are read right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.drifting import alarms, changepoints, merging, peers, power, whole_frames
from benchmarks.drifting.alarms import SIGMA_TAIL, within
from benchmarks.drifting.changepoints import MARGIN, always, matched
from benchmarks.drifting.device_days import World, device_moments, reports
from benchmarks.drifting.population import Population, device_votes
from benchmarks.peers.environment import PeerFailed
from benchmarks.peers.evidently.results import read_results, write_results
from benchmarks.peers.evidently.run import CASES, REQUIREMENTS, judged
from benchmarks.peers.river.series import Series, series_of
from contracts.statistics import Moments, decode_report


def quiet(_share: float, _text: str) -> None:
    """Progress that nobody reads."""


def test_devices_of_the_bench_send_what_the_agent_would() -> None:
    world, rng = World.of(1), np.random.default_rng(1)
    frames = world.frames(rng, Population(frames=9), 3, 0.2)
    for index, made in enumerate(device_moments(frames, world.observer)):
        agent = Moments()
        for frame in frames[index]:
            z, clipped = world.observer.standardize(frame)
            projected, bins = world.observer.project(z)
            agent.add(z, projected, bins, clipped)
        assert (made.count, made.clipped) == (agent.count, agent.clipped)
        np.testing.assert_allclose(made.mean, agent.mean, atol=1e-5)
        np.testing.assert_allclose(made.squares, agent.squares, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(made.projected_squares, agent.projected_squares, rtol=1e-3, atol=1e-3)
        assert np.abs(made.histogram - agent.histogram).sum() <= 2  # a frame on an edge, by rounding


def test_embeddings_are_white_in_the_observers_28_directions_and_a_shift_has_its_size() -> None:
    world, population = World.of(2), Population(between=0.0, rho=0.0, frames=200)
    frames = world.frames(np.random.default_rng(2), population, 100).reshape(-1, 256)
    inside = (frames / world.observer.sd0) @ world.observer.projection.T
    np.testing.assert_allclose(np.cov(inside.T), np.eye(28), atol=0.06)
    moved = world.observer.projection @ (world.shift(0.5) / world.observer.sd0)
    assert np.linalg.norm(moved) == pytest.approx(0.5, rel=1e-5)
    assert frames.var(axis=0).mean() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("heavy", [False, True])
def test_means_drawn_from_their_law_spread_as_means_of_whole_frames(heavy: bool) -> None:
    population, rng = Population(heavy=heavy, frames=40), np.random.default_rng(3)
    drawn = device_votes(rng, population, 4_000, np.zeros(28))
    world = World.of(3)
    frames = world.frames(rng, population, 1_500)
    means = (frames.mean(axis=1) / world.observer.sd0) @ world.observer.projection.T
    assert np.trace(drawn.comoments) / drawn.count == pytest.approx(np.square(means).sum(axis=1).mean(), rel=0.12)


def test_a_rate_must_lie_within_half_and_twice_its_nominal_only_where_it_can_be_resolved() -> None:
    assert within("x", 51, 1_000, 0.05).ok
    assert not within("x", 24, 1_000, 0.05).ok
    assert not within("x", 101, 1_000, 0.05).ok
    assert within("x", 0, 1_000, SIGMA_TAIL).ok
    assert not within("x", 9, 1_000, SIGMA_TAIL).ok
    assert "not resolvable" in within("x", 0, 1_000, SIGMA_TAIL).reach


def test_a_part_of_each_family_keeps_its_promises() -> None:
    found = [*alarms.figures(quiet, 0.01), *power.figures(quiet, 0.02), *merging.figures(quiet, 500)]
    names = {figure.id for figure in found}
    assert {"aa.gaussian.20_devices.at_5_percent", "aa.heavy.all_sizes.at_3.5_sigma"} <= names
    assert {"power.gaussian.1000_devices_d_0.5", "merge.mean_error", "merge.histogram_equal"} <= names
    kept = ("merge.", "power.", "aa.20_devices")
    assert [figure.id for figure in found if figure.id.startswith(kept) and not figure.ok] == []


def test_whole_frames_through_reports_give_p_values_and_frames_as_the_sample_cry_wolf() -> None:
    p = whole_frames.healthy_p_values(Population(frames=12), 1, np.random.default_rng(6))
    assert len(p) == whole_frames.COHORTS
    assert p.min() > SIGMA_TAIL
    assert whole_frames.frames_as_sample(2).max() < SIGMA_TAIL


def test_alarms_and_marks_are_matched_one_to_one_and_only_backwards() -> None:
    assert matched([100], [110, 120]) == [10]
    assert matched([100, 105], [110, 120]) == [10, 15]
    assert matched([100], [90]) == []
    assert matched([100], [100 + MARGIN + 1]) == []


def test_a_detector_that_always_fires_finds_all_and_is_charged_for_its_false_alarms() -> None:
    series = Series("steps", np.zeros((300, 1)), ((100, 200),))
    fired = changepoints.score(series, always(300))
    assert (fired.recall, fired.false_alarms, fired.alarms) == (1.0, 28, 30)
    assert fired.f1 < 0.2


def test_a_step_is_found_once_within_three_days_and_noise_is_not() -> None:
    rng = np.random.default_rng(4)
    step = rng.normal(size=(400, 2))
    step[200:] += 5.0
    (raised,) = changepoints.alarms(step)
    assert 200 < raised <= 200 + 30
    assert len(changepoints.alarms(rng.normal(size=(400, 2)))) <= 1


def test_series_are_cut_to_the_rows_that_people_saw() -> None:
    raw = {"values": [[float(i)] for i in range(9)], "times": ["1999"] * 3 + ["2001"] * 6, "annotations": {"6": [1]}}
    assert series_of({"name": "Apple", **raw}).values.ravel().tolist() == [0.0, 3.0, 6.0]
    assert series_of({"name": "BrentSpotPrice", **raw}).values.ravel().tolist() == [3.0]
    assert series_of({"name": "RunLog", **raw, "annotations": {"6": [], "7": [2]}}).marks == ((2,),)


def test_series_that_cannot_be_had_are_one_figure_that_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable() -> list[Series]:
        raise PeerFailed("pip left with 1: no index")

    monkeypatch.setattr(changepoints, "read_series", unreachable)
    (figure,) = changepoints.figures()
    assert not figure.ok
    assert "no index" in str(figure.value)


def test_the_committed_comparison_is_of_these_versions_and_cases() -> None:
    results = read_results()
    assert f"evidently=={results.packages['evidently']}" == REQUIREMENTS[0]
    for case in CASES:
        rows = {row.method: row for row in results.rows if row.case == case.name}
        assert set(rows) == {"edgeloop", *case.methods}
        assert all(row.healthy == row.shifted == row.large == case.repeats for row in rows.values())
    json.dumps([figure.value for figure in peers.figures()], allow_nan=False)


def test_the_comparison_survives_the_file(tmp_path: Path) -> None:
    results = read_results()
    write_results(results, tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == results


def test_our_side_of_the_comparison_reads_reports_not_frames() -> None:
    world, rng = World.of(5), np.random.default_rng(5)
    population = Population(between=0.0, rho=0.0, frames=1)
    days = [world.frames(rng, population, 200, shift) for shift in (0.0, 0.0, 3.0)]
    drift, _, kept = judged(days, population)
    assert drift
    assert kept < 70_000
    assert len(decode_report(reports(days[0], world.observer, 1, 0)[0]).mean) == 256
