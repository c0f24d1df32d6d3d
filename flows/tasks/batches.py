"""Patches as tensors, and the precision that training runs in."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flows.tasks.device import CPU


def to_batch(low: np.ndarray, high: np.ndarray, device: torch.device = CPU) -> tuple[Tensor, Tensor]:
    """uint8 [n, h, w, 3] patches to float channels-last tensors in 0..1."""
    moved = [torch.from_numpy(array).to(device) for array in (low, high)]
    pair = [array.permute(0, 3, 1, 2).to(torch.float32).div_(255.0) for array in moved]
    return pair[0], pair[1]


def autocast(device: torch.device = CPU) -> torch.autocast:
    """bf16 where the processor or the GPU computes with it, else nothing."""
    fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else _fast_bf16()
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=fast)


def _fast_bf16() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
