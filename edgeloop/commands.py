"""Which commands exist, where they live and what they need.

Installed, commands come from the entry-point group `edgeloop.commands`, so another distribution can add its own.
Run from a checkout (`python -m edgeloop`), the table below is used. A command whose extra is not installed is not
listed, and says which extra it needs when it is called.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

GROUP = "edgeloop.commands"


@dataclass(frozen=True)
class Command:
    """A command: `target` is `module:attribute` (a Typer app or a function), `needs` are modules of its extra."""

    name: str
    target: str
    summary: str = ""
    extra: str = ""
    needs: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """The needed modules that are not installed."""
        return [module for module in self.needs if importlib.util.find_spec(module) is None]

    def load(self) -> Any:  # Any: a Typer app or a function with Typer's annotations
        """Import the part and give its app or function."""
        module, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module), attribute)


BUILT_IN = (
    Command("demo", "demo.cli:demo", "Run the whole loop on real video and write a report.", "embedded", ("prefect",)),
    Command("up", "embedded.cli:up", "Start the platform on this machine; Ctrl-C stops it.", "embedded", ("psutil",)),
    Command("status", "embedded.cli:status", "Say what runs in a state folder.", "embedded", ("psutil",)),
    Command("agent", "edge_agent.cli:app", "A device: run, enrol, show, lab, fleet.", "edge", ("onnxruntime",)),
    Command("fleet", "edge_agent.simulated.cli:app", "Simulate devices by the ten thousand.", "edge", ("httpx",)),
    Command("compile", "compiler.cli:compile_command", "Compile an INT8 ONNX model.", "compiler", ("onnx",)),
    Command("inspect", "compiler.cli:inspect_command", "Show what a bundle holds.", "compiler", ("onnx",)),
    Command("verify", "compiler.cli:verify_command", "Check a bundle's pieces.", "compiler", ("onnx",)),
    Command("compare-perf", "compiler.cli:compare_perf_command", "Compare two bundles' times.", "compiler", ("onnx",)),
    Command("release", "services.releases.cli:app", "Bundles, rollouts, kill switch.", "services", ("fastapi",)),
    Command("audit", "services.releases.audit_cli:app", "Check the audit trail.", "services", ("fastapi",)),
    Command("claims", "services.claims.cli:app", "Wording of release notes.", "services", ("fastapi",)),
    Command("evidence", "services.claims.evidence_cli:app", "Proof of numbers.", "services", ("fastapi",)),
    Command("doctor", "services.operations.doctor_cli:doctor", "Check an installation.", "services", ("fastapi",)),
    Command("backup", "services.operations.backup_cli:app", "Back up, check, restore.", "services", ("fastapi",)),
    Command("retrain", "flows.retrain_cli:retrain", "Learn a better model from hard examples.", "flows", ("torch",)),
    Command("provision", "flows.retrain_cli:provision", "Gate the seed, write the first bundle.", "flows", ("torch",)),
    Command("seed", "flows.cli:seed", "Make the seed models again.", "flows", ("torch",)),
    Command("corpus", "flows.corpus_cli:app", "Videos to learn from: look, pin, check.", "flows", ("torch",)),
    Command("weights", "flows.weights_cli:app", "Weights of perceptual metrics.", "flows", ("torch",)),
    Command("bench", "edgeloop.bench:app", "Measure, and compare with what was promised."),
)


def commands() -> dict[str, Command]:
    """Every command by name: the built-in ones, then those that entry points add or move."""
    known = {command.name: command for command in BUILT_IN}
    for point in entry_points(group=GROUP):
        old = known.get(point.name)
        if old is None or old.target != point.value:
            known[point.name] = Command(point.name, point.value)
    return known
