"""Images and the compose file: no root, nothing writable, no secret inside, and the agent without the platform."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from contracts.clock import CLOCK_FILE_VARIABLE
from demo.actors import GROUPS
from demo.composed import settings as demo_settings
from demo.play import environment, profiles_of
from deploy.prove.composition import read_variables
from edge_agent import alive
from flows.data.corpus import default_corpus
from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.settings import Settings, settings
from services.kit.tasks import QUEUES
from services.operations import bootstrap
from tests.deployment.chart import ROOT

DOCKERFILES = sorted((ROOT / "deploy" / "docker").glob("*.Dockerfile"))
EACH = pytest.mark.parametrize("file", DOCKERFILES, ids=lambda path: path.stem)
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"].startswith("edgeloop/")}
AGENT_NEEDS = {
    "annotated_doc", "annotated_types", "av", "click", "contracts", "cryptography", "edge_agent", "google", "httpx",
    "idna", "markdown_it", "numpy", "onnxruntime", "pydantic", "pydantic_core", "pygments", "rich", "securesystemslib",
    "shellingham", "tuf", "typer", "typing_extensions", "typing_inspection", "urllib3", "zstandard",
}  # fmt: skip
NEVER_ON_A_DEVICE = {"torch", "fastapi", "sqlalchemy", "celery", "prefect", "mlflow", "services", "flows", "compiler"}


def steps(file: Path) -> list[str]:
    """The file's instructions, continued lines joined, without comments."""
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    return [step.strip() for step in re.sub(r"\\\n", " ", text).splitlines() if step.strip()]


@EACH
def test_an_image_is_built_in_stages_and_its_base_is_an_argument(file: Path) -> None:
    bases = [step for step in steps(file) if step.startswith("FROM")]
    assert bases == ["FROM ${BASE} AS build", "FROM ${BASE}"]
    (base,) = [step for step in steps(file) if step.startswith("ARG BASE=")]
    assert re.search(r":\d[^:]*$", base), "the base has a version"
    assert ":latest" not in base


@EACH
def test_an_image_does_not_run_as_root_and_says_whether_it_is_well(file: Path) -> None:
    last = steps(file)[steps(file).index("FROM ${BASE}") :]
    (user,) = [step for step in last if step.startswith("USER")]
    assert user == "USER 65532:65532"
    after = last[last.index(user) :]
    assert not [step for step in after if step.startswith(("RUN", "COPY", "ADD"))], "nothing is changed later"
    assert [step for step in last if step.startswith("HEALTHCHECK") and " CMD " in step]


@EACH
def test_an_image_takes_named_folders_only_and_no_secret(file: Path) -> None:
    for step in steps(file):
        assert not step.startswith("ADD"), step
        assert not re.match(r"COPY (--\S+ )?\. ", step), step
        assert not re.search(r"(?i)(password|token|secret|api_?key)\s*=", step), step
        assert not re.search(r"curl|wget|chmod -R 777|sudo", step), step
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored, "the context is an allow-list"
    assert not [line for line in ignored if line.startswith(("!deploy", "!tests"))]


def test_what_the_agent_imports_is_small_and_knows_no_platform() -> None:
    code = (
        "import sys, json, edge_agent.cli, edge_agent.lab, edge_agent.fleet.run, edge_agent.simulated.cli; "
        "tops = {name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names); "
        "print(json.dumps(sorted(name for name in tops if not name.startswith('_'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(json.loads(done.stdout))
    assert not loaded & NEVER_ON_A_DEVICE
    assert loaded - AGENT_NEEDS <= {
        "cython_runtime",
        "colorama",
        "certifi",
        "h11",
        "anyio",
        "httpcore",
        "sniffio",
        "mdurl",
    }


def test_the_agents_image_leaves_the_platform_out() -> None:
    text = (ROOT / "deploy" / "docker" / "agent.Dockerfile").read_text()
    assert '".[edge]"' in text
    assert "rm -rf compiler services flows embedded demo migrations" in text


def test_compose_runs_every_service_and_queue() -> None:
    assert "EDGELOOP_SERVICES" not in COMPOSE["x-environment"], "one API process serves them all"
    commands = " ".join(" ".join(service.get("command", [])) for service in OURS.values())
    queues = {queue for match in re.findall(r"-Q ([a-z,]+)", commands) for queue in match.split(",")}
    assert queues == set(QUEUES)
    assert {"postgres", "redis", "objectstore", "prefect", "mlflow", "devices", "beat"} <= COMPOSE["services"].keys()
    assert {*SERVICES, DASHBOARD}


def test_compose_locks_its_containers_and_opens_loopback_only() -> None:
    for name, service in OURS.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "user" not in service, name
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:${EDGELOOP_PORT:-8080}:8080"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert not [name for name in ("devices",) if "inside" in COMPOSE["services"][name]["networks"]]


def test_no_container_of_compose_runs_as_root() -> None:
    for name, service in COMPOSE["services"].items():
        if name not in OURS:
            assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"]), name
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name


def test_compose_up_by_itself_is_the_short_demo() -> None:
    given = read_variables(ROOT / ".env")
    wanted = environment(demo_settings(), profiles_of(default_corpus()))
    assert {key: value for key, value in wanted.items() if key.startswith("EDGELOOP_")}.items() <= given.items()
    assert given["COMPOSE_PROFILES"] == "demo"
    assert demo_settings().second_act is False
    clocks = [service.get("environment", {}).get(CLOCK_FILE_VARIABLE) for service in OURS.values()]
    assert set(clocks) <= {None, "${EDGELOOP_CLOCK_FILE:-}"}
    folder = str(Path(given[CLOCK_FILE_VARIABLE]).parent)
    writers = [name for name, service in OURS.items() if f"clock:{folder}" in service.get("volumes", ())]
    assert writers == ["demo"]


def test_compose_has_a_container_for_each_full_device_of_the_demo() -> None:
    names = [f"agent-{n + 1}-{GROUPS[n % len(GROUPS)].name}" for n in range(demo_settings().full_devices)]
    assert [name for name in COMPOSE["services"] if name.startswith("agent-")] == names
    for name in names:
        assert COMPOSE["services"][name]["environment"]["DEVICE"] == name


def test_an_installation_keeps_real_time_and_has_no_demo() -> None:
    given = read_variables(ROOT / "deploy" / "compose" / "install.env")
    assert "demo" not in given["COMPOSE_PROFILES"]
    assert not [name for name in given if name.startswith("EDGELOOP_RETRAIN") or name == CLOCK_FILE_VARIABLE]


def test_compose_takes_secrets_from_files_that_one_command_makes(tmp_path: Path) -> None:
    wanted = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert set(bootstrap.new_secrets(tmp_path / "secrets")) == wanted
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    with pytest.raises(bootstrap.BootstrapError, match="already"):
        bootstrap.new_secrets(tmp_path / "secrets")
    for service in COMPOSE["services"].values():
        for key, value in service.get("environment", {}).items():
            secret = re.search(r"PASSWORD|TOKEN|SECRET|_KEY", key)
            assert not secret or str(value).startswith("/run/secrets"), key


def test_settings_read_the_secret_files_and_hide_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap.new_secrets(tmp_path / "secrets")
    monkeypatch.delenv("EDGELOOP_DATABASE_URL", raising=False)
    monkeypatch.setenv("EDGELOOP_SECRETS_DIR", str(tmp_path / "secrets"))
    settings.cache_clear()
    try:
        read = settings()
    finally:
        monkeypatch.undo()
        settings.cache_clear()
    assert read.database_url == (tmp_path / "secrets" / "edgeloop_database_url").read_text()
    token = (tmp_path / "secrets" / "edgeloop_service_token").read_text()
    assert read.service_token.get_secret_value() == token
    assert token not in repr(read)


def test_the_environment_of_compose_is_what_the_code_reads() -> None:
    known = {f"EDGELOOP_{field.upper()}" for field in Settings.model_fields}
    known |= {"EDGELOOP_SECRETS_DIR", "EDGELOOP_READY_FILE", CLOCK_FILE_VARIABLE, alive.VARIABLE}
    known |= {
        f"EDGELOOP_RETRAIN_{name}"
        for name in ("BUDGET_MINUTES", "SOAK_S", "MIN_DEVICES", "PROFILES", "SPREAD", "CANDIDATES")
    }
    for name, service in OURS.items():
        ours = {key for key in service.get("environment", {}) if key.startswith("EDGELOOP_")}
        assert ours <= known, name


def test_the_health_check_of_an_agent_sees_one_that_stopped(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "edge_agent.alive"]
    environment = {**os.environ, alive.VARIABLE: str(tmp_path)}
    assert subprocess.run(run, env=environment, cwd=ROOT, capture_output=True, check=False).returncode == 1
    status = tmp_path / alive.STATUS
    status.write_text("{}")
    assert subprocess.run(run, env=environment, cwd=ROOT, capture_output=True, check=False).returncode == 0
    os.utime(status, (0, 0))
    assert subprocess.run(run, env=environment, cwd=ROOT, capture_output=True, check=False).returncode == 1
