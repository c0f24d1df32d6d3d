"""The console's bench: its seed is a platform that holds together, every route has a visit, a statement is counted."""

from __future__ import annotations

import itertools
from collections import Counter

import psycopg
import pytest

from benchmarks.watching import fleet_rows, pages, people_rows, release_rows, seed
from benchmarks.watching.copying import copy
from benchmarks.watching.fleet_rows import Fleet
from benchmarks.watching.scale import Scale
from contracts.device import DeviceTags
from contracts.state import bucket
from services.kit import audit_chain
from services.kit.database import transaction
from services.kit.settings import Settings
from services.releases import counts

SMALL = Scale(devices=1_500, releases=200, days=12, now=1_900_000_000.0, audit=300, builds=12, clusters=9, members=5)


def test_the_same_scale_gives_the_same_rows_and_another_seed_others() -> None:
    def rows(scale: Scale) -> list[list[tuple[object, ...]]]:
        return [[tuple(row) for row in itertools.islice(part.rows, 40)] for part in seed.parts(scale)]

    assert rows(SMALL) == rows(SMALL)
    other = Scale(**{**SMALL.__dict__, "seed": 8})
    assert rows(SMALL)[0] != rows(other)[0]


def test_devices_are_such_as_the_platform_takes() -> None:
    fleet = Fleet(SMALL)
    rows = list(fleet_rows.devices(fleet))
    assert len({row[0] for row in rows}) == len({row[1] for row in rows}) == SMALL.devices
    for row in rows[:50]:
        assert DeviceTags.model_validate_json(str(row[3])).device_class == row[2]
    running = Counter(row[5] for row in rows)
    assert running[""] > 0
    assert len(running) > 10


def test_an_exposure_lies_where_the_device_would_put_itself() -> None:
    salts = {scale_row[0]: scale_row[7] for scale_row in release_rows.rollouts(SMALL)}
    drafts = {row[0] for row in release_rows.rollouts(SMALL) if row[2] == "draft"}
    for row in itertools.islice(release_rows.exposures(Fleet(SMALL)), 200):
        assert row[3] == bucket(str(salts[row[0]]), str(row[1]))
        assert row[0] not in drafts


def test_every_route_of_the_console_has_a_visit() -> None:
    known = pages.routes()
    assert len(known) > 30
    assert pages.unvisited(known, pages.pages(SMALL, known)) == ()
    later = (*known, "/console/later/{thing}", "/console/plain")
    assert pages.unvisited(later, pages.pages(SMALL, later)) == ("/console/later/{thing}",)


def test_the_seed_fills_a_migrated_platform_whose_counts_and_chain_hold(
    platform: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.watching.build_rows.put_bundle", lambda: None)
    told: list[float] = []
    found = seed.fill(SMALL, lambda share, text: told.append(share))
    assert found["releases.devices"] == found["releases.exposures"] == SMALL.devices
    assert told == sorted(told)
    with transaction() as session:
        assert sum(one.devices for one in counts.fleet(session)) == SMALL.devices
        newest = SMALL.rollout(SMALL.releases - 1)
        assert counts.progress(session, [newest])[newest].up_to(10_000).installed > 0
        assert audit_chain.verify(session).ok
    with pytest.raises(seed.NotEmpty):
        seed.fill(SMALL, lambda share, text: None)


def test_text_that_means_something_to_copy_arrives_as_it_was(platform: Settings) -> None:
    url = platform.database_url.replace("postgresql+psycopg://", "postgresql://")
    given = [("a\\b", None, b"\x00\xff", ["x", "y"], True), ("", 'q"', b"", [], False)]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE public.copied (a text, b text, c bytea, d text[], e boolean)")
        assert copy(connection, "public.copied", tuple("abcde"), given, lambda rows: None) == 2
        assert connection.execute("SELECT * FROM public.copied").fetchall() == given


def test_names_of_people_and_of_the_rare_act_are_there_to_be_searched() -> None:
    rows = list(people_rows.audit(Scale(**{**SMALL.__dict__, "audit": 40})))
    assert any(row[2] == people_rows.RARE for row in rows)
    assert [row[6] for row in rows] == list(range(1, 41))
