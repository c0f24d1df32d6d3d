"""Host functions that read between pixels: deformable alignment, dynamic upsampling, global motion warp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.operators.base import Operands
from edge_agent.runtime.npu.operators.host.attention import centred, rescaled
from edge_agent.runtime.npu.weights import convolution_tensors

Integers = NDArray[np.int64]
_UNIT = 32  # positions are counted in 1/32 pixel


def deformable_alignment(command: Command, operands: Operands) -> NDArray[np.float32]:
    """Return a convolution whose taps are moved by per-pixel offsets."""
    features, offsets = operands.both(command)
    window, scales = command.window, command.addition
    tensors = convolution_tensors(command, operands.constants or operands.fetch())
    image = centred(features, scales.a_zero_point)
    moved = centred(offsets, scales.b_zero_point).astype(np.float64) * np.float64(np.float32(scales.b_scale))
    shift = np.rint(moved * _UNIT).astype(np.int64)
    weights = tensors.weights.astype(np.int64) - tensors.weight_zero_point.astype(np.int64)[:, None, None, None]
    rows, cols = np.indices(features.shape[:2])
    total = np.zeros((*features.shape[:2], len(weights)), np.int64) + 1024 * tensors.bias.astype(np.int64)
    for tap in range(window.kernel_height * window.kernel_width):
        ky, kx = divmod(tap, window.kernel_width)
        y = _UNIT * (rows - window.pad_top + ky * window.dilation_height) + shift[:, :, 2 * tap]
        x = _UNIT * (cols - window.pad_left + kx * window.dilation_width) + shift[:, :, 2 * tap + 1]
        total += _sample(image, y, x) @ weights[:, :, ky, kx].T
    scaled = np.rint(total.astype(np.float32) * (tensors.multiplier / np.float32(1024)))
    codes: NDArray[np.float32] = scaled + np.float32(command.output_zero_point)
    return codes


def dynamic_upsampling(command: Command, operands: Operands) -> NDArray[np.float32]:
    """Return the source filtered, for each of scale x scale results, by a filter of its own."""
    features, filters = operands.both(command)
    window, scales = command.window, command.addition
    height, width, channels = features.shape
    scale = window.stride_height
    taps = window.kernel_height * window.kernel_width
    image = np.pad(
        centred(features, scales.a_zero_point),
        ((window.pad_top, window.kernel_height), (window.pad_left, window.kernel_width), (0, 0)),
    )
    weights = centred(filters, scales.b_zero_point).reshape(height, width, taps, scale, scale)
    total = np.zeros((height, scale, width, scale, channels), np.int64)
    for tap in range(taps):
        ky, kx = divmod(tap, window.kernel_width)
        part = image[ky : ky + height, kx : kx + width]
        total += weights[:, :, tap].transpose(0, 2, 1, 3)[..., None] * part[:, None, :, None, :]
    return rescaled(command, total.reshape(height * scale, width * scale, channels))


def motion_warp(command: Command, operands: Operands) -> NDArray[np.float32]:
    """Return the source seen through one affine motion of the whole image."""
    features, motion = operands.both(command)
    scales = command.addition
    m = centred(motion, scales.b_zero_point).reshape(-1)[:6].astype(np.float64)
    m *= np.float64(np.float32(scales.b_scale))
    rows, cols = np.indices(features.shape[:2])
    down = np.rint(_UNIT * (m[0] * cols + m[1] * rows + m[2])).astype(np.int64)
    along = np.rint(_UNIT * (m[3] * cols + m[4] * rows + m[5])).astype(np.int64)
    sample = _sample(centred(features, scales.a_zero_point), _UNIT * rows + down, _UNIT * cols + along)
    ratio = np.float32(scales.a_scale) / np.float32(scales.c_scale) / np.float32(1024)
    codes: NDArray[np.float32] = np.rint(sample.astype(np.float32) * ratio) + np.float32(scales.c_zero_point)
    return codes


def _sample(image: Integers, y: Integers, x: Integers) -> Integers:
    """Return 1024 times the image at positions in 1/32 pixel; outside it is 0."""
    top, fy, left, fx = y >> 5, y & 31, x >> 5, x & 31
    total = np.zeros((*y.shape, image.shape[2]), np.int64)
    for row, tall in ((top, _UNIT - fy), (top + 1, fy)):
        for col, wide in ((left, _UNIT - fx), (left + 1, fx)):
            inside = (row >= 0) & (row < image.shape[0]) & (col >= 0) & (col < image.shape[1])
            pixels = image[np.where(inside, row, 0), np.where(inside, col, 0)]
            total += (tall * wide * inside)[..., None] * pixels
    return total
