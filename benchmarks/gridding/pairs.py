"""Add and Mul over all 65,536 pairs of bytes, for scale triples of every kind: ties, powers of two, extremes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.gridding.case import Case, Count, compare
from benchmarks.gridding.integer_net import IntegerNet
from benchmarks.gridding.runtime import runtime_outputs
from compiler.driver import read_model

SIZE = (256, 256)
Triple = tuple[tuple[float, int], tuple[float, int], tuple[float, int]]


def triples() -> list[Triple]:
    """Scales and zero points of a, b and the result."""
    random = np.random.default_rng(11)
    made: list[Triple] = [
        ((0.02, 0), (0.02, 0), (0.02, 0)),
        ((0.5, 3), (0.25, 255), (0.5, 128)),
        ((1 / 255, 0), (2 / 255, 10), (3 / 255, 120)),
        ((0.1, 128), (0.3, 127), (0.2, 1)),
        ((0.01, 255), (0.001, 0), (0.02, 60)),
    ]
    for _ in range(7):
        scales, zeros = random.uniform(0.002, 0.2, 3), random.integers(0, 256, 3)
        made.append(tuple((float(s), int(z)) for s, z in zip(scales, zeros, strict=True)))  # type: ignore[arg-type]  # three pairs
    return made


def total(operator: str, *, turned: bool = False) -> Count:
    """All triples. ``turned``: the model names first what runs last, and the device adds it in this order all the
    same.
    """
    count = Count()
    for case in cases(operator, turned=turned):
        graph = read_model("model", case.model, [SIZE]).profiles[0].imported
        a, b = np.meshgrid(np.arange(256), np.arange(256), indexing="ij")
        frame = np.stack([a, b], axis=2).astype(np.uint8)
        count += compare(case, graph, frame, runtime_outputs(case.model, graph, frame))
    return count


def cases(operator: str, *, turned: bool = False) -> Iterator[Case]:
    """The two channels of the frame as operands: each is read in a scale of its own."""
    for index, (a, b, c) in enumerate(triples()):
        if operator == "QLinearMul":
            c = (float(np.float32(a[0]) * np.float32(b[0]) * np.float32(90)), c[1])
        net = IntegerNet(index, channels=2)
        for name, channel, facts in (("a", 0, a), ("b", 1, b)):
            net.facts[name] = (np.float32(facts[0]), net.zero(facts[1]))
            _relabel(net, name, channel)
        made = net.two(operator, *(("a", "b") if turned else ("b", "a")), "f", *c)
        yield Case(f"{operator} {a} {b} {c}", net.model(made), SIZE)


def _relabel(net: IntegerNet, name: str, channel: int) -> None:
    """A convolution that picks a channel and keeps every byte under another scale and zero point: the weight scale
    is ys / xs, the bias moves the zero point.
    """
    (old_scale, old_zero), (scale, zero) = net.facts["x"], net.facts[name]
    weights = np.zeros((1, 2, 1, 1), np.int8)
    weights[0, channel] = 1
    operands = [*net.parameters("x"), net.constant(f"{name}.w", weights)]
    operands += [net.constant(f"{name}.ws", np.float32(scale / old_scale)), net.constant(f"{name}.wz", np.int8(0))]
    operands += net.parameters(name)[1:]
    operands.append(net.constant(f"{name}.b", np.asarray([int(old_zero) - int(zero)], np.int32)))
    net.node("QLinearConv", operands, name, kernel_shape=[1, 1])
