"""One QLinearConv, for tests that break it."""

from __future__ import annotations

from benchmarks.gridding.integer_net import IntegerNet


def integer_conv() -> bytes:
    """4 to 4 channels, 3x3, extents kept; output ``y``."""
    net = IntegerNet(1)
    return net.model(net.conv("x", "f", 4))
