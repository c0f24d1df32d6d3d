"""Patches as tensors, and the precision that training runs in."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def to_batch(low: np.ndarray, high: np.ndarray) -> tuple[Tensor, Tensor]:
    """uint8 [n, h, w, 3] patches to float channels-last tensors in 0..1."""
    pair = [torch.from_numpy(array).permute(0, 3, 1, 2).to(torch.float32).div_(255.0) for array in (low, high)]
    return pair[0], pair[1]


def autocast() -> torch.autocast:
    """bf16 where the processor computes with it, else nothing."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=_fast_bf16())


def _fast_bf16() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
