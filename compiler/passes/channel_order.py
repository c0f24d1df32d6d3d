"""Fold a channel order into the weights of a convolution before or behind it.

DepthToSpace in DCR order and PixelUnshuffle are CRD and ONNX order with a permutation of channels; a permutation of
output channels is a permutation of weights, bias and scales, one of input channels a permutation of the kernel's
depth. Promise: a Permute is left only where no private convolution stands beside it, and the edge says why.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from compiler.ir import PLAIN, Clip, Conv, Graph, Operator, Permute, Pool, Table
from compiler.passes.base import PassResult, Unfused

Link = Conv | Clip | Table | Pool


class ChannelOrder:
    """Conv -> Permute, or Permute -> Conv, becomes one Conv."""

    name = "channel-order"

    def requires(self, graph: Graph) -> str | None:
        """Runs before layouts are sunk: no convolution writes through one yet."""
        moved = [op.name for op in graph.operators if isinstance(op, Conv) and (op.write != PLAIN or op.residual)]
        return f"{moved[0]} already writes through a layout or adds" if moved else None

    def run(self, graph: Graph) -> PassResult:
        """Behind a convolution if possible, else before one."""
        changes: list[str] = []
        unfused: list[Unfused] = []
        for permute in [op for op in graph.operators if isinstance(op, Permute)]:
            if not _before(graph, permute):
                graph = _into_producer(graph, permute)
            elif not _behind(graph, permute):
                graph = _into_readers(graph, permute)
            else:
                reason = f"{_before(graph, permute)}; {_behind(graph, permute)}"
                unfused.append(Unfused(permute.source, permute.name, reason))
                continue
            changes.append(f"{permute.name} folded")
        return PassResult(graph, tuple(changes), tuple(unfused))

    def ensures(self, graph: Graph) -> str | None:
        """No Permute that could fold is left."""
        left = [op for op in graph.operators if isinstance(op, Permute)]
        for permute in left:
            if not _before(graph, permute) or not _behind(graph, permute):
                return f"{permute.name} could still fold"
        return None


def _chain(graph: Graph, permute: Permute) -> list[Link]:
    """The convolution that makes the source and what follows it channel by channel, last first; empty when there is
    none.
    """
    chain: list[Link] = []
    value = permute.source
    while isinstance(producer := graph.producer(value), Conv | Clip | Table | Pool):
        chain.append(producer)
        if isinstance(producer, Conv):
            return chain
        value = producer.source
    return []


def _before(graph: Graph, permute: Permute) -> str | None:
    chain = _chain(graph, permute)
    if not chain:
        return f"no convolution makes {permute.source}"
    conv = chain[-1]
    if isinstance(conv, Conv) and conv.groups != 1:
        return f"{conv.name} has groups"
    for operator, reader in zip(chain, [permute, *chain], strict=False):
        if not graph.private_to(operator.result, reader):
            return f"{operator.result} has another reader"
        if graph.values[operator.result].window is not None:
            return f"{operator.result} is part of another map"
    return None


def _behind(graph: Graph, permute: Permute) -> str | None:
    if graph.is_output(permute.result):
        return f"{permute.result} is an output"
    for reader in graph.consumers(permute.result):
        if len(set(permute.order)) != len(permute.order):
            return "it selects a channel twice"
        if not isinstance(reader, Conv) or reader.groups != 1 or reader.read != PLAIN:
            return f"{reader.name} is no plain convolution of all channels"
    return None


def _into_producer(graph: Graph, permute: Permute) -> Graph:
    order = list(permute.order)
    values = dict(graph.values)
    replaced: dict[int, Operator] = {}
    for index, operator in enumerate(_chain(graph, permute)):
        values[operator.result] = replace(values[operator.result], channels=len(order))
        ordered = _ordered(operator, order)
        if index == 0:
            ordered = replace(ordered, result=permute.result, origin=(*operator.origin, *permute.origin))
        replaced[id(operator)] = ordered
    operators = [replaced.get(id(op), op) for op in graph.operators if op is not permute]
    return replace(graph, values=values).with_operators(operators)


def _ordered(operator: Link, order: list[int]) -> Link:
    if isinstance(operator, Conv):
        return replace(
            operator,
            weights=np.ascontiguousarray(operator.weights[order]),
            weight_scale=operator.weight_scale[order],
            weight_zero_point=operator.weight_zero_point[order],
            bias=operator.bias[order],
        )
    if isinstance(operator, Table) and len(operator.tables) > 1:
        return replace(operator, tables=np.ascontiguousarray(operator.tables[order]))
    return operator


def _into_readers(graph: Graph, permute: Permute) -> Graph:
    """Weights of the channels in source order; channels that are not selected weigh nothing."""
    operators: list[Operator] = []
    for operator in graph.operators:
        if operator is permute:
            continue
        if isinstance(operator, Conv) and operator.source == permute.result:
            origin = (*permute.origin, *operator.origin)
            weights = _depth_ordered(operator, permute, graph.values[permute.source].channels)
            operator = replace(operator, source=permute.source, weights=weights, origin=origin)
        operators.append(operator)
    return graph.with_operators(operators)


def _depth_ordered(conv: Conv, permute: Permute, channels: int) -> npt.NDArray[np.int8]:
    outputs, _, height, width = conv.weights.shape
    unused = np.broadcast_to(conv.weight_zero_point[:, None, None, None], (outputs, channels, height, width))
    weights = unused.astype(np.int8)
    weights[:, list(permute.order)] = conv.weights
    return np.ascontiguousarray(weights)
