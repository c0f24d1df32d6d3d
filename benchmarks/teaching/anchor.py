"""The hand-made C16 N6 network trained from scratch within a number of CPU seconds: the bench's fixed point.

Batches of 8 patches of 64 x 64 low-resolution pixels, L1, Adam with warm-up and cosine, moving average of the weights,
bf16 autocast and channels-last memory, one thread. A run that was killed goes on from its checkpoint.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.teaching.material import training_set
from benchmarks.teaching.plain import CHANNELS, LAYERS, PlainNet
from flows.tasks.batches import autocast, to_batch
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of

BATCH, PATCH, RATE = 8, 64, 2e-3
DAYS = 30 * 86_400.0
"""Wall time is no limit: a run may be stopped for long."""


def train_anchor(seed: int, budget_cpu_s: float, folder: Path, progress: Progress | None = None) -> Path:
    """Train C16 N6 and return the path of its state dict (`torch.save`), `folder/anchor-seed<seed>.pt`.

    Beside it lies a JSON file with iterations, CPU seconds, loss and settings. What is there already is returned; a
    run that was killed goes on. Raises CorpusError when the recordings are missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights, record = folder / f"anchor-seed{seed}.pt", folder / f"anchor-seed{seed}.json"
    if weights.is_file() and record.is_file():
        return weights
    pairs = training_set()
    torch.manual_seed(seed)
    net = PlainNet()
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stub lacks the keyword-only form
    loop = Loop(
        parameters_of(net),
        Budget(seconds=budget_cpu_s, wall_seconds=DAYS),
        rate=RATE,
        checkpoint=folder / f"anchor-seed{seed}.checkpoint",
        progress=progress,
        random=np.random.default_rng(seed),
    )

    def loss_of(_step: int, _share: float) -> Tensor:
        low, high = to_batch(*pairs.patches(BATCH, PATCH, loop.random))
        with autocast():
            output = net(low)
        return F.l1_loss(output.float(), high)

    started = time.process_time()
    with one_thread():
        loss = loop.run(loss_of)
    loop.use_average()
    described = {
        "channels": CHANNELS, "layers": LAYERS, "parameters": net.parameter_count(), "seed": seed,
        "iterations": loop.step, "cpu_seconds": round(loop.cpu_seconds, 1),
        "process_cpu_seconds_of_the_last_process": round(time.process_time() - started, 1),
        "loss": loss, "batch": BATCH, "patch": PATCH, "rate": RATE, "torch": torch.__version__,
        "training_pairs": len(pairs.pairs),
    }  # fmt: skip
    _write(weights, net)
    record.write_text(json.dumps(described, indent=1) + "\n")
    (folder / f"anchor-seed{seed}.checkpoint").unlink(missing_ok=True)
    return weights


def load_anchor(path: Path) -> PlainNet:
    """The network of a state dict that `train_anchor` wrote."""
    net = PlainNet()
    net.load_state_dict(torch.load(path, weights_only=True))
    return net


def _write(path: Path, net: PlainNet) -> None:
    temporary = path.with_suffix(".part")
    torch.save({name: value.contiguous() for name, value in net.state_dict().items()}, temporary)
    temporary.replace(path)
