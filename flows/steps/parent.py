"""The model that a run starts from."""

from __future__ import annotations

from torch import nn

from flows.steps.context import RunContext


def parent_network(run: RunContext) -> nn.Module:
    """The production network in float: its own weights when they were kept, else the supernet's slice."""
    if run.parent.weights is not None:
        return run.task.load(run.parent.weights.read_bytes())
    return run.task.load_supernet(run.parent.supernet).extract(run.parent.architecture)
