"""The Helm chart: lints, fits Kubernetes' schemas, and keeps its promises, for three kinds of installation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import helm_python
import kubernetes_validate
import pytest
import yaml

from services.kit.discovery import DASHBOARD, SERVICES
from services.kit.settings import Settings
from services.kit.tasks import QUEUES
from tests.deployment.chart import CHART, VALUE_SETS, Object, containers, of_kind, pods, render, rendered, values

EACH = pytest.mark.parametrize("name", VALUE_SETS)
KUBERNETES = "1.30.0"
OWN_SCHEMA = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which Kubernetes has no schema for."""


@EACH
def test_helm_lints_without_an_error_or_warning(name: str) -> None:
    found = helm_python.lint(str(CHART), values(name), strict=True, kube_version=f"v{KUBERNETES}")
    assert found.get("errors") in ([], None), found
    assert [message for message in found["messages"] if message["severity"] > 1] == []


@EACH
@pytest.mark.parametrize("version", ["1.29", "1.30", "1.34"])
def test_every_object_fits_the_schema_of_kubernetes(name: str, version: str) -> None:
    for found in rendered(name):
        if found["kind"] not in OWN_SCHEMA:
            kubernetes_validate.validate(found, version, strict=True)


def test_the_schema_check_notices_a_misspelt_field_and_an_unknown_kind() -> None:
    deployment = json.loads(json.dumps(of_kind(rendered("small"), "Deployment")[0]))
    deployment["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.30", strict=True)
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        kubernetes_validate.validate(deployment | {"apiVersion": "apps/v1beta1"}, "1.30", strict=True)


@EACH
def test_names_are_unique_and_objects_carry_the_labels(name: str) -> None:
    names = [(found["kind"], found["metadata"]["name"]) for found in rendered(name)]
    assert len(set(names)) == len(names)
    for found in rendered(name):
        assert found["metadata"]["labels"]["app.kubernetes.io/name"] == "edgeloop"


@EACH
def test_no_container_is_root_may_write_its_image_or_is_unbounded(name: str) -> None:
    for where, spec in pods(rendered(name)):
        assert spec["securityContext"]["runAsNonRoot"] is True, where
        assert spec["securityContext"]["runAsUser"] > 0, where
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert spec["automountServiceAccountToken"] is False, where
    for where, container in containers(rendered(name)):
        locked = container["securityContext"]
        assert locked["readOnlyRootFilesystem"] is True, where
        assert locked["allowPrivilegeEscalation"] is False, where
        assert locked["capabilities"] == {"drop": ["ALL"]}, where
        assert {"cpu", "memory"} <= set(container["resources"]["limits"]), where
        assert {"cpu", "memory"} <= set(container["resources"]["requests"]), where
        assert ":latest" not in container["image"], where
        assert "@sha256:" in container["image"] or ":" in container["image"].rsplit("/", 1)[-1], where


@EACH
def test_what_runs_for_long_has_probes(name: str) -> None:
    for found in of_kind(rendered(name), "Deployment", "StatefulSet"):
        for container in found["spec"]["template"]["spec"]["containers"]:
            assert "readinessProbe" in container, found["metadata"]["name"]
            if container["name"] != "flows":  # a retraining may be silent for hours
                assert "livenessProbe" in container, found["metadata"]["name"]


@EACH
def test_every_service_and_queue_of_the_code_is_deployed(name: str) -> None:
    names = {found["metadata"]["name"] for found in of_kind(rendered(name), "Deployment")}
    assert {f"el-api-{service}" for service in (*SERVICES, DASHBOARD)} <= names
    assert {f"el-worker-{queue}" for queue in QUEUES} <= names
    assert {"el-beat", "el-exporter", "el-gateway", "el-flows"} <= names


@EACH
def test_the_environment_is_what_the_code_reads(name: str) -> None:
    known = {f"EDGELOOP_{field.upper()}" for field in Settings.model_fields}
    known |= {"EDGELOOP_SERVICES", "EDGELOOP_READY_FILE", "EDGELOOP_OPERATOR_TOKEN"}
    for where, container in containers(rendered(name)):
        ours = {entry["name"] for entry in container.get("env", []) if entry["name"].startswith("EDGELOOP_")}
        assert ours <= known, where


def test_traces_are_exported_only_where_a_collector_is_named() -> None:
    def told(found: tuple[Object, ...]) -> list[str]:
        named = (one for _, container in containers(found) for one in container.get("env", []))
        return [one["value"] for one in named if one["name"].startswith("OTEL_")]

    assert told(rendered("small")) == []
    given = {**values("small"), "tracing": {"endpoint": "http://collector:4318", "share": 0.1}}
    assert {"http://collector:4318", "parentbased_traceidratio", "0.1"} == set(told(tuple(render(given))))


@EACH
def test_secrets_come_by_reference_only(name: str) -> None:
    assert of_kind(rendered(name), "Secret") == []
    for where, container in containers(rendered(name)):
        for entry in container.get("env", []):
            secret = any(word in entry["name"] for word in ("TOKEN", "PASSWORD", "SECRET", "_KEY", "DATABASE_URL"))
            assert not secret or "secretKeyRef" in entry.get("valueFrom", {}), (where, entry["name"])


def test_without_the_secrets_nothing_is_rendered() -> None:
    with pytest.raises(Exception, match=r"existingSecret"):
        render({})


@EACH
def test_migrations_run_after_the_first_install_and_before_each_upgrade(name: str) -> None:
    (job,) = of_kind(rendered(name), "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,pre-upgrade"
    for where, spec in pods(rendered(name)):
        if where.startswith(("el-api", "el-worker", "el-beat", "el-exporter")):
            assert spec["initContainers"][0]["command"][-1] == "wait", where


def test_production_scales_and_the_deployments_leave_the_count_to_the_autoscaler() -> None:
    objects = rendered("production")
    scaled = {found["spec"]["scaleTargetRef"]["name"]: found for found in of_kind(objects, "HorizontalPodAutoscaler")}
    assert {"el-api-telemetry", "el-api-releases", "el-worker-builds"} <= scaled.keys()
    metrics = scaled["el-worker-builds"]["spec"]["metrics"]
    assert [metric["type"] for metric in metrics] == ["Resource", "External"]
    assert metrics[1]["external"]["metric"]["selector"]["matchLabels"] == {"queue": "builds"}
    for found in of_kind(objects, "Deployment"):
        assert ("replicas" in found["spec"]) != (found["metadata"]["name"] in scaled), found["metadata"]["name"]
    assert len(of_kind(objects, "PodDisruptionBudget")) == 12
    assert of_kind(objects, "StatefulSet") == []


def test_an_air_gapped_installation_pulls_from_its_own_registry_by_digest() -> None:
    for where, container in containers(rendered("airgapped")):
        assert container["image"].startswith("registry.inside.example:5000/"), where
        assert "@sha256:" in container["image"], where


@EACH
def test_every_pod_is_closed_but_for_what_a_policy_names(name: str) -> None:
    policies = {found["metadata"]["name"]: found["spec"] for found in of_kind(rendered(name), "NetworkPolicy")}
    closed = policies["el-default-deny"]
    assert set(closed["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in closed
    for found in of_kind(rendered(name), "Deployment", "StatefulSet"):
        labels = found["spec"]["template"]["metadata"]["labels"]
        assert closed["podSelector"]["matchLabels"].items() <= labels.items()
    from_outside = [
        (policy, rule)
        for policy, spec in policies.items()
        for rule in spec.get("ingress", [])
        if any("namespaceSelector" in peer for peer in rule["from"])
    ]
    assert {policy: rule["ports"] for policy, rule in from_outside} == {
        "el-gateway": [{"port": 8080}],
        "el-metrics": [{"port": 9464}],
    }


@EACH
def test_the_gateway_leads_to_every_service_and_hides_the_metrics(name: str) -> None:
    maps = {found["metadata"]["name"]: found for found in of_kind(rendered(name), "ConfigMap")}
    text = maps["el-gateway"]["data"]["default.conf"]
    for service in SERVICES:
        assert f"location /{service}/ {{ proxy_pass http://el-api-{service}:8080; }}" in text
    assert "location / { proxy_pass http://el-api-dashboard:8080; }" in text
    assert "location = /metrics { return 404; }" in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicaCount": 3},
        {"logLevel": "LOUD"},
        {"tracing": {"endpoint": "collector:4318"}},
        {"apis": {"telemetry": {"replicas": 0}}},
        {"image": {"services": {"tag": "latest"}}},
        {"workers": {"builds": {"resources": {"limits": {"cpu": "lots", "memory": "1Gi"}}}}},
        {"networkPolicies": {"externalServers": [{"cidr": "everywhere", "port": 5432}]}},
    ],
)
def test_values_that_mean_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(helm_python.HelmValuesError):
        helm_python.Chart.load(str(CHART)).validate_schema(values("small") | wrong)


def test_the_prometheus_rule_is_the_file_of_alerts() -> None:
    (rule,) = of_kind(rendered("production"), "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "alerts.yaml").read_text())


def test_what_the_chart_starts_can_be_imported() -> None:
    modules = {
        word
        for _, container in containers(rendered("small"))
        for before, word in zip(container.get("command", []), container.get("command", [])[1:], strict=False)
        if before == "-m"
    }
    code = "import importlib.util, sys; sys.exit(not all(importlib.util.find_spec(name) for name in sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *sorted(modules)], cwd=Path(CHART).parents[1], check=False)
    assert done.returncode == 0, modules
