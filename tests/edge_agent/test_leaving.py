"""What must be true before anything leaves the device: enough evidence, cells without places, a random moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contracts.features import segment_vector, unpack_codes
from contracts.statistics import decode_report
from edge_agent.config import DriftConfig
from edge_agent.disk import Disk
from edge_agent.enrol import Identity
from edge_agent.held import HELD_FILE, HeldReports
from edge_agent.limits import LIMITS
from edge_agent.observers.drift import DriftObserver, Evidence
from edge_agent.observers.hard import HardFrame, HardMiner, HardSettings, Origin
from edge_agent.observers.places import without_places
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import NOON, TAGS, FaultyDisk, PictureSource, toy_observer
from tests.support.platform_twin import PlatformTwin

IDENTITY = Identity("device-1", "token", "{}", "key", "ab" * 32)
MIDNIGHT = 20_001 * 86_400.0


def watched(calls: list[int], evidence: Evidence | None = None, pause_s: float = 3_600.0) -> DriftObserver:
    """Calls of so many frames, one frame a second, `pause_s` apart."""
    drift, now = DriftObserver(IDENTITY, TAGS, evidence or Evidence()), MIDNIGHT - 43_200.0
    random = np.random.default_rng(1)
    for frames in calls:
        for _ in range(frames):
            drift.observe(random.uniform(0, 1, 256).astype(np.float32), 1.0, toy_observer(), now)
            now += 1.0
        now += pause_s
    return drift


def test_nothing_leaves_before_300_frames_and_two_calls() -> None:
    assert watched([150, 149]).roll("toy-1", MIDNIGHT) is None
    assert watched([600]).roll("toy-1", MIDNIGHT) is None
    report = watched([150, 150]).roll("toy-1", MIDNIGHT)
    assert report is not None
    assert (decode_report(report).frames, decode_report(report).sessions) == (300, 2)


def test_the_reason_for_keeping_a_day_is_counted() -> None:
    short, alone = watched([10, 10]), watched([600])
    for drift in (short, alone):
        drift.roll("toy-1", MIDNIGHT)
    assert (short.too_few, short.one_session) == (1, 0)
    assert (alone.too_few, alone.one_session) == (0, 1)


def test_the_defaults_of_a_configuration_are_the_promised_minimum() -> None:
    assert (DriftConfig().minimum_frames, DriftConfig().minimum_sessions) == (300, 2)
    assert DriftConfig().spread_hours > 0


def test_a_restart_in_the_middle_of_a_call_is_not_a_second_call() -> None:
    first = watched([400], pause_s=1.0)
    second = DriftObserver(IDENTITY, TAGS, Evidence())
    second.load(first.save())
    second.observe(np.full(256, 0.5, np.float32), 0.0, toy_observer(), MIDNIGHT - 43_200.0 + 402)
    assert second.roll("toy-1", MIDNIGHT) is None
    assert second.one_session == 1


def test_cells_keep_their_values_and_the_summary_but_not_their_places() -> None:
    codes = np.random.default_rng(0).integers(0, 16, (4, 8, 8, 16), dtype=np.uint8)
    sent = without_places(codes)
    for before, after in zip(codes.reshape(4, 64, 16), sent.reshape(4, 64, 16), strict=True):
        assert sorted(before.tolist()) == after.tolist()
    np.testing.assert_allclose(segment_vector(sent), segment_vector(codes), atol=1e-6)


def test_two_pictures_of_the_same_cells_give_the_same_upload() -> None:
    random = np.random.default_rng(1)
    codes = random.integers(0, 16, (2, 64, 16), dtype=np.uint8)
    other = np.stack([random.permutation(frame) for frame in codes])
    first, second = (without_places(one.reshape(2, 8, 8, 16)) for one in (codes, other))
    assert np.array_equal(first, second)


def test_a_segment_leaves_without_the_places_of_its_cells() -> None:
    features = np.random.default_rng(2).integers(0, 256, (8, 8, 16), dtype=np.uint8)
    origin = Origin("toy-1", "1.0", TAGS, "0" * 32)
    miner = HardMiner(HardSettings())
    segment = [miner.observe(HardFrame(features, 2.0, 0.0), 1.0, NOON, origin) for _ in range(4)][-1]
    assert segment is not None
    codes = unpack_codes(segment.codes, (4, 8, 8, 16))
    assert codes[0].reshape(-1, 16).tolist() == sorted((features >> 4).reshape(-1, 16).tolist())


def test_a_days_report_waits_for_its_moment_even_over_a_restart(tmp_path: Path) -> None:
    held = HeldReports(tmp_path, Disk())
    held.hold(b"report", due=100.0)
    assert held.take(99.0) == []
    again = HeldReports(tmp_path, Disk())
    assert again.take(100.0) == [b"report"]
    assert again.take(1e9) == []
    assert HeldReports(tmp_path, Disk()).take(1e9) == []


def test_a_report_that_is_due_leaves_the_others_waiting(tmp_path: Path) -> None:
    held = HeldReports(tmp_path, Disk())
    held.hold(b"soon", due=1.0)
    held.hold(b"later", due=5.0)
    assert held.take(2.0) == [b"soon"]
    assert held.take(5.0) == [b"later"]


def test_moments_spread_evenly_over_devices_and_cannot_be_drawn_again() -> None:
    devices = [Identity("d", "t", "{}", "k", f"{index:064x}") for index in range(400)]
    delays = np.array([device.delay(20_000, "toy-1") for device in devices])
    counts = np.histogram(delays, bins=10, range=(0, 1))[0]
    assert counts.sum() == 400
    assert counts.min() > 15
    assert counts.max() < 75
    assert devices[0].delay(20_000, "toy-1") == delays[0]
    assert devices[0].delay(20_001, "toy-1") != delays[0]


def test_few_reports_are_held_however_long_the_device_sleeps(tmp_path: Path) -> None:
    held = HeldReports(tmp_path, Disk())
    for day in range(50):
        held.hold(b"%d" % day, due=1.0)
    assert len(held) == LIMITS.held_reports
    assert held.take(2.0)[-1] == b"49"


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'[{"due": 1}]', b'[{"due": 1, "report": "?"}]', b"null"])
def test_a_damaged_list_of_held_reports_is_forgotten(tmp_path: Path, data: bytes) -> None:
    (tmp_path / HELD_FILE).write_bytes(data)
    assert len(HeldReports(tmp_path, Disk())) == 0


def test_the_agent_sends_yesterdays_report_later_than_midnight(workshop: Workshop, twin: PlatformTwin) -> None:
    workshop.spread_s = 6 * 3_600.0
    agent = workshop.agent(PictureSource(lambda index: 10 + index % 50))
    play(agent, 8, workshop.clock, seconds=60)
    workshop.clock.at = MIDNIGHT + 1.0
    play(agent, 1)
    agent.sync()
    assert twin.reports == []
    assert agent.status()["reports_held"] == 1
    agent.close()
    workshop.clock.at = MIDNIGHT + 6 * 3_600.0
    again = workshop.agent()
    play(again, 1)
    again.sync()
    assert len(twin.reports) == 1


def test_a_full_disk_costs_a_held_report_at_most(tmp_path: Path) -> None:
    held = HeldReports(tmp_path, FaultyDisk(full=True))
    held.hold(b"report", due=1.0)
    assert held.take(2.0) == [b"report"]
