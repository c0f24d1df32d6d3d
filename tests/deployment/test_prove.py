"""The proof of the compose file: what is read from it, what podman is asked for, when who is killed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from demo.view import PHASES
from deploy.prove.composition import Composition, CompositionError, filled, read_composition, read_variables
from deploy.prove.engine import Addresses, Engine, arguments
from deploy.prove.figures import image_figures, loop_figures
from deploy.prove.killing import MOMENTS, Kill, due, phase_of, services_to_kill
from deploy.prove.loop import Outcome
from tests.deployment.chart import ROOT

FILE = ROOT / "docker-compose.yml"


@pytest.fixture(scope="module")
def whole() -> Composition:
    return read_composition(FILE, read_variables(ROOT / ".env"))


def words_of(name: str, whole: Composition) -> list[str]:
    return arguments(whole.service(name), whole, Addresses(whole))


def test_every_service_comes_after_what_it_depends_on(whole: Composition) -> None:
    names = [service.name for service in whole.services]
    for service in whole.services:
        assert all(names.index(other) < names.index(service.name) for other in service.depends_on)
    assert {"postgres", "redis", "objectstore", "prefect", "mlflow", "flows", "demo", "fleet"} <= set(names)


def test_profiles_choose_services() -> None:
    def names(profiles: str) -> set[str]:
        return {service.name for service in read_composition(FILE, {"COMPOSE_PROFILES": profiles}).services}

    assert "demo" not in names("")
    assert "devices" not in names("demo")
    assert names("simulated") - names("") == {"devices"}


def test_variables_have_defaults_and_dollars_stay() -> None:
    assert filled("${A:-x} ${B:-y} $${C}", {"B": "b"}) == "x b ${C}"
    assert filled(["${A}"], {}) == [""]


def test_a_key_that_is_not_understood_is_an_error(tmp_path: Path) -> None:
    document = yaml.safe_load(FILE.read_text())
    document["services"]["api"]["privileged"] = True
    path = tmp_path / "docker-compose.yml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(CompositionError, match=r"api: privileged"):
        read_composition(path, {})


def test_a_circle_is_an_error(tmp_path: Path) -> None:
    document = yaml.safe_load(FILE.read_text())
    document["services"]["postgres"]["depends_on"] = {"api": {"condition": "service_healthy"}}
    path = tmp_path / "docker-compose.yml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(CompositionError, match="circle"):
        read_composition(path, {})


def test_podman_is_asked_for_what_the_file_says(whole: Composition) -> None:
    words = words_of("redis", whole)
    assert words[words.index("--user") + 1] == "999:999"
    assert {"--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"} <= set(words)
    assert words[words.index("--restart") + 1] == "unless-stopped"
    assert [word for word in words if word.endswith(":/run/secrets/redis_password:ro")]
    assert "$$" not in " ".join(words)
    assert "$(cat /run/secrets/redis_password)" in words[-1]


def test_secrets_are_files_and_never_words(whole: Composition, tmp_path: Path) -> None:
    for service in whole.services:
        words = words_of(service.name, whole)
        secrets = [word for word in words if ":/run/secrets/" in word]
        assert len(secrets) == len(service.secrets)
        assert all(word.endswith(":ro") for word in secrets)


def test_devices_reach_the_api_and_nothing_else(whole: Composition) -> None:
    addresses = Addresses(whole)
    reached = set(addresses.seen_from(whole.service("fleet")))
    assert "api" in reached
    assert not reached & {"postgres", "redis", "objectstore", "prefect", "mlflow", "worker"}
    assert whole.networks == {"inside": True, "outside": False}


def test_addresses_are_different(whole: Composition) -> None:
    addresses = Addresses(whole)
    found = [addresses.of(service, network) for service in whole.services for network in service.networks]
    assert len(found) == len(set(found))


def test_every_service_that_lives_on_is_killed_once(whole: Composition) -> None:
    names = [name for _, name in MOMENTS]
    assert len(names) == len(set(names))
    assert set(names) == services_to_kill(whole)
    assert {phase for phase, _ in MOMENTS} <= set(PHASES)


@pytest.mark.parametrize(
    ("log", "phase"),
    [
        ("", ""),
        ("[   0.0 s]  platform", "platform"),
        ("[ 12.0 s] day 336 00:10 x6,171 healthy days: healthy days to pass", "healthy days"),
        ("[ 12.0 s] day 336 00:10 x1 gate: the gate\nnoise", "gate"),
        ("[ 12.0 s] day 336 00:10 x60 drift alarm\n[ 13.0 s] day 336 00:10 x60 retrain: flow", "retrain"),
    ],
)
def test_the_phase_is_read_from_the_demos_log(log: str, phase: str) -> None:
    assert phase_of(log) == phase


def test_a_kill_is_due_in_its_phase_or_later() -> None:
    assert due("retrain", "retrain")
    assert due("rollout", "retrain")
    assert not due("bad days", "retrain")
    assert not due("", "platform")


def test_figures_tell_what_was_missed() -> None:
    good = Outcome(exit_code=0, users={"api": 65532}, lost=0, not_passed_on=0)
    good.kills = [Kill(name, phase, "its restart policy", 1.0) for phase, name in MOMENTS]
    assert all(figure.ok for figure in loop_figures(good, killed=True))
    bad = Outcome(exit_code=1, users={"api": 0}, lost=2, not_passed_on=0)
    missed = {figure.id for figure in loop_figures(bad, killed=True) if not figure.ok}
    assert missed == {
        "compose.loop_finished", "compose.containers_as_root", "compose.lost", "compose.killed",
        "compose.restarted_by_policy",
    }  # fmt: skip


def test_an_image_for_root_is_counted() -> None:
    figures = {figure.id: figure for figure in image_figures({"api": 10**9}, {"api": "65532:65532", "x": ""})}
    assert figures["compose.image.api"].value == 1000
    assert figures["compose.images_for_root"].value == 1
    assert not figures["compose.images_for_root"].ok


def test_a_warning_of_the_engine_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def podman(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 0, "4711\n", "level=warning msg=...")

    monkeypatch.setattr(subprocess, "run", podman)
    assert Engine(tmp_path).pid("postgres") == 4711
