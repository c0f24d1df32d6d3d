"""Test devices in containers: what is made, what a second call changes, and what a missing engine says."""

from __future__ import annotations

import gc
import io
import sys
import tarfile
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import ImageNotFound  # type: ignore[import-untyped]
from typer.testing import CliRunner

from edge_agent.containers import cli
from edge_agent.containers.engine import EngineError, SdkEngine
from edge_agent.containers.fleet import bring_up, take_down
from edge_agent.containers.plan import FLEET_LABEL, MOST_DEVICES, FleetWish, checked, specs
from edge_agent.errors import ConfigError
from edge_agent.simulated.cli import app

TOKEN = "el_0123456789abcdef_" + "s" * 43
WISH = FleetWish("test", 3, "edgeloop/agent:0.1.0", "http://127.0.0.1:8080", ("npu-4t", "npu-2t"), "host")
RUNNER = CliRunner()


@dataclass
class FakeContainer:
    """What the SDK's Container is here for."""

    engine: FakeDocker
    name: str
    labels: dict[str, str]
    options: dict[str, Any]
    status: str = "created"
    archives: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"id-{self.name}"

    def put_archive(self, path: str, data: bytes) -> None:
        assert self.status == "created", "the file is there before the first start"
        self.archives.append((path, data))

    def start(self) -> None:
        self.status = "running"

    def stop(self, timeout: int) -> None:
        self.status = "exited"

    def remove(self, force: bool) -> None:
        del self.engine.made[self.name]


class FakeDocker:
    """The Docker SDK's client: containers and volumes."""

    def __init__(self, images: tuple[str, ...] = (WISH.image,)) -> None:
        self.made: dict[str, FakeContainer] = {}
        self.kept: dict[str, str] = {}
        self.images = images
        self.containers = SimpleNamespace(list=self._list, create=self._create, get=self._get)
        self.volumes = SimpleNamespace(
            create=lambda name, labels: self.kept.update({name: labels[FLEET_LABEL]}),
            get=self._volume,
            list=lambda filters: [
                self._volume(name)
                for name, fleet in self.kept.items()
                if filters == {"label": f"{FLEET_LABEL}={fleet}"}
            ],
        )

    def ping(self) -> bool:
        return True

    def _list(self, all: bool, filters: dict[str, str]) -> list[FakeContainer]:
        key, _, value = filters["label"].partition("=")
        assert all, "containers that stand still count"
        return [made for made in self.made.values() if made.labels.get(key) == value]

    def _create(self, image: str, **options: Any) -> FakeContainer:
        if image not in self.images:
            raise ImageNotFound(image)
        made = FakeContainer(self, options["name"], options["labels"], {"image": image, **options})
        assert made.name not in self.made
        self.made[made.name] = made
        return made

    def _volume(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remove=lambda force: self.kept.pop(name))

    def _get(self, id: str) -> FakeContainer:
        return next(made for made in self.made.values() if made.id == id)


@pytest.fixture
def docker() -> FakeDocker:
    return FakeDocker()


@pytest.fixture
def engine(docker: FakeDocker) -> SdkEngine:
    return SdkEngine(docker)


def quiet(_words: str, _share: float) -> None:
    """No progress."""


def change(**fields: Any) -> FleetWish:
    return FleetWish(**{**vars(WISH), **fields})


def test_devices_are_locked_labelled_and_spread_over_classes(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    assert sorted(docker.made) == ["edgeloop-test-1", "edgeloop-test-2", "edgeloop-test-3"]
    for number, made in enumerate(docker.made.values(), 1):
        assert made.status == "running"
        assert made.labels["org.edgeloop.fleet"] == "test"
        assert made.labels["org.edgeloop.number"] == str(number)
        options = made.options
        assert options["entrypoint"] == ["sh", "-ec"], "not the image's own"
        assert options["read_only"] is True
        assert options["cap_drop"] == ["ALL"]
        assert options["security_opt"] == ["no-new-privileges"]
        assert options["restart_policy"] == {"Name": "unless-stopped"}
        assert options["mem_limit"]
        assert options["pids_limit"]
    classes = [made.options["command"][made.options["command"].index("--classes") + 1] for made in docker.made.values()]
    assert classes == ["npu-4t", "npu-2t", "npu-4t"]


def test_the_token_is_a_file_for_the_devices_user_and_nowhere_else(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    made = docker.made["edgeloop-test-1"]
    ((path, data),) = made.archives
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        (entry,) = archive.getmembers()
        held = archive.extractfile(entry)
        assert held is not None
        assert held.read().decode() == TOKEN
    assert (path, entry.name, entry.mode, entry.uid) == ("/var/lib/edgeloop-agent", "enrolment-token", 0o400, 65532)
    assert TOKEN not in repr(made.options)
    assert TOKEN not in repr(made.labels)


def test_the_same_twice_changes_nothing(docker: FakeDocker, engine: SdkEngine) -> None:
    assert bring_up(engine, WISH, TOKEN, quiet).count == 3
    before = dict(docker.made)
    assert bring_up(engine, WISH, TOKEN, quiet).count == 0
    assert docker.made == before


def test_only_what_differs_is_changed(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    docker.made["edgeloop-test-2"].status = "exited"
    del docker.made["edgeloop-test-3"]
    first = docker.made["edgeloop-test-1"]
    done = bring_up(engine, WISH, TOKEN, quiet)
    assert ([d.name for d in done.start], [d.name for d in done.create]) == (["edgeloop-test-2"], ["edgeloop-test-3"])
    assert docker.made["edgeloop-test-1"] is first
    assert all(made.status == "running" for made in docker.made.values())


def test_fewer_devices_remove_the_last_with_their_identities(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    assert [d.name for d in bring_up(engine, change(devices=1), TOKEN, quiet).remove] == [
        "edgeloop-test-2",
        "edgeloop-test-3",
    ]
    assert set(docker.kept) == {"edgeloop-test-1"}


def test_another_setting_replaces_containers_and_keeps_identities(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    done = bring_up(engine, change(platform_url="http://127.0.0.1:9090"), TOKEN, quiet)
    assert len(done.replace) == 3
    assert set(docker.kept) == set(docker.made)
    assert "http://127.0.0.1:9090" in docker.made["edgeloop-test-1"].options["command"]


def test_another_fleet_is_left_alone(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    bring_up(engine, change(name="lab", devices=1), TOKEN, quiet)
    assert [d.name for d in take_down(engine, "test", keep_state=False, tell=quiet)] == [
        f"edgeloop-test-{number}" for number in (1, 2, 3)
    ]
    assert set(docker.made) == set(docker.kept) == {"edgeloop-lab-1"}
    assert take_down(engine, "test", keep_state=False, tell=quiet) == []


def test_identities_without_a_container_go_too(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    del docker.made["edgeloop-test-2"]
    take_down(engine, "test", keep_state=False, tell=quiet)
    assert docker.kept == {}


def test_identities_can_be_kept(docker: FakeDocker, engine: SdkEngine) -> None:
    bring_up(engine, WISH, TOKEN, quiet)
    take_down(engine, "test", keep_state=True, tell=quiet)
    assert docker.made == {}
    assert len(docker.kept) == 3


def test_devices_with_a_video_are_whole_agents() -> None:
    spec = specs(change(source="/srv/talk.mp4", factory_bundle="/srv/base.elb"))[0]
    assert spec.files == {"/srv/talk.mp4": "/media/source", "/srv/base.elb": "/media/factory.elb"}
    assert spec.command[2:5] == ("edgeloop", "agent", "run")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"devices": 0}, "1 to 64"),
        ({"devices": MOST_DEVICES + 1}, "fleet simulate"),
        ({"name": "../x"}, "--name"),
        ({"name": "a" * 33}, "--name"),
        ({"source": "/srv/talk.mp4"}, "belong together"),
        ({"device_classes": ()}, "--classes"),
    ],
)
def test_wrong_use_is_told_before_anything_is_made(
    fields: dict[str, Any], words: str, docker: FakeDocker, engine: SdkEngine
) -> None:
    with pytest.raises(ConfigError, match=words):
        bring_up(engine, change(**fields), TOKEN, quiet)
    assert docker.made == {}
    assert checked(WISH) == WISH


def test_an_image_that_is_not_there_comes_with_the_command_that_builds_it() -> None:
    with pytest.raises(EngineError, match=r"no image edgeloop/agent.*docker build -f deploy/docker/agent.Dockerfile"):
        bring_up(SdkEngine(FakeDocker(images=())), WISH, TOKEN, quiet)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the SDK leaves its socket open
def test_no_engine_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    result = RUNNER.invoke(app, ["up", "--docker", "1", "--token", TOKEN])
    assert result.exit_code == 1
    told = " ".join(result.output.split())
    assert "no container engine answers at unix:///nowhere/docker.sock" in told
    assert "DOCKER_HOST" in told
    assert TOKEN not in result.output
    del result
    gc.collect()


def test_a_missing_sdk_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    result = RUNNER.invoke(app, ["down"])
    assert result.exit_code == 1
    assert "edgeloop[docker]" in " ".join(result.output.split())


def test_the_command_line_makes_and_removes(monkeypatch: pytest.MonkeyPatch, docker: FakeDocker) -> None:
    monkeypatch.setattr(cli.SdkEngine, "from_environment", classmethod(lambda kind: kind(docker)))
    result = RUNNER.invoke(app, ["up", "--docker", "2", "--json"], env={"EDGELOOP_ENROLMENT_TOKEN": TOKEN})
    assert result.exit_code == 0, result.output
    assert '"changed": 2' in result.output
    assert set(docker.made) == {"edgeloop-test-1", "edgeloop-test-2"}
    result = RUNNER.invoke(app, ["down"])
    assert "2 removed" in result.output
    assert docker.made == {}


def test_wrong_use_ends_with_two(monkeypatch: pytest.MonkeyPatch, docker: FakeDocker) -> None:
    monkeypatch.setattr(cli.SdkEngine, "from_environment", classmethod(lambda kind: kind(docker)))
    result = RUNNER.invoke(app, ["up", "--docker", "65", "--token", TOKEN])
    assert result.exit_code == 2
    assert "1 to 64" in result.output
