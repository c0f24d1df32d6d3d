"""Picks the engine at start-up: the fastest one that passes a test made to saturate 16-bit pair sums.

ONNX Runtime's u8 x s8 kernel saturates on x86 CPUs without VNNI (onnxruntime issue 16105), so the test
multiplies 255 by +-127 over many channels, where pairs reach 64,770.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from edge_agent.runtime.npu.engines.base import Engine
from edge_agent.runtime.npu.engines.numpy_engine import NumpyConvolution, NumpyEngine
from edge_agent.runtime.npu.requantize import ConvolutionTensors
from edge_agent.runtime.npu.windows import Window

try:
    from edge_agent.runtime.npu.engines.ort_engine import OrtEngine
except ImportError:  # onnxruntime is not installed: NumPy is enough
    _FAST: tuple[Engine, ...] = ()
else:
    _FAST = (OrtEngine(), OrtEngine(unsigned_weights=True))


class EngineUnknown(ValueError):
    """No engine has this name."""


def passes_self_test(engine: Engine) -> bool:
    """Return whether `engine` gives the exact result where a saturating CPU would not."""
    window = Window(3, 3, pad_top=1, pad_bottom=1, pad_left=1, pad_right=1)
    random = np.random.default_rng(7)
    weights = random.choice(np.array([-127, 127], np.int8), (16, 64, 3, 3))
    weights[:8] = 127
    largest = 255.0 * 127.0 * 9 * 64
    tensors = ConvolutionTensors(
        weights,
        random.integers(-1000, 1000, 16).astype(np.int32),
        np.full(16, 250.0 / largest, np.float32),
        np.zeros(16, np.int8),
    )
    source = random.choice(np.array([0, 255], np.uint8), (8, 8, 64), p=[0.1, 0.9])
    kernel, exact = (candidate.convolution(tensors, window, 0, 3) for candidate in (engine, NumpyEngine()))
    if isinstance(kernel, NumpyConvolution):
        return False  # the engine itself fell back, so it would be slow everywhere
    fast, slow = (np.zeros((8, 8, 16), np.uint8) for _ in range(2))
    kernel.bind(source, fast)()
    exact.bind(source, slow)()
    return np.array_equal(fast, slow)


_CANDIDATES: tuple[Engine, ...] = (*_FAST, NumpyEngine())


@lru_cache(maxsize=1)
def best_engine() -> Engine:
    """Return this process's engine, chosen once; NumPy always passes."""
    return next(engine for engine in _CANDIDATES if isinstance(engine, NumpyEngine) or passes_self_test(engine))


def engine_named(name: str) -> Engine:
    """Return the engine `auto`, `ort`, `ort-u8u8` or `numpy`; raises EngineUnknown."""
    if name == "auto":
        return best_engine()
    for engine in _CANDIDATES:
        if engine.name == name:
            return engine
    raise EngineUnknown(f"no engine {name!r}; engines here: auto, {', '.join(e.name for e in _CANDIDATES)}")
