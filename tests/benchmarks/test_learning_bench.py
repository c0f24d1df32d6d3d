"""`bench learning`: the anchor's shape, where stages are kept, what the figures say. No long training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import learning
from benchmarks.teaching import (
    bicubic,
    budgets,
    choosing,
    hardening,
    incremental,
    judging,
    kept,
    latency,
    material,
    quicker,
    reference_pair,
    sharing,
)
from benchmarks.teaching.eta import Eta, part
from benchmarks.teaching.material import Scene
from benchmarks.teaching.plain import PlainNet
from benchmarks.teaching.plain_export import exported
from flows.inference import cpu_session
from flows.search.adapt import adapt_supernet
from flows.tasks.vsr.net import anchor


def test_the_hand_made_network_is_c16_n6() -> None:
    net = PlainNet()
    assert net.parameter_count() == 11_468
    assert net(torch.rand(1, 3, 10, 12)).shape == (1, 3, 20, 24)


def test_the_exported_network_computes_the_same_up_to_its_grids() -> None:
    torch.manual_seed(1)
    net, x = PlainNet(), torch.round(torch.rand(1, 3, 24, 32) * 255) / 255
    with torch.no_grad():
        net.convs[-1].weight.mul_(10)  # a residual that counts
    session = cpu_session(exported(net, x))
    (found,) = session.run(None, {"x": x.numpy()})
    with torch.inference_mode():
        enlarged = anchor(x)
        wanted = ((net(x) - enlarged).clamp(-128 / 255, 127 / 255) + enlarged).clamp(0, 1).numpy()
    assert np.abs(found - wanted).max() <= 10 / 255
    assert np.abs(found - wanted).mean() <= 1.5 / 255


def test_bicubic_goes_down_and_up_by_two() -> None:
    frames = np.full((2, 8, 12, 3), 77, np.uint8)
    assert bicubic.halved(frames).shape == (2, 4, 6, 3)
    np.testing.assert_array_equal(bicubic.doubled(bicubic.halved(frames)), frames)


def test_another_configuration_or_other_code_is_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOT", tmp_path / "kept")
    monkeypatch.setattr(kept, "CHECKOUT", tmp_path)
    (tmp_path / "code.py").write_text("one = 1")
    first = kept.kept("stage", 1, {"seconds": 5}, ("code.py",))
    assert first.result is None
    first.finish({"psnr": 30.0})
    assert kept.kept("stage", 1, {"seconds": 5}, ("code.py",)).result == {"psnr": 30.0}
    assert kept.kept("stage", 2, {"seconds": 5}, ("code.py",)).result is None
    assert kept.kept("stage", 1, {"seconds": 6}, ("code.py",)).result is None
    (tmp_path / "code.py").write_text("# a remark\none = 1\n")
    assert kept.kept("stage", 1, {"seconds": 5}, ("code.py",)).result == {"psnr": 30.0}
    (tmp_path / "code.py").write_text("one = 2")
    assert kept.kept("stage", 1, {"seconds": 5}, ("code.py",)).result is None


def test_sources_are_every_file_below_a_folder_and_single_files() -> None:
    found = kept.sources("flows/tasks", "flows/data/pairs.py")
    assert {"flows/tasks/training.py", "flows/tasks/vsr/train.py", "flows/data/pairs.py"} <= set(found)


def test_budgets_are_scaled_alike_and_refused_outside_their_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(budgets.VARIABLE, "0.5")
    assert budgets.budgets().anchor == 270.0
    for wrong in ("0", "2", "-1"):
        monkeypatch.setenv(budgets.VARIABLE, wrong)
        with pytest.raises(ValueError, match="must lie above 0"):
            budgets.budgets()


def test_time_left_is_told_by_the_share_of_this_process() -> None:
    told: list[str] = []
    times = iter((0.0, 10.0))
    eta = Eta(lambda _share, text: told.append(text), lambda: next(times))
    half = part(eta, 0.5, 1.0, "second half")
    half(0.0, "begins")
    half(0.5, "goes on")
    assert told == ["second half begins", "second half goes on, 10 s left"]


def test_tau_of_an_order_and_its_reverse() -> None:
    assert sharing.kendall([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]) == 1.0
    assert sharing.kendall([1.0, 2.0, 3.0], [30.0, 20.0, 10.0]) == -1.0
    assert sharing.kendall([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0]) == pytest.approx(4 / 6)


def test_the_chain_is_made_of_members_that_contain_each_other() -> None:
    for small, large in zip(sharing.CHAIN, sharing.CHAIN[1:], strict=False):
        assert sharing.SPACE.contains(small)
        assert sharing.SPACE.contains(large)
        assert small.trunk <= large.trunk
        assert all(
            a.depth <= b.depth and a.mid <= b.mid and a.kernel <= b.kernel
            for a, b in zip(small.stages, large.stages, strict=True)
        )


def test_ranked_networks_are_members_and_differ_by_seed() -> None:
    first, second = sharing.spread(1), sharing.spread(2)
    assert len(set(first)) == sharing.RANKED
    assert all(sharing.SPACE.contains(one) for one in first)
    assert first != second
    assert [one.macs(64, 64) for one in first] == sorted(one.macs(64, 64) for one in first)


def _search_row(gain: float, lpips: float, ratio: float, quick: tuple[float, float]) -> dict[str, object]:
    levels = {name: {"psnr": 40.0, "lpips": 0.1, "flicker": 1.0} for name in ("person", "carphone", "bikes")}
    better = {name: {"psnr": 40.0 + gain, "lpips": 0.1 + lpips, "flicker": 1.0} for name in levels}
    return {
        "found": better, "plain": levels, "longer": levels, "measured_us": 100 * ratio, "plain_us": 100.0,
        "judged_networks": 90, "architecture": "{}",
        "quicker": {"person": {"psnr": 40.0 + quick[0]}, "measured_us": 100 * quick[1]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gain", "lpips", "ratio", "quick", "ok"),
    [
        (0.2, -0.001, 0.99, (-0.1, 0.8), True),
        (0.2, 0.001, 0.99, (-0.1, 0.8), False),
        (0.2, -0.001, 1.01, (-0.1, 0.8), False),
        (0.2, 0.001, 0.99, (0.0, 0.85), True),
        (0.2, 0.001, 0.99, (0.1, 0.86), False),
        (-0.01, -0.01, 0.5, (-0.01, 0.5), False),
    ],
)
def test_the_search_must_be_better_or_faster(
    gain: float, lpips: float, ratio: float, quick: tuple[float, float], *, ok: bool
) -> None:
    figures = {figure.id: figure for figure in learning.search_figures({1: _search_row(gain, lpips, ratio, quick)})}
    assert figures["search.person.gain"].ok is ok


def test_without_the_published_pair_its_figures_are_not_ok(tmp_path: Path) -> None:
    figures = reference_pair.reference_figures(tmp_path)
    assert [figure.ok for figure in figures] == [False, False]
    assert all("ex_ref.png is not in" in figure.unit for figure in figures)


def test_the_best_network_within_a_latency_is_taken() -> None:
    small, middle, large = (one.to_json() for one in sharing.CHAIN[:3])
    rows = [[large, 41.0, 0.99], [middle, 40.5, 0.85], [small, 40.0, 0.5]]
    assert quicker.best_within(rows, 0.85) == sharing.CHAIN[1]
    with pytest.raises(ValueError, match="no network of the front"):
        quicker.best_within(rows, 0.4)


def test_a_missed_promise_is_not_ok_and_the_seeds_are_told() -> None:
    row = {"networks": [{"slice": 1.0, "tuned": 2.0}]}
    figures = learning.ranking_figures({1: {**row, "tau": 0.5}, 2: {**row, "tau": 0.7}, 3: {**row, "tau": 0.9}})
    assert figures[0].value == 0.7
    assert not figures[0].ok
    assert "3 seeds, 0.5 to 0.9" in figures[0].unit


def test_unknown_stages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELOOP_LEARNING_STAGES", "anchor,pudding")
    with pytest.raises(ValueError, match="no stage pudding"):
        learning.chosen_stages()


def _scenes(seeds: tuple[int, ...], frames: int = 6) -> tuple[Scene, ...]:
    """Textures that move by two pixels a frame, 128 x 160."""
    found = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        wide = random.integers(30, 220, (16, 24, 3)).repeat(8, axis=0).repeat(8, axis=1).astype(np.uint8)
        high = np.stack([wide[:128, 2 * step : 2 * step + 160] for step in range(frames)])
        found.append(Scene(f"scene{seed}", high, 25.0))
    return tuple(found)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Small scenes, a small device picture, budgets of about a second, and a folder of its own."""
    training, held_out = (
        _scenes((1, 2, 3)),
        {"person": _scenes((4,)), "carphone": _scenes((5,)), "bikes": _scenes((6,))},
    )
    caches = (material.training_set, material.judge_sets, choosing.validation_pairs, hardening.normal_pairs,
              hardening.hard_pairs, hardening.judged_calls, incremental._validation)  # fmt: skip
    for module in (material, hardening):
        monkeypatch.setattr(module, "training_scenes", lambda: training)
        monkeypatch.setattr(module, "judged_scenes", lambda: held_out)
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    monkeypatch.setattr(material, "_CROP", 48)
    monkeypatch.setattr(latency, "SIZE", (48, 64))
    monkeypatch.setattr(latency, "PROFILE", "48x64")
    monkeypatch.setattr(judging, "lpips_metric", lambda: _distance)
    monkeypatch.setattr(reference_pair, "lpips_metric", lambda: _distance)
    monkeypatch.setenv(budgets.VARIABLE, "0.002")
    monkeypatch.setenv("EDGELOOP_LEARNING_SEEDS", "1")
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def _distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one - other).abs().mean(dim=(1, 2, 3))


@pytest.mark.slow
def test_every_stage_runs_and_a_second_bench_trains_nothing(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    figures = {figure.id: figure for figure in learning.bench(lambda share, _text: told.append(share))}
    assert {
        "anchor.person.gain", "supernet.monotone", "ranking.tau", "search.person.gain", "search.latency_ratio",
        "hard.psnr_gain", "normal.psnr_change", "incremental.time", "incremental.loss",
    } <= set(figures)  # fmt: skip
    assert told == sorted(told)
    assert figures["search.latency_ratio"].value <= 1.05
    assert not list(small.rglob("*.checkpoint"))

    def never(*_given: object, **_named: object) -> None:
        raise AssertionError("trained again")

    for module in (sharing, hardening, incremental):
        monkeypatch.setattr(module, "finetune", never)
    assert {figure.id for figure in learning.bench(lambda _share, _text: None)} == set(figures)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_where_no_stage_is_affected_all_are_searched_as_in_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that only head and tail answer to left the adapting of the supernet without a parameter."""
    adapted: list[tuple[int, ...]] = []

    def seen(*given: Any, **named: Any) -> Any:
        adapted.append(given[2])
        return adapt_supernet(*given, **named)

    monkeypatch.setattr(incremental, "affected_stages", lambda _responses: ())
    monkeypatch.setattr(incremental, "adapt_supernet", seen)
    assert incremental.answered(1)["incremental"]["seconds"] > 0
    assert adapted == [tuple(range(sharing.SPACE.stages))]
