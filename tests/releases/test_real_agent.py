"""The real agent's own update code against the running application."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.bundle import Bundle
from contracts.device import DeviceTags
from contracts.state import choose_target
from edge_agent.disk import Disk
from edge_agent.enrol import enrol
from edge_agent.errors import EnrolmentError, TrustError
from edge_agent.platform import HttpStateFeed, StateKeeper
from edge_agent.transport import Transport, make_client
from edge_agent.updater import SignedRepository
from services.releases import service
from tests.releases.conftest import OLD
from tests.releases.world import World
from tests.support.http import LiveServer

TAGS = DeviceTags(device_class="npu-4t")


def test_an_agent_joins_polls_and_fetches_the_bundle_it_should_run(
    world: World, live_server: LiveServer, tmp_path: Path
) -> None:
    digest = world.register(version="5.0")
    with make_client() as http:
        identity = enrol(tmp_path, Transport(live_server.url, http), world.enrolment_token(), TAGS, Disk(), OLD)
        transport = Transport(live_server.url, http, identity.access_token)
        world.rollout(digest, stages=[10_000])
        keeper = StateKeeper(tmp_path, HttpStateFeed(transport), identity.state_key, Disk())
        state = keeper.poll()
        assert keeper.poll() is state, "the second poll is a 304"
        target = choose_target(state, identity.device_id, TAGS)
        assert target is not None
        repository = SignedRepository(tmp_path / "tuf", identity.tuf_root, transport)
        file = repository.fetch(target.path, tmp_path / "new.elb")
        assert Bundle.open(file).digest == digest


def test_an_agent_refuses_a_bundle_that_was_changed_on_the_server(
    world: World, live_server: LiveServer, tmp_path: Path
) -> None:
    digest = world.register()
    path = f"bundles/{digest}.elb"
    signed = service.UpdateRepository(service.objects(), service.keys()).target(path)
    assert signed is not None
    stored = service.objects().path(f"tuf/targets/bundles/{signed.hashes['sha256']}.{digest}.elb")
    stored.write_bytes(stored.read_bytes()[:-1] + b"\xff")
    with make_client() as http:
        identity = enrol(tmp_path, Transport(live_server.url, http), world.enrolment_token(), TAGS, Disk())
        repository = SignedRepository(
            tmp_path / "tuf", identity.tuf_root, Transport(live_server.url, http, identity.access_token)
        )
        with pytest.raises(TrustError):
            repository.fetch(path, tmp_path / "new.elb")


def test_an_agent_with_a_wrong_token_is_told_to_ask_for_a_new_one(
    world: World, live_server: LiveServer, tmp_path: Path
) -> None:
    with make_client() as http, pytest.raises(EnrolmentError, match="ask for a new one"):
        enrol(tmp_path, Transport(live_server.url, http), "a-token-nobody-ever-made", TAGS, Disk())
