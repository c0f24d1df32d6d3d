"""The device's talk with the platform: joining, uploads, patience, and what is kept when it is away."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import httpx
import pytest

from contracts.wire import InstallStage
from edge_agent.compose import join
from edge_agent.disk import Disk
from edge_agent.enrol import IDENTITY_FILE, KEY_FILE, load_identity
from edge_agent.errors import EnrolmentError, Refused, Throttled, Unreachable
from edge_agent.journal import Journal, Note
from edge_agent.outbox import Kind, Outbox
from edge_agent.platform import Mail, Standing
from edge_agent.transport import Transport, make_client
from tests.edge_agent.workshop import Workshop, play
from tests.support.agent_twin import TAGS, PictureSource
from tests.support.platform_twin import TOKEN, PlatformTwin

STANDING = Standing(TAGS, "ab" * 48, InstallStage.CONFIRMED, 3)


def transport(workshop: Workshop, twin: PlatformTwin, token: str = "", **options: int) -> Transport:
    return Transport(twin.url, workshop.client, token, sleep=lambda seconds: None, **options)


@pytest.fixture
def signed(workshop: Workshop, twin: PlatformTwin) -> Transport:
    """The way to the platform of a device that joined."""
    plain = transport(workshop, twin)
    return plain.with_token(join(workshop.state, plain, TOKEN, TAGS, Disk()).access_token)


def test_a_device_joins_once_and_keeps_its_secrets_to_itself(workshop: Workshop, twin: PlatformTwin) -> None:
    plain = transport(workshop, twin)
    first = join(workshop.state, plain, TOKEN, TAGS, Disk())
    again = join(workshop.state, plain, TOKEN, TAGS, Disk())

    assert again == first
    assert twin.tokens[TOKEN] == 999
    for name in (KEY_FILE, IDENTITY_FILE):
        assert stat.S_IMODE((workshop.state / name).stat().st_mode) == 0o600
    assert first.secret not in repr(first)
    assert first.access_token not in repr(first)
    request = twin.devices[first.device_id]
    assert first.secret not in request.model_dump_json()
    assert len(request.public_key) == 44


def test_a_wrong_token_is_refused_with_a_remedy_and_leaves_no_identity(workshop: Workshop, twin: PlatformTwin) -> None:
    for token, message in (("a-token-nobody-made", "ask for a new one"), ("short", "right form"), ("", "--token")):
        with pytest.raises(EnrolmentError, match=message):
            join(workshop.state, transport(workshop, twin), token, TAGS, Disk())
    assert load_identity(workshop.state) is None


def test_an_interrupted_enrolment_is_repeated_with_the_same_key(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.wrong.away = True
    with pytest.raises(Unreachable):
        join(workshop.state, transport(workshop, twin), TOKEN, TAGS, Disk())
    key = (workshop.state / KEY_FILE).read_bytes()
    twin.wrong.away = False
    join(workshop.state, transport(workshop, twin), TOKEN, TAGS, Disk())
    assert (workshop.state / KEY_FILE).read_bytes() == key


def test_a_malformed_enrolment_answer_stores_nothing(workshop: Workshop, twin: PlatformTwin) -> None:
    twin.wrong.statuses["/releases/v1/enrolments"] = [200]
    with pytest.raises(EnrolmentError, match="nothing was stored"):
        join(workshop.state, transport(workshop, twin), TOKEN, TAGS, Disk())
    assert not (workshop.state / IDENTITY_FILE).exists()


def test_a_damaged_identity_names_the_remedy(workshop: Workshop, twin: PlatformTwin) -> None:
    workshop.state.mkdir()
    (workshop.state / IDENTITY_FILE).write_text("{")
    with pytest.raises(EnrolmentError, match="enrol again"):
        join(workshop.state, transport(workshop, twin), TOKEN, TAGS, Disk())


def test_a_request_is_tried_again_a_few_times_only(workshop: Workshop, twin: PlatformTwin, signed: Transport) -> None:
    twin.wrong.statuses["/telemetry"] = [503, 503]
    assert signed.post("/telemetry/v1/reports", b"x").status == 202
    twin.wrong.statuses["/telemetry"] = [503] * 9
    with pytest.raises(Unreachable, match="503"):
        signed.post("/telemetry/v1/reports", b"x")
    assert len(twin.wrong.statuses["/telemetry"]) == 6


def test_errors_are_split_by_what_the_caller_can_do(workshop: Workshop, twin: PlatformTwin, signed: Transport) -> None:
    with pytest.raises(Refused) as refused:
        signed.get("/nowhere")
    assert refused.value.status == 404
    with pytest.raises(Refused, match="401"):
        signed.with_token("wrong").get("/releases/v1/state")
    twin.wrong.statuses["/releases/v1/state"] = [429]
    twin.wrong.retry_after = "7"
    with pytest.raises(Throttled) as throttled:
        signed.get("/releases/v1/state")
    assert throttled.value.retry_after == 7.0


def test_an_endless_answer_is_cut_off() -> None:
    body = httpx.ByteStream(bytes(1_000_000))
    client = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, stream=body)))
    with client, pytest.raises(Unreachable, match="over"):
        Transport("http://twin", client).get("/")


def test_the_outbox_goes_out_in_order_of_importance_and_empties(
    twin: PlatformTwin, signed: Transport, tmp_path: Path
) -> None:
    outbox = Outbox(tmp_path / "box", Disk())
    journal = Journal(outbox, starts=2)
    outbox.put(Kind.REPORT, b"DRF1")
    for _ in range(120):
        journal.note(Note("ab" * 48, InstallStage.TRIAL))
    journal.write()
    assert Mail(outbox, signed).drain(STANDING)

    assert [len(batch.installs) for _, batch in twin.batches] == [50, 50, 20]
    numbers = [event.sequence for _, batch in twin.batches for event in batch.installs]
    assert numbers == list(range(2_000_000, 2_000_120))
    assert twin.reports == [b"DRF1"]
    assert len(outbox) == 0


def test_what_was_not_taken_stays_and_goes_out_later(twin: PlatformTwin, signed: Transport, tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "box", Disk())
    outbox.put(Kind.REPORT, b"DRF1")
    twin.wrong.away = True
    with pytest.raises(Unreachable):
        Mail(outbox, signed).drain(STANDING)
    twin.wrong.away = False
    assert Mail(Outbox(tmp_path / "box", Disk()), signed).drain(STANDING)
    assert twin.reports == [b"DRF1"]


def test_a_wrong_access_token_loses_nothing(twin: PlatformTwin, signed: Transport, tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "box", Disk())
    outbox.put(Kind.REPORT, b"DRF1")
    with pytest.raises(Refused):
        Mail(outbox, signed.with_token("wrong")).drain(STANDING)
    assert len(outbox) == 1


def test_a_message_that_is_refused_for_good_does_not_block_the_others(
    twin: PlatformTwin, signed: Transport, tmp_path: Path
) -> None:
    outbox = Outbox(tmp_path / "box", Disk())
    for index in range(3):
        journal = Journal(outbox, index)
        journal.note(Note("ab" * 48, InstallStage.TRIAL))
        journal.write()
    twin.wrong.statuses["/releases/v1/feedback"] = [422, 422]
    mail = Mail(outbox, signed)
    mail.drain(STANDING)

    assert mail.sent.refused == 1
    assert mail.sent.installs == 2
    assert len(outbox) == 0


def test_the_platforms_wish_to_wait_is_obeyed(twin: PlatformTwin, signed: Transport, tmp_path: Path) -> None:
    outbox, now = Outbox(tmp_path / "box", Disk()), 100.0
    outbox.put(Kind.REPORT, b"DRF1")
    twin.wrong.statuses["/telemetry"] = [429]
    twin.wrong.retry_after = "30"
    mail = Mail(outbox, signed, monotonic=lambda: now)
    assert not mail.drain(STANDING)
    assert not mail.drain(STANDING)
    assert twin.requests["/telemetry/v1/reports"] == 1
    now = 131.0
    assert mail.drain(STANDING)


def test_a_days_report_and_a_hard_segment_reach_the_platform(workshop: Workshop, twin: PlatformTwin) -> None:
    agent = workshop.agent(PictureSource(lambda index: 10 + index))
    play(agent, 8, workshop.clock, seconds=60)
    workshop.clock.at += 86_400
    play(agent, 1)
    agent.close()
    agent.sync()

    assert len(twin.reports) == 1
    assert len(twin.reports[0]) < 2_048
    (segment,) = twin.segments.values()
    assert segment.tags == TAGS
    assert len(segment.model_dump_json()) < 50_000
    health = [report for _, batch in twin.batches for report in batch.health]
    assert sum(report.frames for report in health) == 9
    assert health[0].digest == workshop.factory.digest
    assert json.loads(json.dumps(agent.status()))["segments"] == 1


def test_an_unchanged_state_document_costs_a_304(workshop: Workshop, twin: PlatformTwin) -> None:
    agent = workshop.agent()
    agent.sync()
    before = (workshop.state / "state.json").stat().st_mtime_ns
    for _ in range(3):
        agent.sync()
    assert (workshop.state / "state.json").stat().st_mtime_ns == before


def test_a_client_of_its_own_has_time_limits() -> None:
    with make_client() as client:
        assert client.timeout.connect is not None
        assert client.timeout.read is not None
