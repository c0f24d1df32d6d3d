"""The backends that come with the agent, and how to get one by name."""

from __future__ import annotations

from edge_agent.runtime.backend import Backend, BackendFactory, BackendOptions, make_backend
from edge_agent.runtime.npu_backend import NpuBackend
from edge_agent.runtime.ort_backend import OrtBackend

BUILT_IN: dict[str, BackendFactory] = {"npu": NpuBackend, "onnxruntime": OrtBackend}


def backend(name: str, options: BackendOptions | None = None) -> Backend:
    """Return a new backend without a bundle; raises BackendUnknown."""
    return make_backend(name, options or BackendOptions(), BUILT_IN)
