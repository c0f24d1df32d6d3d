"""The demo under the compose file: it finds its platform, starts no process and leaves a platform in use alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from demo import composed
from demo.actors import Actors, World, start_fleet, start_full_agents
from demo.composed import Containers, DeployedGround, clear, demand_empty
from demo.errors import DemoError
from demo.ground import Access
from demo.scene import Scene
from demo.settings import SHORT


def test_what_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGELOOP_BASE_URL", raising=False)
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect/api")
    with pytest.raises(DemoError, match="EDGELOOP_BASE_URL"):
        DeployedGround.from_environment()


def test_secrets_come_from_files(tmp_path: Path) -> None:
    for name in ("edgeloop_database_url", "edgeloop_operator_token", "edgeloop_service_token", "token"):
        (tmp_path / name).write_text(f"{name}\n")
    ground = DeployedGround("http://api", "http://prefect/api", tmp_path, tmp_path, tmp_path / "token")
    assert ground.access.operator_token == "edgeloop_operator_token"
    assert ground.access.enrolment_token == "token"
    (tmp_path / "edgeloop_service_token").unlink()
    with pytest.raises(DemoError, match="edgeloop_service_token"):
        _ = ground.access


def test_waiting_for_the_platform_is_bounded(tmp_path: Path) -> None:
    ground = DeployedGround("http://127.0.0.1:9", "http://127.0.0.1:9", tmp_path, tmp_path, patience_s=0.0)
    with pytest.raises(DemoError, match=r"waited 0 s for the API; see docker compose logs"):
        ground.start()


def test_devices_are_told_to_start_after_their_configuration_is_whole(tmp_path: Path) -> None:
    world = World(tmp_path, tmp_path / "factory.elb", "http://api:8080", "t", tmp_path / "c", 0.0, Scene(()), SHORT)
    actors: Actors = Containers()
    start_fleet(actors, world)
    start_full_agents(actors, world)
    started = sorted(path.name.removesuffix(".start") for path in tmp_path.glob("*.start"))
    assert started == ["agent-1-office", "agent-2-home", "agent-3-mobile", "fleet"]
    assert all((tmp_path / f"{name}.config.json").is_file() for name in started)
    assert actors.dead() == []
    actors.stop()
    assert len(list(tmp_path.glob("*.start"))) == 4, "containers go on"


def test_a_platform_in_use_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composed.Observer, "devices", lambda _: [{"id": "camera-1"}])
    access = Access("http://api", "http://prefect/api", "", "", "", "")
    with pytest.raises(DemoError, match="devices already"):
        demand_empty(cast(DeployedGround, SimpleNamespace(start=lambda: access)))
    monkeypatch.setattr(composed.Observer, "devices", lambda _: [])
    demand_empty(cast(DeployedGround, SimpleNamespace(start=lambda: access)))


def test_a_mounted_folder_is_emptied_and_stays(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "one.mp4").write_bytes(b"")
    (tmp_path / "fleet.start").touch()
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == []
