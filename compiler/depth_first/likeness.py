"""A name for the shape of a run of kernels: equal for runs that differ in names and weights alone.

Nets repeat themselves. What a run of kernels needs in SRAM depends on extents, geometry and who else reads its values,
so the layout of one block answers for all blocks like it. Invariant: everything that a layout looks at is in the name.
Windows are not: a net with windows is never cut.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import fields

import numpy as np

from compiler.ir import Graph, Residual, flat
from compiler.schedule import Kernel, Step

_WORDS = ("name", "origin", "host", "scale", "zero_point", "clamp", "tables")


def likeness(graph: Graph, kernels: Sequence[Kernel], in_sram: Collection[str]) -> Hashable:
    """The shape of these kernels, in which the values of ``in_sram`` lie whole in SRAM."""
    numbers: dict[str, int] = {}
    inside = {step.name for kernel in kernels for step in kernel.steps}
    run = tuple(tuple(_step(step, graph, numbers) for step in kernel.steps) for kernel in kernels)
    return run, tuple(_value(graph, name, inside, name in in_sram) for name in numbers)


def _step(step: Step, graph: Graph, numbers: dict[str, int]) -> Hashable:
    facts = [_fact(getattr(step, entry.name), graph, numbers) for entry in fields(step) if entry.name not in _WORDS]
    return type(step).__name__, bool(getattr(step, "host", "")), tuple(facts)


def _fact(fact: Hashable, graph: Graph, numbers: dict[str, int]) -> Hashable:
    """One field: a value becomes a number, an array its shape."""
    if isinstance(fact, str) and fact in graph.values:
        return numbers.setdefault(fact, len(numbers))
    if isinstance(fact, np.ndarray):
        return tuple(fact.shape)
    if isinstance(fact, Residual):
        return numbers.setdefault(fact.value, len(numbers)), fact.view
    return fact


def _value(graph: Graph, name: str, inside: Collection[str], whole: bool) -> Hashable:
    readers = [step for step in flat(graph.consumers(name)) if name in step.reads]
    elsewhere = any(step.name not in inside for step in readers)
    return graph.values[name].shape, name in graph.inputs, graph.is_output(name), elsewhere, whole
