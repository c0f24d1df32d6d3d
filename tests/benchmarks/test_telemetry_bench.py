"""The telemetry bench: its fleet is one the platform takes, its generator gives up on nothing, its plan adds up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from benchmarks.intake import fleet, plan
from benchmarks.intake.load import Order, Result, deliver
from contracts.statistics import ObserverParameters, decode_report
from contracts.statistics.drf1_headers import headers_of
from services.kit.auth import split_token

DAY = 20_000
ACCEPTED = b'{"accepted":true,"duplicate":false}'


def test_every_device_of_the_fleet_has_a_report_and_a_token_of_its_own() -> None:
    bodies = [fleet.report(device, DAY) for device in range(200)]
    assert len({decode_report(body).pseudonym for body in bodies}) == 200
    assert all(header is not None for header in headers_of(bodies))
    assert {decode_report(body).cohort for body in bodies} == {"/".join(cohort) for cohort in fleet.COHORTS}
    assert split_token(fleet.token(7)) == (fleet.token_id(7), fleet.token_secret(7))
    assert fleet.token(7) != fleet.token(8)


def test_the_fleets_observer_is_one_that_drift_takes() -> None:
    parameters = fleet.observer()
    assert ObserverParameters.from_bytes(parameters.to_bytes()).embedding_id == fleet.EMBEDDING


class Server:
    """Answers POSTs; `moods` says what it does to the first ones: a status, or None to break the connection."""

    def __init__(self, *moods: int | None) -> None:
        self.moods = list(moods)
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                mood = self.moods.pop(0) if self.moods else 202
                if mood is None:
                    break
                answer = ACCEPTED if mood == 202 else b"{}"
                more = b"" if mood == 202 else b"Retry-After: 0\r\n"
                self.bodies += [body] if mood == 202 else []
                writer.write(b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s" % (mood, more, len(answer), answer))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def run(server: Server, **how: float) -> Result:
    async def both() -> Result:
        listening = await asyncio.start_server(server, "127.0.0.1", 0)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            return await deliver(replace(Order("127.0.0.1", port, 0, 40, DAY, 4, seconds=20.0), **how))  # type: ignore[arg-type]

    return asyncio.run(both())


def test_everything_is_delivered_once_and_counted() -> None:
    server = Server()
    result = run(server)
    assert (result.accepted, result.missing, result.statuses) == (40, [], {"202": 40})
    assert sorted(server.bodies) == sorted(fleet.report(device, DAY) for device in range(40))
    assert len(result.latencies) == 40


def test_what_is_refused_or_broken_off_is_sent_again_until_it_is_accepted() -> None:
    server = Server(202, 429, 503, None, 202, None, 429)
    result = run(server)
    assert (result.accepted, result.missing, result.broken) == (40, [], 2)
    assert result.statuses == {"202": 40, "429": 2, "503": 1}
    assert len(set(server.bodies)) == 40


def test_what_never_was_accepted_is_named_when_time_is_over() -> None:
    result = run(Server(*[503] * 100_000), count=3, seconds=0.5)
    assert (result.accepted, result.missing) == (0, [0, 1, 2])


def test_what_was_not_even_sent_is_told_apart_from_what_was_acknowledged() -> None:
    result = run(Server(), count=1_000, rate=50.0, seconds=0.5)
    assert result.accepted < 100
    assert result.sent - len(result.missing) == result.accepted


def test_on_a_timetable_latency_counts_from_when_a_report_was_due() -> None:
    result = run(Server(), rate=400.0)
    assert result.seconds >= 39 / 400
    assert min(result.latencies) > 0


MEASURED = plan.Measured(
    per_s=1_000.0,
    passed_on_per_s=2_000.0,
    row_bytes=2_700.0,
    index_bytes=100.0,
    wal_bytes=2_200.0,
    entry_bytes=2_400.0,
    database_us=60.0,
)


@pytest.mark.parametrize(("devices", "rate", "one_hour"), [(10_000_000, 115.7, 2_778), (50_000_000, 578.7, 13_889)])
def test_the_rates_of_a_fleet_are_those_of_one_report_a_day(devices: int, rate: float, one_hour: int) -> None:
    made = plan.plan(devices, MEASURED)
    assert (round(made.mean_rate, 1), round(made.hour_rate)) == (rate, one_hour)


def test_nodes_and_bytes_follow_from_what_was_measured() -> None:
    made = plan.plan(10_000_000, MEASURED)
    assert (made.nodes, made.nodes_one_hour, made.readers) == (1, 5, 1)
    assert made.day_bytes == 28e9
    assert (made.kept_rows, made.kept_bytes) == (300_000_000, 840e9)
    assert made.wal_day_bytes == 22e9
    assert round(made.database_cores, 3) == 0.035


def test_a_slower_machine_needs_more_nodes_and_never_less_than_one() -> None:
    assert plan.nodes_for(600.0, 100.0) == 10
    assert plan.nodes_for(600.1, 100.0) == 11
    assert plan.nodes_for(0.1, 100.0) == 1
