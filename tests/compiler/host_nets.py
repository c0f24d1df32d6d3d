"""Models with the operators of the domain ``edgeloop``, which run on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper

from tests.compiler.qdq_nets import Net


def registry(net: Net, operator: str, inputs: list[str], output: str, **attributes: object) -> str:
    """A node of the domain ``edgeloop``."""
    name = f"{output}_{operator}"
    net.nodes.append(helper.make_node(operator, inputs, [output], name=name, domain="edgeloop", **attributes))
    return output


def with_domain(model: bytes) -> bytes:
    """The model with the domain's opset."""
    proto = onnx.load_model_from_string(model)
    proto.opset_import.append(helper.make_opsetid("edgeloop", 1))
    return bytes(proto.SerializeToString(deterministic=True))


def deformable_alignment(offset_scale: float = 0.05) -> bytes:
    """3x3 over the frame, offsets made by a convolution."""
    net = Net()
    offsets = net.features("offsets", 18, offset_scale, 128)
    random = np.random.default_rng(4)
    scale = random.uniform(0.002, 0.004, 5).astype(np.float32)
    parts = [
        net.constant("w_q", random.integers(-127, 128, (5, 4, 3, 3), dtype=np.int8)),
        net.constant("w_s", scale),
        net.constant("w_z", np.zeros(5, np.int8)),
    ]
    weights = net.node("DequantizeLinear", parts, "w", axis=0)
    bias = net.constant("bias", random.normal(0, 0.2, 5).astype(np.float32))
    made = registry(net, "DeformableAlignment", [net.frame, offsets, weights, bias], "f")
    return with_domain(net.done(made, 0.05, 120, 5))


def dynamic_upsampling(scale: int = 2) -> bytes:
    net = Net()
    filters = net.features("filters", 9 * scale**2, 0.01, 120)
    made = registry(net, "DynamicUpsampling", [net.frame, filters], "f", kernel=3, scale=scale)
    return with_domain(net.done(made, 0.05, 128))


def linear_temporal_attention(frames: int = 3) -> bytes:
    net = Net()
    memory = net.features("memory", 2 * frames * 4, 0.03, 110)
    made = registry(net, "LinearTemporalAttention", [net.frame, memory], "f")
    return with_domain(net.done(made, 0.02, 117))


def global_motion_warp() -> bytes:
    net = Net()
    a = net.features("a", 6)
    mean = net.quantize(net.node("GlobalAveragePool", [a], "mean"), 0.004, 128, 6)
    made = registry(net, "GlobalMotionWarp", [net.frame, mean], "f")
    return with_domain(net.done(made, 0.02, 120))


HOST: Mapping[str, Callable[[], bytes]] = {
    "deformable alignment": deformable_alignment,
    "deformable alignment, far offsets": lambda: deformable_alignment(0.4),
    "dynamic upsampling": dynamic_upsampling,
    "dynamic upsampling x3": lambda: dynamic_upsampling(3),
    "linear temporal attention": linear_temporal_attention,
    "global motion warp": global_motion_warp,
}
