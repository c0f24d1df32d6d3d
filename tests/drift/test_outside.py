"""What the 28 directions cannot see, where the mean went, and whether quality fell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from contracts.statistics.moments import BINS, DIMENSIONS, HISTOGRAMS, SUBSPACE
from contracts.wire.drift import DriftState
from services.drift.domain.directions import top_directions
from services.drift.domain.quality import quality_change
from services.drift.domain.reading import Reading
from services.drift.domain.reference import Reference, Within, pooled_spread
from services.drift.domain.residual import residual_test
from services.drift.domain.scalar import welch_test
from services.drift.domain.tally import Tally
from services.drift.domain.verdict import judge, measure
from services.drift.domain.votes import Votes
from services.drift.limits import DriftSettings

SETTINGS = DriftSettings()
RNG = np.random.default_rng(31)
ROTATION = np.linalg.qr(RNG.normal(size=(DIMENSIONS, DIMENSIONS)))[0]
PROJECTION = (np.linspace(0.5, 2.0, SUBSPACE)[:, None] * ROTATION[:SUBSPACE]).astype(np.float32)
READING = Reading.of(PROJECTION)
EVEN = np.full((HISTOGRAMS, BINS), 1.0 / BINS)


def votes(rng: np.random.Generator, devices: int, **moved: float) -> Votes:
    """Votes of healthy devices; `mean`, `energy` (log) and `score` (dB) may be moved."""
    means = rng.normal(scale=np.sqrt(0.5), size=(devices, SUBSPACE)) + moved.get("mean", 0.0)
    energies = 5.0 + moved.get("energy", 0.0) + 0.2 * rng.normal(size=devices)
    scores = 1.0 + moved.get("score", 0.0) + 0.3 * rng.normal(size=devices)
    return Votes.of_devices(means, np.broadcast_to(EVEN, (devices, *EVEN.shape)), scores, energies)


def reference(rng: np.random.Generator, devices: int = 200) -> Reference:
    return Reference.of_days([votes(rng, devices), votes(rng, devices)])


def energy(frames: np.ndarray) -> float:
    """Energy of frames (n x 256) outside the span of the projection, the plain way."""
    outside = frames - frames @ ROTATION[:SUBSPACE].T @ ROTATION[:SUBSPACE]
    return float(np.square(outside).sum(axis=1).mean())


def test_the_energy_outside_is_what_remains_when_the_directions_are_projected_out() -> None:
    rng = np.random.default_rng(1)
    frames = rng.normal(loc=0.3, scale=rng.uniform(0.5, 2.0, DIMENSIONS), size=(500, DIMENSIONS))
    mean, variance = frames.mean(axis=0)[None], frames.var(axis=0)[None]
    projected = frames @ READING.projection.T
    covariance = np.cov(projected.T, bias=True)[None]
    found = READING.log_residuals(mean, variance, READING.projected(mean), covariance)
    assert np.exp(found[0]) == pytest.approx(energy(frames), rel=1e-6)


def test_a_shift_inside_the_span_leaves_the_energy_outside_alone_and_one_outside_does_not() -> None:
    rng = np.random.default_rng(2)
    frames = rng.normal(size=(400, DIMENSIONS))
    logs = []
    for shift in (0.0, 4.0 * ROTATION[3], 4.0 * ROTATION[200]):
        moved = frames + shift
        projected = moved @ READING.projection.T
        parts = (moved.mean(axis=0)[None], moved.var(axis=0)[None], projected.mean(axis=0)[None])
        logs.append(float(READING.log_residuals(*parts, np.cov(projected.T, bias=True)[None])[0]))
    assert logs[1] == pytest.approx(logs[0], abs=1e-6)
    assert logs[2] > logs[0] + 0.05


def test_an_energy_below_the_rounding_of_a_report_is_no_noise() -> None:
    """Everything inside the span: what is left over is rounding, and every device gives the same number."""
    rng = np.random.default_rng(11)
    means = rng.normal(size=(50, SUBSPACE)) @ ROTATION[:SUBSPACE]
    nothing = np.zeros((50, SUBSPACE, SUBSPACE))
    logs = READING.log_residuals(means, np.full((50, DIMENSIONS), 1e-3), READING.projected(means), nothing)
    assert np.ptp(logs) == 0.0
    assert logs[0] == pytest.approx(np.log(0.5))


def test_drift_that_the_28_directions_cannot_see_is_found_outside_them() -> None:
    rng = np.random.default_rng(3)
    base = reference(rng)
    spread = pooled_spread([base])
    day = measure(votes(rng, 200, energy=0.25), base, spread, SETTINGS)
    verdict = judge({"a/b": day}, SETTINGS)["a/b"]
    assert verdict.z_mean is not None
    assert verdict.z_mean < 3.5
    assert verdict.state is DriftState.WARN
    assert "outside the 28 directions" in verdict.reason
    assert verdict.residual == pytest.approx(np.sqrt(np.expm1(0.25)), rel=0.15)


def test_energy_that_falls_is_drift_too_and_has_a_sign() -> None:
    rng = np.random.default_rng(4)
    found = residual_test(votes(rng, 200, energy=-0.4), reference(rng))
    assert found is not None
    assert found.p < 1e-6
    assert found.r == pytest.approx(-np.sqrt(-np.expm1(-0.4)), rel=0.15)


def test_chance_in_the_mean_never_meets_significance_outside() -> None:
    """A large D by chance in a small cohort must not become drift because a trifle outside is significant."""
    rng = np.random.default_rng(5)
    base = reference(rng, 4_000)
    day = measure(votes(rng, 4_000, energy=0.05), base, pooled_spread([base]), SETTINGS)
    trifle = judge({"a/b": day}, SETTINGS)["a/b"]
    assert trifle.z is not None
    assert trifle.z > 3.5
    assert (trifle.state, trifle.reason) == (DriftState.STABLE, "significant but too small to matter")


def test_healthy_days_alarm_outside_at_the_nominal_rate() -> None:
    rng, found = np.random.default_rng(6), []
    for _ in range(1_500):
        base = Reference.of_days([_energies(rng, 80), _energies(rng, 80)])
        test = residual_test(_energies(rng, 80), base)
        assert test is not None
        found.append(test.p)
    assert 0.5 * 0.05 <= np.mean(np.array(found) < 0.05) <= 2 * 0.05


def _energies(rng: np.random.Generator, devices: int) -> Votes:
    logs = rng.standard_t(5, size=devices)
    return Votes.of_devices(np.zeros((devices, SUBSPACE)), np.zeros((devices, 0, 0)), logs, logs)


def test_reports_without_energies_are_judged_by_the_mean_alone() -> None:
    rng = np.random.default_rng(7)
    base = reference(rng)
    old = Votes.from_flat(np.append(votes(rng, 200).flat()[:-6], 1.0))
    verdict = measure(old, base, pooled_spread([base]), SETTINGS)
    assert verdict.residual is None
    assert verdict.quality is None
    assert verdict.z == verdict.z_mean


def test_a_reference_written_before_energies_can_still_be_read() -> None:
    base = reference(np.random.default_rng(8))
    numbers = np.frombuffer(base.to_bytes(), "<f8")
    flat, square = len(base.votes.flat()), SUBSPACE * SUBSPACE
    tail = numbers[flat : flat + square + 1]
    old = np.concatenate([numbers[: flat - 6], [0.7], tail]).tobytes()
    again = Reference.from_bytes(old)
    assert again.freedom == base.freedom
    assert again.residual == Within()
    np.testing.assert_array_equal(again.votes.mean, base.votes.mean)
    assert Reference.from_bytes(base.to_bytes()).scores == base.scores
    with pytest.raises(ValueError, match="another version"):
        Reference.from_bytes(base.to_bytes()[:-8])


def test_the_directions_that_moved_most_come_first_with_their_sign() -> None:
    gap = np.zeros(SUBSPACE)
    gap[4], gap[9], gap[20] = -0.8, 0.5, 0.1
    found = top_directions(gap, np.eye(SUBSPACE) * 0.01, 3)
    assert [(one.axis, one.shift) for one in found] == [(4, -0.8), (9, 0.5), (20, 0.1)]
    assert found[0].z == pytest.approx(-8.0)


def test_a_verdict_names_the_direction_of_the_drift() -> None:
    rng = np.random.default_rng(9)
    base = reference(rng)
    day = votes(rng, 200)
    day.mean[11] -= 0.9
    verdict = measure(day, base, pooled_spread([base]), SETTINGS)
    assert (verdict.directions[0].axis, verdict.directions[0].shift < -0.6) == (11, True)


@pytest.mark.parametrize(("rise", "fell"), [(0.3, True), (0.0, False), (-0.3, False), (0.03, False)])
def test_quality_fell_when_devices_expect_more_loss_by_enough(rise: float, fell: bool) -> None:
    rng = np.random.default_rng(10)
    change = quality_change(votes(rng, 400, score=rise), reference(rng, 400), 0.01, 0.1)
    assert change is not None
    assert change.fell is fell
    assert change.rise_db == pytest.approx(rise, abs=0.06)


def test_welch_is_the_textbooks_t_and_needs_two_devices_a_side() -> None:
    now, then = Tally.of(np.array([1.0, 2.0, 3.0, 4.0])), Tally.of(np.array([2.0, 4.0, 6.0, 8.0]))
    test = welch_test(now, then, Within(then.squares, 3))
    assert test is not None
    textbook = stats.ttest_ind([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0], equal_var=False)
    assert test.p == pytest.approx(textbook.pvalue)
    assert test.p_rise == pytest.approx(1 - textbook.pvalue / 2)
    assert welch_test(Tally.of(np.array([1.0])), then, Within(then.squares, 3)) is None
    assert welch_test(now, Tally(), Within()) is None


def test_devices_that_are_all_equal_give_a_number_not_a_crash() -> None:
    same = Tally.of(np.full(50, 2.0))
    test = welch_test(same, same, Within(same.squares, 49))
    assert test is not None
    assert test.p == pytest.approx(1.0)
