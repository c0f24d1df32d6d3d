"""What a device notices: hard segments with their brakes, daily statistics, health and the verdict of a trial."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.features import unpack_codes
from contracts.statistics import decode_report
from contracts.wire import Cause, SegmentUpload
from edge_agent.enrol import Identity
from edge_agent.observers.drift import DriftObserver, Evidence
from edge_agent.observers.hard import HardFrame, HardMiner, HardSettings, Origin
from edge_agent.observers.health import HealthWindow, Played, TrialLimits, fidelity, judge
from tests.support.agent_twin import NOON, TAGS, toy_observer

IDENTITY = Identity("device-1", "token", "{}", "key", "ab" * 32)
ORIGIN = Origin("toy-1", "1.0", TAGS, IDENTITY.pseudonym(20_000, "toy-1"))
RANDOM = np.random.default_rng(3)
FEW = Evidence(frames=5, sessions=1)


def frame(score: float, level: int | None = None) -> HardFrame:
    features = RANDOM.integers(0, 256, (2, 3, 16), dtype=np.uint8)
    if level is not None:
        features = np.full((2, 3, 16), level, np.uint8)
    return HardFrame(features, score, motion=2.0)


def sorted_cells(codes: np.ndarray) -> list[list[list[int]]]:
    return [sorted(map(list, one.reshape(-1, 16))) for one in codes]


def mine(scores: list[float], miner: HardMiner, every_s: float = 1.0, start: float = NOON) -> list[SegmentUpload]:
    found = (miner.observe(frame(s), 1.0, start + i * every_s, ORIGIN) for i, s in enumerate(scores))
    return [segment for segment in found if segment is not None]


def test_two_hard_frames_are_not_a_segment_and_three_are() -> None:
    assert mine([2, 2, 0, 2, 2, 0], HardMiner(HardSettings())) == []
    (segment,) = mine([2, 3, 2, 0], HardMiner(HardSettings()))
    assert segment.frames == 3
    assert segment.score_max == pytest.approx(3)
    assert segment.score_mean == pytest.approx(7 / 3)


def test_one_long_spell_gives_one_segment_until_it_is_over() -> None:
    miner = HardMiner(HardSettings())
    assert len(mine([2] * 100, miner)) == 1
    assert len(mine([0, 2, 2, 2, 2], miner, start=NOON + 200)) == 1


def test_a_score_that_hovers_at_the_threshold_does_not_re_arm() -> None:
    miner = HardMiner(HardSettings(hysteresis=0.5))
    assert len(mine([2, 2, 2, 2, 0.9, 2, 2, 2, 2, 0.9, 2, 2, 2, 2], miner)) == 1


def test_a_lasting_spell_is_sampled_again_after_the_re_arm_time() -> None:
    assert len(mine([2] * 24, HardMiner(HardSettings()), every_s=3_600)) == 3


def test_segments_are_few_however_many_spells_there_are() -> None:
    miner = HardMiner(HardSettings(per_day=4, burst=2))
    assert len(mine([2, 2, 2, 2, 0] * 200, miner)) == 2
    assert miner.throttled == 198


def test_a_near_duplicate_is_not_sent_again() -> None:
    miner = HardMiner(HardSettings())
    sent = 0
    for index in range(40):
        score = 0.0 if index % 5 == 4 else 2.0
        sent += miner.observe(frame(score, level=100), 1.0, NOON + index, ORIGIN) is not None
    assert sent == 1
    assert miner.suppressed == 7


def test_a_segment_carries_four_bit_codes_and_nothing_finer() -> None:
    frames = [frame(2.0) for _ in range(4)]
    miner = HardMiner(HardSettings())
    found = [miner.observe(f, 1.0, NOON, ORIGIN) for f in frames]
    segment = found[-1]
    assert segment is not None
    codes = unpack_codes(segment.codes, (4, 2, 3, 16))
    assert sorted_cells(codes) == sorted_cells(np.stack([f.features >> 4 for f in frames]))
    assert segment.hour == int(NOON // 3_600)
    assert segment.pseudonym == ORIGIN.pseudonym


def test_a_segment_of_a_large_picture_still_fits_the_wire() -> None:
    miner = HardMiner(HardSettings(segment_frames=8))
    large = HardFrame(RANDOM.integers(0, 256, (68, 120, 16), dtype=np.uint8), 2.0, 0.0)
    found = [miner.observe(large, 1.0, NOON, ORIGIN) for _ in range(8)]
    segment = found[-1]
    assert segment is not None
    assert len(segment.model_dump_json()) < 50_000
    assert max(segment.height, segment.width) <= 64


def test_a_day_is_reported_when_the_next_one_begins() -> None:
    drift = DriftObserver(IDENTITY, TAGS, FEW)
    observer = toy_observer()
    for index in range(40):
        embedding = RANDOM.uniform(0, 1, 256).astype(np.float32)
        assert drift.observe(embedding, 1.5, observer, NOON + index) is None
    drift.count_segment()
    data = drift.observe(np.full(256, 0.5, np.float32), 0.0, observer, NOON + 86_400)
    assert data is not None
    assert len(data) < 2_048
    report = decode_report(data, IDENTITY.report_key)
    assert (report.day, report.frames, report.hard_segments) == (20_000, 40, 1)
    assert report.score_mean == pytest.approx(1.5)
    assert report.pseudonym == IDENTITY.pseudonym(20_000, "toy-1")
    assert report.cohort == "npu-4t/meeting"


def test_a_day_with_too_few_frames_is_not_reported() -> None:
    drift = DriftObserver(IDENTITY, TAGS, FEW)
    for day in range(3):
        assert drift.observe(np.full(256, 0.5, np.float32), 0.0, toy_observer(), NOON + day * 86_400) is None
    assert drift.too_few == 2


def test_statistics_of_two_embeddings_are_never_mixed() -> None:
    drift = DriftObserver(IDENTITY, TAGS, FEW)
    for index in range(6):
        drift.observe(RANDOM.uniform(0, 1, 256).astype(np.float32), 0.0, toy_observer("toy-1"), NOON + index)
    data = drift.observe(RANDOM.uniform(0, 1, 256).astype(np.float32), 0.0, toy_observer("toy-2"), NOON + 9)
    assert data is not None
    assert decode_report(data).embedding_id == "toy-1"
    assert drift.frames == 1


def test_a_saved_day_goes_on_after_a_restart() -> None:
    first = DriftObserver(IDENTITY, TAGS, FEW)
    embeddings = RANDOM.uniform(0, 1, (20, 256)).astype(np.float32)
    whole = DriftObserver(IDENTITY, TAGS, FEW)
    for embedding in embeddings[:12]:
        first.observe(embedding, 1.0, toy_observer(), NOON)
    second = DriftObserver(IDENTITY, TAGS, FEW)
    second.load(first.save())
    for embedding in embeddings[12:]:
        second.observe(embedding, 1.0, toy_observer(), NOON)
    for embedding in embeddings:
        whole.observe(embedding, 1.0, toy_observer(), NOON)
    found, expected = (d.roll("toy-1", NOON + 86_400) for d in (second, whole))
    assert found is not None
    assert expected is not None
    assert decode_report(found).sessions == 1
    assert np.array_equal(decode_report(found).mean, decode_report(expected).mean)


@pytest.mark.parametrize("data", [b"", b"not an archive", b"PK\x03\x04 torn"])
def test_a_damaged_saved_day_is_forgotten(data: bytes) -> None:
    drift = DriftObserver(IDENTITY, TAGS, FEW)
    drift.load(data)
    assert drift.frames == 0


def test_pseudonyms_change_every_day_and_cannot_be_joined() -> None:
    names = {IDENTITY.pseudonym(day, "toy-1") for day in range(100)}
    assert len(names) == 100
    assert all(len(name) == 32 for name in names)
    other = Identity("device-1", "token", "{}", "key", "cd" * 32)
    assert other.pseudonym(1, "toy-1") not in names


def test_fidelity_is_the_distance_of_the_downscaled_image_from_the_input() -> None:
    small = RANDOM.integers(0, 250, (10, 12, 3), dtype=np.uint8)
    doubled = small.repeat(2, axis=0).repeat(2, axis=1)
    assert fidelity(small, doubled) == 0.0
    assert fidelity(small, doubled + 3) == pytest.approx(3.0)
    assert fidelity(small, doubled[:-1]) == 255.0


def test_a_health_report_sums_its_window_and_starts_afresh() -> None:
    window = HealthWindow(budget_ms=20.0)
    for index in range(100):
        window.add(Played(score=1.0, upscaled=True, latency_ms=10.0 + index / 5, fidelity_lsb=2.0, on_cpu=index < 4))
    window.add(Played(errors=2))
    report = window.report("ab" * 48, 7, "normal")
    assert (report.frames, report.upscaled, report.driver_errors, report.cpu_frames) == (101, 100, 2, 4)
    assert report.deadline_misses == 49
    assert report.latency_p50_ms == pytest.approx(19.9)
    assert report.latency_p99_ms > 29
    window.reset()
    assert window.frames == 0


def window_of(count: int, **played: object) -> HealthWindow:
    window = HealthWindow(budget_ms=30.0)
    for _ in range(count):
        window.add(Played(upscaled=True, **played))  # type: ignore[arg-type]  # fields of Played
    return window


@pytest.mark.parametrize(
    ("window", "done", "cause"),
    [
        (window_of(59, latency_ms=5.0), False, Cause.NONE),
        (window_of(60, latency_ms=5.0, fidelity_lsb=2.0), True, Cause.NONE),
        (window_of(3, errors=1), True, Cause.DRIVER_ERRORS),
        (window_of(3, latency_ms=31.0), True, Cause.DEADLINE),
        (window_of(2, latency_ms=31.0), False, Cause.NONE),
        (window_of(3, fidelity_lsb=40.0), True, Cause.FIDELITY),
    ],
)
def test_a_trial_ends_at_the_first_harm_or_after_enough_good_frames(
    window: HealthWindow, done: bool, cause: Cause
) -> None:
    verdict = judge(window, 0.0, TrialLimits())
    assert (verdict.done, verdict.cause) == (done, cause)
