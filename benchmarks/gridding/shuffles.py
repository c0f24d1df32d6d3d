"""DepthToSpace and SpaceToDepth between two integer convolutions: blocksize 1-4 x Cout 1-4 x order x spelling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from benchmarks.gridding.case import Case
from benchmarks.gridding.integer_net import IntegerNet

BLOCKS = CHANNELS = (1, 2, 3, 4)


def cases() -> Iterator[Case]:
    """The whole grid."""
    for block, channels, order in itertools.product(BLOCKS, CHANNELS, ("CRD", "DCR")):
        for spelled in (False, True):
            yield _case("depth-to-space", block, channels, order, spelled)
        yield _case("space-to-depth", block, channels, order, spelled=order == "CRD")
        if order == "DCR":
            yield _case("space-to-depth", block, channels, order, spelled=True)


def _case(operator: str, block: int, channels: int, order: str, spelled: bool) -> Case:
    name = f"{operator} {order} blocksize {block}, {channels} channels{', spelled' if spelled else ''}"
    net = IntegerNet([block, channels, order == "CRD", spelled][0] * 100 + channels)
    size = (4 * block, 6 * block) if operator == "space-to-depth" else (4, 6)
    before = channels if operator == "space-to-depth" else channels * block**2
    after = channels * block**2 if operator == "space-to-depth" else channels
    net.conv("x", "a", before)
    real = net.node("DequantizeLinear", net.parameters("a"), "a_real")
    moved = (
        _spelled(net, real, operator, block, channels, order, size)
        if spelled
        else _named(net, real, operator, block, order)
    )
    net.facts["m"] = net.facts["a"]
    net.node("QuantizeLinear", [moved, *net.parameters("m")[1:]], "m")
    return Case(name, net.model(net.conv("m", "f", 3, inputs=after)), size)


def _named(net: IntegerNet, source: str, operator: str, block: int, order: str) -> str:
    if operator == "space-to-depth":
        return net.node("SpaceToDepth", [source], "moved", blocksize=block)
    return net.node("DepthToSpace", [source], "moved", blocksize=block, mode=order)


def _spelled(
    net: IntegerNet, source: str, operator: str, block: int, channels: int, order: str, size: tuple[int, int]
) -> str:
    height, width = size
    if operator == "depth-to-space":
        crd = order == "CRD"
        first = [1, channels, block, block, height, width] if crd else [1, block, block, channels, height, width]
        turn = [0, 1, 4, 2, 5, 3] if crd else [0, 3, 4, 1, 5, 2]
        last = [1, channels, height * block, width * block]
    else:
        first = [1, channels, height // block, block, width // block, block]
        turn = [0, 1, 3, 5, 2, 4] if order == "CRD" else [0, 3, 5, 1, 2, 4]
        last = [1, channels * block**2, height // block, width // block]
    value = net.node("Reshape", [source, net.constant("first", np.asarray(first, np.int64))], "r1")
    value = net.node("Transpose", [value], "turned", perm=turn)
    return net.node("Reshape", [value, net.constant("last", np.asarray(last, np.int64))], "moved")
