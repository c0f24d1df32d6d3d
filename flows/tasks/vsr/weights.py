"""Float weights of one network as a small npz: float16, deterministic bytes, one array per parameter."""

from __future__ import annotations

import io

import numpy as np
import torch

from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.net import VsrNet


def save_net(net: VsrNet) -> bytes:
    """npz bytes of the weights."""
    arrays = {name: value.detach().to(torch.float16).contiguous().numpy() for name, value in net.state_dict().items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def load_net(data: bytes, architecture: Architecture) -> VsrNet:
    """Inverse of `save_net`; weights are promoted to float32."""
    net = VsrNet(architecture)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        net.load_state_dict({name: torch.from_numpy(archive[name].astype(np.float32)) for name in archive.files})
    return net
