"""Alert rules and the Grafana board use metrics that exist; each alert has a runbook; promtool agrees where it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deployment.chart import CHART, ROOT

REFERENCE = ROOT / "docs" / "reference" / "metrics.md"
RUNBOOKS = ROOT / "docs" / "how-to" / "runbooks.md"
BOARD = ROOT / "ops" / "grafana" / "edgeloop.json"
RULES = CHART / "alerts.yaml"
CASES = Path(__file__).parent / "promtool" / "alerts.test.yaml"
PROMTOOL = shutil.which("promtool")


def known_names() -> set[str]:
    documented = set(re.findall(r"^\| `(edgeloop_[a-z_]+)`", REFERENCE.read_text(), re.MULTILINE))
    histograms = {name for name in documented if name.endswith("_duration_seconds")}
    return documented | {f"{name}{suffix}" for name in histograms for suffix in ("_bucket", "_sum", "_count")}


def rules() -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    board = json.loads(BOARD.read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in rules())]


def test_every_metric_that_is_asked_for_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for expression in expressions():
        asked = set(re.findall(r"[a-z0-9_:]*edgeloop_[a-z0-9_:]+", expression))
        assert asked, expression
        assert asked <= known_names() | recorded, expression


def test_every_documented_metric_of_the_platform_is_on_the_board_or_in_a_rule() -> None:
    asked = " ".join(expressions())
    unused = {name for name in known_names() if name not in asked and not name.startswith("edgeloop_agent_")}
    assert {name for name in unused if not name.endswith(("_sum", "_count", "_info", "_duration_seconds"))} == set()


def test_every_alert_has_severity_summary_and_a_runbook_that_exists() -> None:
    headings = {f"#{line[3:].strip().lower()}" for line in RUNBOOKS.read_text().splitlines() if line.startswith("## ")}
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"page", "ticket"}
            file, anchor = rule["annotations"]["runbook"].split("#")
            assert file == "docs/how-to/runbooks.md"
            assert f"#{anchor}" in headings, rule["alert"]
            assert rule["annotations"]["summary"]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on the PATH")
@pytest.mark.parametrize("words", [("check", "rules", RULES), ("test", "rules", CASES)])
def test_promtool_accepts_the_rules_and_they_fire_when_they_should(words: tuple[object, ...]) -> None:
    done = subprocess.run([str(PROMTOOL), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
