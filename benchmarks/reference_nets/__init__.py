"""The five residual x2 video super-resolution nets that the benches and the peers run: random weights, real shapes.

`shape.py` says what they are, `quantized.py` draws and calibrates them, `qdq.py`, `qoperator.py` write them as ONNX.
Invariant: the same name and seed give the same bytes, and every form holds the same integers.
"""

from __future__ import annotations

from benchmarks.reference_nets.frames import smooth_frame
from benchmarks.reference_nets.qdq import qdq_model
from benchmarks.reference_nets.qoperator import qoperator_model
from benchmarks.reference_nets.quantized import QuantizedNet, narrowed, quantized_net
from benchmarks.reference_nets.shape import NETS, ConvShape, NetShape, net_named

__all__ = [
    "NETS",
    "ConvShape",
    "NetShape",
    "QuantizedNet",
    "narrowed",
    "net_named",
    "qdq_model",
    "qoperator_model",
    "quantized_net",
    "smooth_frame",
]
