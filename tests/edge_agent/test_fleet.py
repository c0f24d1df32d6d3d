"""A fleet process: many devices, each its own; shared bytes, private trust; bounded and restartable."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.statistics import decode_report
from edge_agent.errors import ConfigError, VideoError
from edge_agent.fleet.config import FleetConfig, load_fleet
from edge_agent.fleet.pool import FramePool, PoolSource
from edge_agent.fleet.run import Fleet, device_seed
from edge_agent.fleet.sharing import SharedMetadata, SharedStateFeed
from edge_agent.sources import parse_schedule
from edge_agent.transport import Transport
from tests.edge_agent.workshop import Workshop
from tests.support.agent_twin import WEIGHTS, HandClock, ToyLoader, make_bundle, write_video
from tests.support.platform_twin import TOKEN, PlatformTwin
from tests.support.sealing_twin import Sealer

HOUR = 3_600.0


class Town:
    """A fleet of toy devices around the twin, moved by hand: `hours` plays, `talk` lets everybody sync."""

    def __init__(self, folder: Path, twin: PlatformTwin) -> None:
        self.folder, self.twin = folder, twin
        self.made = folder / "made"
        self.made.mkdir(exist_ok=True)
        self.factory = make_bundle(self.made, "factory")
        self.clock = HandClock(20_000 * 86_400.0)
        self.loaders: list[ToyLoader] = []
        write_video(folder / "day.mp4", frames=30)
        write_video(folder / "night.mp4", frames=30, seed=1)

    def config(self, **changes: Any) -> FleetConfig:
        schedule = {
            "entries": [
                {"from_day": 0, "paths": [str(self.folder / "day.mp4")]},
                {"from_day": 2, "paths": [str(self.folder / "night.mp4")]},
            ]
        }
        group = {"name": "a", "count": 4, "tags": {"device_class": "npu-4t"}, "schedule": schedule}
        other = {**group, "name": "b", "count": 2, "tags": {"device_class": "npu-2t"}}
        raw = {
            "state_dir": str(self.folder / "fleet"),
            "factory_bundle": str(self.factory.path),
            "platform_url": self.twin.url,
            "enrolment_token": TOKEN,
            "groups": [group, other],
            "drift": {"minimum_frames": 5, "spread_hours": 0.0},
            "trial": {"frames": 6},
            "state_ttl_s": 0,
            **changes,
        }
        return FleetConfig.model_validate(raw)

    def start(self, **changes: Any) -> Fleet:
        def loader_for(*_: object) -> ToyLoader:
            self.loaders.append(ToyLoader())
            return self.loaders[-1]

        return Fleet(self.config(**changes), self.clock, loader_for)

    def hours(self, fleet: Fleet, count: int) -> None:
        for _ in range(count * 4):
            self.clock.at += HOUR / 4
            while fleet.step():
                pass

    def talk(self, fleet: Fleet) -> None:
        for device in fleet.devices:
            device.sync()


@pytest.fixture
def town(tmp_path: Path, twin: PlatformTwin) -> Town:
    return Town(tmp_path, twin)


def test_every_device_joins_plays_and_reports_its_day_under_its_own_name(town: Town, twin: PlatformTwin) -> None:
    fleet = town.start()
    town.talk(fleet)
    town.hours(fleet, 25)
    town.talk(fleet)
    fleet.close()

    assert len(twin.devices) == 6
    reports = [decode_report(data) for data in twin.reports]
    assert len({report.pseudonym for report in reports}) == 6
    assert all(report.frames >= 16 for report in reports)
    assert {report.tags.device_class for report in reports} == {"npu-4t", "npu-2t"}
    means = np.stack([report.mean for report in reports])
    assert len(np.unique(means[:, 0])) > 1, "devices see different runs of frames"


def test_a_sealed_bundle_reaches_all_devices_of_both_classes_and_outlives_a_restart(
    town: Town, twin: PlatformTwin
) -> None:
    twin.sealer = Sealer()
    fleet = town.start()
    town.talk(fleet)
    bundle = make_bundle(town.made, "2.0")
    twin.set_state(epoch=2, baseline=twin.release(bundle.data, bundle.digest, "2.0"))
    town.talk(fleet)
    town.hours(fleet, 9)
    town.talk(fleet)
    assert {device.agent.playback.version for device in fleet.devices if device.agent} == {"2.0"}
    assert [path.name for path in (town.folder / "fleet" / "bundles").iterdir()] == [f"{bundle.digest}.els"]
    files = [path for path in (town.folder / "fleet").rglob("*") if path.is_file()]
    assert not [path for path in files if WEIGHTS in path.read_bytes()]
    fleet.close()
    twin.wrong.away = True
    again = town.start()
    town.talk(again)
    assert {device.agent.playback.version for device in again.devices if device.agent} == {"2.0"}
    again.close()


def test_a_rollout_reaches_all_devices_with_one_download(town: Town, twin: PlatformTwin) -> None:
    fleet = town.start()
    town.talk(fleet)
    bundle = make_bundle(town.made, "2.0")
    twin.set_state(epoch=2, baseline=twin.release(bundle.data, bundle.digest, "2.0"))
    town.talk(fleet)
    town.hours(fleet, 9)
    town.talk(fleet)
    status = fleet.status()
    fleet.close()

    assert status["by_bundle"] == {bundle.digest: 6}
    assert status["versions"] == {bundle.digest: "2.0"}
    assert status["by_stage"] == {"confirmed": 6}
    assert status["unverified_bytes_run"] == 0
    assert sum(count for path, count in twin.requests.items() if "/targets/" in path) == 1
    assert sum(stage == "confirmed" for stage, _ in twin.installs) == 6


def test_a_tampered_bundle_in_the_shared_store_is_run_by_nobody(town: Town, twin: PlatformTwin) -> None:
    fleet = town.start()
    town.talk(fleet)
    bundle = make_bundle(town.made, "2.0")
    twin.set_state(epoch=2, baseline=twin.release(bundle.data, bundle.digest, "2.0"))
    stored = town.folder / "fleet" / "bundles" / f"{bundle.digest}.elb"
    stored.write_bytes(bundle.data[:-1] + b"!")
    twin.wrong.flip_target = True
    town.talk(fleet)
    town.hours(fleet, 3)
    status = fleet.status()
    fleet.close()
    assert status["by_bundle"] == {town.factory.digest: 6}


def test_a_restarted_fleet_is_the_same_fleet(town: Town, twin: PlatformTwin) -> None:
    first = town.start()
    town.talk(first)
    town.hours(first, 10)
    first.close()
    second = town.start()
    town.talk(second)
    town.hours(second, 15)
    town.talk(second)
    second.close()

    assert len(twin.devices) == 6
    reports = [decode_report(data) for data in twin.reports]
    assert len(reports) == 6
    assert all(report.sessions == report.frames and report.frames >= 20 for report in reports)


def test_a_fleet_starts_without_a_platform_and_joins_when_it_comes(town: Town, twin: PlatformTwin) -> None:
    twin.wrong.away = True
    fleet = town.start()
    town.talk(fleet)
    town.hours(fleet, 2)
    assert fleet.status()["joined"] == 0
    assert "state" in str(fleet.status()["last_error"]) or fleet.status()["last_error"]
    twin.wrong.away = False
    town.talk(fleet)
    assert fleet.status()["joined"] == 6
    fleet.close()


def test_a_loop_that_falls_behind_skips_frames_and_counts_them(town: Town) -> None:
    fleet = town.start(platform_url="")
    town.talk(fleet)
    town.clock.at += 86_400
    while fleet.step():
        pass
    status = fleet.status()
    fleet.close()
    assert int(str(status["frames"])) <= 18
    assert int(str(status["frames_skipped"])) > 100


def test_a_fleet_ends_in_order_and_leaves_its_status(town: Town, twin: PlatformTwin) -> None:
    fleet, stop = town.start(sync_s=0.2), threading.Event()
    thread = threading.Thread(target=fleet.run, args=(stop,))
    thread.start()
    deadline = time.monotonic() + 20
    while fleet.status()["joined"] != 6 and time.monotonic() < deadline:
        time.sleep(0.05)
    town.clock.at += HOUR
    while fleet.status()["frames"] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    status = json.loads((town.folder / "fleet" / "fleet.json").read_text())
    assert status["joined"] == 6
    assert status["frames"] > 0


def test_the_surroundings_change_on_their_day(town: Town) -> None:
    pool = FramePool(10_000_000, 8, 2)
    schedule = parse_schedule(
        {"entries": [{"from": 0, "paths": ["day.mp4"]}, {"from": 100, "paths": ["night.mp4"]}]}, town.folder, 0, "t"
    )
    clock = HandClock(50.0)
    walk = PoolSource(pool, schedule, clock.now, stay=100, seed=1)
    first = walk.next()
    clock.at = 150.0
    second = walk.next()
    assert first is not None
    assert second is not None
    assert "day.mp4" in first.key
    assert "night.mp4" in second.key


def test_a_walk_begins_a_stream_where_it_jumps(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", frames=12)
    schedule = parse_schedule({"entries": [{"from": 0, "paths": ["a.mp4"]}]}, tmp_path, 0, "t")
    walk = PoolSource(FramePool(10_000_000, 4, 3), schedule, lambda: 1.0, stay=6, seed=1)
    frames = [frame for frame in (walk.next() for _ in range(18)) if frame]
    for index, (before, frame) in enumerate(itertools.pairwise(frames), 1):
        jumped = index % 6 == 0 or int(frame.key.split("#")[1]) != int(before.key.split("#")[1]) + 3
        assert frame.first is jumped
    assert frames[0].first


def test_the_pool_is_bounded_and_passes_over_damaged_clips(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        write_video(tmp_path / name, frames=12)
    frame = 96 * 64 * 3
    pool = FramePool(9 * frame, frames_per_clip=4, stride=3)
    for name in ("a.mp4", "b.mp4", "c.mp4", "a.mp4"):
        assert len(pool.clip(str(tmp_path / name))) == 4
        assert pool.size <= 9 * frame
    (tmp_path / "b.mp4").write_bytes(b"damaged")
    raw = {"entries": [{"from": 0, "paths": ["b.mp4"]}]}
    walk = PoolSource(FramePool(9 * frame, 4, 3), parse_schedule(raw, tmp_path, 0, "t"), lambda: 1.0, 4, 1)
    with pytest.raises(VideoError, match="no readable video"):
        walk.next()


def test_devices_that_share_one_state_document_ask_once_in_its_time(workshop: Workshop, twin: PlatformTwin) -> None:
    now = [0.0]
    feed = SharedStateFeed(5.0, monotonic=lambda: now[0])
    agent = workshop.agent()
    agent.sync()
    token = next(iter(twin.access))
    feed.use(Transport(twin.url, workshop.client, token, attempts=1))
    before = twin.requests["/releases/v1/state"]
    documents = [feed.fetch("") for _ in range(10)]
    assert twin.requests["/releases/v1/state"] == before + 1
    assert documents[0] is not None
    assert feed.fetch(documents[0].etag) is None
    twin.set_state(epoch=9)
    now[0] = 6.0
    fresh = feed.fetch(documents[0].etag)
    assert fresh is not None
    assert fresh.body != documents[0].body


def test_a_device_that_hears_of_no_document_yet_changes_nothing(town: Town, twin: PlatformTwin) -> None:
    bundle = make_bundle(town.made, "2.0")
    twin.set_state(epoch=2, baseline=twin.release(bundle.data, bundle.digest, "2.0"))
    first = town.start()
    town.talk(first)
    town.hours(first, 9)
    first.close()
    for path in (town.folder / "fleet" / "devices").glob("*/state.json"):
        path.unlink()
    second = town.start(state_ttl_s=1_000)
    twin.wrong.statuses["/releases/v1/state"] = [503] * 100
    town.talk(second)
    town.hours(second, 3)
    status = second.status()
    second.close()
    assert status["by_bundle"] == {bundle.digest: 6}


def test_shared_metadata_are_fetched_once_in_their_time() -> None:
    now, calls = [0.0], []
    shared = SharedMetadata(5.0, monotonic=lambda: now[0])

    def fetch() -> bytes:
        calls.append(1)
        return b"metadata"

    assert [shared.get("u", fetch) for _ in range(3)] == [b"metadata"] * 3
    assert len(calls) == 1
    now[0] = 6.0
    shared.get("u", fetch)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": []}, "groups"),
        ({"frames_per_day": 0}, "frames_per_day"),
        ({"unknown": 1}, "unknown"),
        ({"enrolment_token": 3}, "enrolment_token"),
    ],
)
def test_a_wrong_fleet_file_names_the_field(town: Town, change: dict[str, Any], message: str) -> None:
    raw = json.loads(town.config().model_dump_json())
    path = town.folder / "fleet.json"
    path.write_text(json.dumps({**raw, **change}))
    with pytest.raises(ConfigError, match=message):
        load_fleet(path)


def test_a_group_with_unknown_faults_is_refused(town: Town) -> None:
    groups = json.loads(town.config().model_dump_json())["groups"]
    groups[0]["faults"] = {"gremlins": 1}
    with pytest.raises(ConfigError, match="gremlins"):
        town.start(groups=groups)


def test_device_seeds_are_stable_and_all_different() -> None:
    seeds = {device_seed(1, "a", number) for number in range(1_000)}
    assert len(seeds) == 1_000
    assert device_seed(1, "a", 7) == device_seed(1, "a", 7)
