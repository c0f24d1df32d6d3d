"""The arithmetic page once more, as plain loops over float64: what the assembled nets must give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.edge_agent.runtime.assembler import ADD, ANCHOR, Layer, Net

Bytes = NDArray[np.uint8]


def conv(x: Bytes, layer: Layer, input_zp: int, out_zp: int, low: int = 0, stride: int = 1) -> Bytes:
    """Return a same-padded convolution, requantised and clamped."""
    kernel = layer.weights.shape[2]
    half = kernel // 2
    padded = np.pad(x.astype(np.float64) - input_zp, ((half, half), (half, half), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(0, 1))
    windows = windows[::stride, ::stride]
    total = np.einsum("ywcij,ocij->ywo", windows, layer.weights.astype(np.float64)) + layer.bias
    scaled = np.rint(total.astype(np.float32) * layer.mult)
    return np.clip(scaled.astype(np.float64) + out_zp, low, 255).astype(np.uint8)


def add(a: Bytes, b: Bytes, p: dict[str, Any]) -> Bytes:
    """Return the quantised sum."""
    f = np.float32
    ra, rb = f(p["a_scale"]) / f(p["c_scale"]), f(p["b_scale"]) / f(p["c_scale"])
    inner = f(np.float64(ra) * p["a_zp"] + np.float64(f(rb * f(p["b_zp"]))))
    fixed = f(f(p["c_zp"]) - inner)
    right = (b.astype(np.float64) * np.float64(rb) + np.float64(fixed)).astype(f)
    total = (a.astype(np.float64) * np.float64(ra) + right.astype(np.float64)).astype(f)
    return np.clip(np.rint(total), 0, 255).astype(np.uint8)


def multiply(a: Bytes, b: Bytes, p: dict[str, Any]) -> Bytes:
    """Return the quantised product."""
    f = np.float32
    factor = f(f(p["a_scale"]) * f(p["b_scale"])) / f(p["c_scale"])
    product = (a.astype(np.int64) - p["a_zp"]) * (b.astype(np.int64) - p["b_zp"])
    return np.clip(np.rint(f(product.astype(f) * factor) + f(p["c_zp"])), 0, 255).astype(np.uint8)


def residual_net(net: Net, frame: Bytes) -> Bytes:
    """Return the output of `assembler.residual_net`."""
    height, width, _ = net.size
    half = (height // 2, width // 2)
    s2d = frame.reshape(half[0], 2, half[1], 2, 3).transpose(0, 2, 1, 3, 4).reshape(*half, 12)
    trunk = conv(s2d, net.layers[0], 0, 7, 7)
    for index, (one, two) in enumerate(zip(net.layers[1:-1:2], net.layers[2:-1:2], strict=True)):
        middle = conv(trunk, one, 7, 5, 5)
        trunk = add(conv(middle, two, 5, 119), trunk, ADD)
        assert index >= 0
    tail = conv(trunk, net.layers[-1], 11, 128)
    spread = tail.reshape(*half, 3, 4, 4).transpose(0, 3, 1, 4, 2).reshape(2 * height, 2 * width, 3)
    return add(spread, frame.repeat(2, axis=0).repeat(2, axis=1), ANCHOR)
