"""White-box refinement: bend a picture until its own codes are those that were sent.

The start is a decoder's picture. Cells that came without an order are given to places by the best assignment under the
present picture, anew every few steps. The picture may not wander far from the start and must stay smooth; otherwise
the search ends in noise that has the right codes.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from benchmarks.inverting.attacks import as_frames, as_pictures, enlarged
from benchmarks.inverting.victim import Codes, OpenNet
from flows.data.clips import Frames

STEPS, EVERY = 60, 10
RATE, STAY, SMOOTH = 0.01, 0.2, 0.02


def refined(net: OpenNet, start: Frames, upload: Codes, ordered: bool) -> Frames:
    """Better pictures [n, 256, 256, 3] for uploads (n, 8, 8, 16) of their last frames."""
    first = torch.nn.functional.avg_pool2d(as_pictures(start), 4)
    small = first.clone().requires_grad_(True)
    wanted = torch.from_numpy(upload.reshape(len(upload), -1, upload.shape[-1])).float() / 15.0
    optimiser = torch.optim.Adam([small], lr=RATE)
    target = wanted
    for step in range(STEPS):
        found = net.codes(enlarged(small).clamp(0.0, 1.0)).flatten(2).transpose(1, 2)
        if step % EVERY == 0 and not ordered:
            target = torch.stack([_assigned(f, w) for f, w in zip(found.detach(), wanted, strict=True)])
        loss = (found - target).square().mean() + STAY * (small - first).square().mean() + SMOOTH * _rough(small)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return as_frames(enlarged(small.detach()))


def _assigned(found: Tensor, cells: Tensor) -> Tensor:
    cost = torch.cdist(found, cells).square().numpy()
    _, order = linear_sum_assignment(cost)
    return cells[torch.from_numpy(np.asarray(order))]


def _rough(small: Tensor) -> Tensor:
    return small.diff(dim=2).square().mean() + small.diff(dim=3).square().mean()
