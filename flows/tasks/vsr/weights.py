"""Float weights of one network as a small npz: float16, deterministic bytes, architecture inside."""

from __future__ import annotations

import io

import numpy as np
import torch

from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.net import VsrNet


def save_net(net: VsrNet) -> bytes:
    """npz bytes of weights and architecture."""
    arrays = {name: value.detach().to(torch.float16).contiguous().numpy() for name, value in net.state_dict().items()}
    buffer = io.BytesIO()
    architecture = np.frombuffer(net.architecture.to_json().encode(), np.uint8)
    np.savez_compressed(buffer, architecture=architecture, **arrays)
    return buffer.getvalue()


def load_net(data: bytes) -> VsrNet:
    """Inverse of `save_net`; weights are promoted to float32."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        net = VsrNet(Architecture.from_json(bytes(archive["architecture"]).decode()))
        names = [name for name in archive.files if name != "architecture"]
        net.load_state_dict({name: torch.from_numpy(archive[name].astype(np.float32)) for name in names})
    return net
