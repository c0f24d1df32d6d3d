"""QLinearConv: per channel x bias x zero point x weights' type x pads x stride x kernel, and groups with dilation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks.gridding.case import Case
from benchmarks.gridding.integer_net import IntegerNet

KERNELS = ((1, 1), (2, 3), (3, 3), (5, 4))
PADS = ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 3))
STRIDES = ((1, 1), (2, 1), (3, 2))
ZEROS = (0, 77, 255)
SIZE = (9, 11)


def cases() -> Iterator[Case]:
    """The whole grid."""
    flags = [False, True]
    grid = itertools.product(flags, flags, flags, ZEROS, PADS, STRIDES, KERNELS)
    for number, (per_channel, bias, unsigned, zero, pads, strides, kernel) in enumerate(grid):
        net = IntegerNet(number)
        net.conv(
            "x",
            "f",
            5,
            per_channel=per_channel,
            bias=bias,
            unsigned_weights=unsigned,
            zero=zero,
            pads=pads,
            strides=strides,
            kernel=kernel,
        )
        name = f"conv {number}: {per_channel=} {bias=} {unsigned=} {zero=} {pads=} {strides=} {kernel=}"
        yield Case(name, net.model("f"), SIZE)
    yield from _grouped()


def _grouped() -> Iterator[Case]:
    for number, (groups, dilations, signed) in enumerate(
        itertools.product((2, 4), ((1, 1), (2, 1), (1, 3)), (False, True))
    ):
        net = IntegerNet(9000 + number, signed=signed)
        net.conv("x", "f", 8, groups=groups, dilations=dilations, pads=(2, 1, 1, 3))
        yield Case(f"conv {groups=} {dilations=} {signed=}", net.model("f"), SIZE)
