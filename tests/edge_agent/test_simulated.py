"""Light devices: the real choice of target, ranged and hashed downloads, trials, falling back, obeying in time."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contracts.device import DeviceTags
from contracts.state import DeviceState, RolloutEntry, Target, sign_state
from contracts.wire.feedback import FeedbackBatch
from edge_agent.errors import ConfigError, Unreachable
from edge_agent.simulated.cli import parse_behaviours
from edge_agent.simulated.device import LightDevice, Surroundings, Ticket
from edge_agent.simulated.http import LightClient, Reply
from edge_agent.simulated.repository import SharedDocuments, SharedTargets
from edge_agent.simulated.run import LightFleet, Rhythm
from edge_agent.simulated.scenario import GOOD, SCENARIOS, Behaviour, Character, measured, scenario

KEY = Ed25519PrivateKey.generate()
OLD, NEW = "0" * 96, "a" * 96
DATA = random.Random(1).randbytes(100_000)
TARGET = Target(path="bundles/new.elb", digest=NEW, length=len(DATA), release_version="2.0", security_epoch=1)
ENTRY = RolloutEntry(id="r-1", target=TARGET, salt="s", basis_points=10_000)


class Server:
    """What a platform answers, without a network."""

    def __init__(self) -> None:
        self.data = DATA
        self.epoch = 0
        self.feedback: list[FeedbackBatch] = []
        self.ranges: list[str] = []
        self.feedback_status = 202
        self.say()

    def say(self, **state: object) -> None:
        self.epoch += 1
        document = DeviceState(epoch=self.epoch, issued=0, expires=2**40, **state)  # type: ignore[arg-type]  # test glue
        self.document = sign_state(document, KEY)

    async def request(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Reply:
        given = headers or {}
        if path.endswith("/state"):
            same = given.get("If-None-Match") == str(self.epoch)
            return Reply(304 if same else 200, {"etag": str(self.epoch)}, b"" if same else self.document)
        if path.endswith("/feedback"):
            self.feedback.append(FeedbackBatch.model_validate_json(body))
            return Reply(self.feedback_status, {}, b"{}")
        if "/metadata/" in path:
            return Reply(200, {}, self._metadata(path.rpartition("/")[2]))
        self.ranges.append(given["Range"])
        first, _, last = given["Range"].removeprefix("bytes=").partition("-")
        return Reply(206, {}, self.data[int(first) : int(last) + 1])

    def _metadata(self, name: str) -> bytes:
        hashed = {"sha256": hashlib.sha256(DATA).hexdigest()}
        signed: dict[str, object] = {
            "timestamp.json": {"meta": {"snapshot.json": {"version": 1}}},
            "1.snapshot.json": {"meta": {"targets.json": {"version": 1}}},
            "1.targets.json": {"targets": {TARGET.path: {"length": len(DATA), "hashes": hashed}}},
        }
        return json.dumps({"signed": signed[name]}).encode()


def device(
    server: Server, behaviour: Behaviour = replace(GOOD, trial_failure=0.0, crash=0.0), number: int = 1
) -> LightDevice:
    around = Surroundings(
        client=server,  # type: ignore[arg-type]  # a twin
        mail=server,  # type: ignore[arg-type]  # a twin
        documents=SharedDocuments(KEY.public_key()),
        targets=SharedTargets(server),  # type: ignore[arg-type]  # a twin
        behaviours={NEW: behaviour},
        counters=Counter(),
    )
    return LightDevice(Ticket(f"d{number}", "token", DeviceTags(device_class="npu-2t"), OLD), around)


def turns(one: LightDevice, count: int = 1) -> None:
    async def live() -> None:
        for _ in range(count):
            await one.turn()

    asyncio.run(live())


def stages(server: Server) -> list[str]:
    return [event.stage.value for batch in server.feedback for event in batch.installs]


def test_a_device_downloads_by_range_tries_confirms_and_reports() -> None:
    server = Server()
    server.say(rollouts=(ENTRY,))
    one = device(server)
    turns(one)
    assert one.running == NEW
    assert server.ranges[:2] == ["bytes=0-32767", "bytes=32768-65535"]
    assert stages(server) == ["trial", "confirmed"]
    assert server.feedback[-1].health[0].digest == NEW


def test_a_device_that_is_not_exposed_keeps_what_it_has() -> None:
    server = Server()
    server.say(rollouts=(ENTRY.model_copy(update={"basis_points": 0}),))
    one = device(server)
    turns(one)
    assert one.running == OLD
    assert server.ranges == []


def test_a_withdrawn_bundle_sends_a_device_back_without_a_download() -> None:
    server = Server()
    server.say(rollouts=(ENTRY,))
    one = device(server)
    turns(one)
    loaded = len(server.ranges)
    old = Target(path="bundles/old.elb", digest=OLD, length=1, release_version="1.0", security_epoch=1)
    server.say(baseline=old)
    turns(one)
    assert one.running == OLD
    assert len(server.ranges) == loaded, "the old bundle lies in the other slot"


def test_a_kill_switch_stops_a_device_and_its_lifting_lets_it_go_on() -> None:
    server = Server()
    one = device(server)
    server.say(killed=True)
    turns(one)
    assert one.stopped
    server.say()
    turns(one)
    assert not one.stopped


def test_an_older_document_is_not_obeyed() -> None:
    server = Server()
    server.say(killed=True)
    one = device(server)
    turns(one)
    server.epoch = 0
    server.say()
    turns(one)
    assert one.stopped
    assert one.around.counters["older_documents"] == 1


def test_a_cut_download_goes_on_where_it_was_and_gives_up_after_some_tries() -> None:
    server = Server()
    server.say(rollouts=(ENTRY,))
    one = device(server, replace(GOOD, trial_failure=0.0, cut_downloads=0.7))
    turns(one)
    assert one.running == NEW
    assert one.around.counters["cut"] > 0
    starts = [int(word.removeprefix("bytes=").partition("-")[0]) for word in server.ranges]
    assert starts == sorted(starts), "never back to the beginning"


def test_bytes_that_hash_wrong_are_never_run() -> None:
    server = Server()
    server.data = DATA[:-1] + b"\x00"
    server.say(rollouts=(ENTRY,))
    one = device(server)
    turns(one, 2)
    assert one.running == OLD
    assert one.around.counters["TrustError"] == 2


def test_a_failed_trial_falls_back_once_and_is_not_tried_at_every_poll() -> None:
    server = Server()
    server.say(rollouts=(ENTRY,))
    one = device(server, replace(GOOD, trial_failure=1.0))
    turns(one, 3)
    assert one.running == OLD
    assert stages(server) == ["trial", "rolled_back"]


def test_feedback_that_was_not_taken_is_sent_again() -> None:
    server = Server()
    server.say(rollouts=(ENTRY,))
    server.feedback_status = 503
    one = device(server)
    turns(one)
    server.feedback_status = 202
    turns(one)
    assert stages(server) == ["trial", "confirmed"] * 2
    assert {event.event_id for batch in server.feedback for event in batch.installs} == {"e1", "e2"}


def test_the_same_seed_gives_the_same_fates_and_rates_are_what_the_scenario_says() -> None:
    fates = [Character.of(SCENARIOS["crashing"], f"d{i}", NEW, 3) for i in range(20_000)]
    assert fates == [Character.of(SCENARIOS["crashing"], f"d{i}", NEW, 3) for i in range(20_000)]
    assert sum(one.crashes for one in fates) / len(fates) == pytest.approx(0.01, abs=0.003)


def test_what_is_measured_is_a_valid_report_in_every_scenario() -> None:
    draw = random.Random(1)
    for behaviour in SCENARIOS.values():
        numbers = measured(behaviour, Character.of(behaviour, "d1", NEW, 0), draw)
        batch = {"tags": {"device_class": "npu-2t"}, "running_digest": OLD}
        report = {"report_id": "h1", "digest": NEW, "sequence": 1, **numbers}
        FeedbackBatch.model_validate({**batch, "health": [report]})


def test_an_unknown_scenario_and_a_bad_word_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="known: good, crashing"):
        scenario("nonsense")
    with pytest.raises(ConfigError, match="DIGEST-PREFIX=SCENARIO"):
        parse_behaviours(["crashing"])
    assert parse_behaviours(["aaaa=slow"]).get(NEW) == SCENARIOS["slow"]


def test_a_fleet_reaches_what_the_document_says_and_ends_when_told() -> None:
    server = Server()
    server.say(rollouts=(ENTRY,))
    devices = [device(server, number=number) for number in range(200)]
    reached: list[float] = []

    async def live() -> float:
        fleet = LightFleet(devices, Rhythm(poll_s=0.3))
        fleet.start()
        spent = await fleet.until(lambda one: one.running == NEW, 1.0, 30.0, reached.append)
        never = await fleet.until(lambda one: one.stopped, 1.0, 0.3, reached.append)
        await fleet.stop()
        return spent if never == float("inf") else -1.0

    assert 0 <= asyncio.run(live()) < 30
    assert reached[-1] == 0.0


def test_a_turn_that_took_long_does_not_put_off_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    now, begun = [0.0], list[float]()

    class Slow:
        async def look(self) -> None:
            begun.append(now[0])
            now[0] += (0.0, 20.0, 29.0, 90.0, 0.0)[len(begun) - 1]

        async def report(self) -> None:
            pass

    async def sleep(seconds: float) -> None:
        if len(begun) == 5:
            raise asyncio.CancelledError
        now[0] += seconds

    monkeypatch.setattr("edge_agent.simulated.run.time.monotonic", lambda: now[0])
    monkeypatch.setattr("edge_agent.simulated.run.asyncio.sleep", sleep)
    fleet = LightFleet([], Rhythm(poll_s=30.0, jitter=0.0))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(fleet._live(Slow()))  # type: ignore[arg-type]  # a twin
    rests = [later - earlier for earlier, later in pairwise(begun)]
    assert rests == pytest.approx([30.0, 30.0, 29.0 + 7.5, 90.0 + 7.5])  # a part of the rest always stays


def test_reports_that_wait_hold_up_nobodys_look_at_the_document() -> None:
    server = Server()
    server.say(rollouts=(ENTRY,))

    async def live() -> list[int]:
        gate = asyncio.Event()

        class Busy(LightClient):
            async def _once(self, data: bytes) -> Reply:
                await gate.wait()
                return Reply(202, {}, b"{}")

        one = device(server)
        one.around = replace(one.around, mail=Busy("http://127.0.0.1:1", connections=1))
        others = [replace(one, ticket=replace(one.ticket, device_id=f"d{number}")) for number in range(5)]
        turns = [asyncio.create_task(other.turn()) for other in others]
        while any(other.running != NEW for other in others):
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*turns)
        return [len(other.pending) for other in others]

    assert asyncio.run(live()) == [0] * 5


def test_a_server_that_is_gone_or_speaks_nonsense_is_unreachable_and_not_a_hang() -> None:
    async def nonsense(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"nonsense\r\n\r\n")
        await writer.drain()
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = LightClient(f"http://127.0.0.1:{port}")
        with pytest.raises(Unreachable):
            await client.request("GET", "/")
        server.close()
        await server.wait_closed()
        with pytest.raises(Unreachable):
            await LightClient(f"http://127.0.0.1:{port}").request("GET", "/")
        await asyncio.sleep(0.05)

    asyncio.run(ask())
    with pytest.raises(ConfigError, match="plain http"):
        LightClient("https://example.org")


def test_a_kept_connection_that_the_server_closed_is_opened_again() -> None:
    answered: list[int] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        answered.append(1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    async def ask() -> list[bytes]:
        server = await asyncio.start_server(once, "127.0.0.1", 0)
        client = LightClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        bodies = []
        for _ in range(3):
            bodies.append((await client.request("GET", "/")).body)
            await asyncio.sleep(0.05)
        await client.close()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.05)
        return bodies

    assert asyncio.run(ask()) == [b"ok"] * 3
    assert len(answered) == 3
