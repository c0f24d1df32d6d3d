"""Where training runs: on a GPU where there is one, else on the CPU; EDGELOOP_DEVICE says otherwise.

Only the steps of a training run there. Weights come back to the CPU when it ends, however it ends; what is kept,
exported, calibrated and judged is computed on the CPU, so integer results are the same on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from flows.errors import TrainingError

VARIABLE = "EDGELOOP_DEVICE"
CPU = torch.device("cpu")


def training_device() -> torch.device:
    """What EDGELOOP_DEVICE names: auto (the default), cpu, cuda or cuda:N. Raises TrainingError when it is not here."""
    asked = os.environ.get(VARIABLE, "").strip().lower() or "auto"
    if asked == "auto":
        return torch.device("cuda") if torch.cuda.is_available() else CPU
    try:
        device = torch.device(asked)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise TrainingError(f"{VARIABLE}={asked!r} names no device; give auto, cpu, cuda, or cuda:1 for the second GPU")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise TrainingError(
            f"{VARIABLE}={asked}: torch sees {torch.cuda.device_count()} GPUs here; give one of them, cpu or auto"
        )
    return device


@contextmanager
def on_training_device(*modules: nn.Module) -> Iterator[torch.device]:
    """Modules lie on the training device while this lasts, and on the CPU again afterwards.

    Convolutions of a GPU keep all bits of float32 meanwhile: torch lets cuDNN round to TF32 (10 bits), which moves what
    fake quantisation rounds away from what the integers will be.
    """
    device, rounded = training_device(), torch.backends.cudnn.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32 = False
        for module in modules:
            module.to(device)
        yield device
    finally:
        torch.backends.cudnn.allow_tf32 = rounded
        for module in modules:
            module.to(CPU)
