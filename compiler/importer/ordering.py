"""Nodes in execution order; names defined once, read names defined, no cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from compiler.errors import BrokenModel
from compiler.importer.source import SourceNode

_EXPORT = "export the model again"


def ordered(nodes: list[SourceNode], known: set[str], outputs: list[str]) -> tuple[SourceNode, ...]:
    """The nodes sorted by what they read; ``known`` are names that no node has to make."""
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in producer or name in known:
                raise BrokenModel(node.name, f"tensor {name} is defined twice", _EXPORT)
            producer[name] = index
    missing = next((o for o in outputs if o not in producer), None)
    if missing is not None:
        raise BrokenModel(missing, "no node makes this output", _EXPORT)
    waiting, readers = _edges(nodes, producer, known)
    ready = deque(index for index, count in enumerate(waiting) if count == 0)
    order: list[SourceNode] = []
    while ready:
        index = ready.popleft()
        order.append(nodes[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) != len(nodes):
        stuck = next(nodes[index].name for index, count in enumerate(waiting) if count)
        raise BrokenModel(stuck, "the graph has a cycle through this node", _EXPORT)
    return tuple(order)


def _edges(nodes: list[SourceNode], producer: Mapping[str, int], known: set[str]) -> tuple[list[int], list[list[int]]]:
    waiting = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for name in filter(None, node.inputs):
            if name in known:
                continue
            if name not in producer:
                raise BrokenModel(node.name, f"reads tensor {name}, which nothing makes", _EXPORT)
            readers[producer[name]].append(index)
            waiting[index] += 1
    return waiting, readers
