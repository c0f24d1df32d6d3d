"""The model that a run starts from."""

from __future__ import annotations

from flows.steps.context import RunContext
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import load_supernet
from flows.tasks.vsr.weights import load_net


def parent_network(run: RunContext) -> VsrNet:
    """The production network in float: its own weights when they were kept, else the supernet's slice."""
    if run.parent.weights is not None:
        return load_net(run.parent.weights.read_bytes())
    return load_supernet(run.parent.supernet).extract(run.parent.architecture)
