"""Random-weight ONNX models in the QDQ form that the learning flow exports, for tests of every part.

Same arguments, same bytes. Weights are drawn so that activations keep a healthy spread through the net;
accuracy is meaningless, arithmetic and shapes are real."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.float32]


class QdqBuilder:
    """Builds one QDQ graph node by node. A tensor is named by its float name; its scale is remembered."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.scales: dict[str, np.float32] = {}
        self.channels: dict[str, int] = {}

    def constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        """An initializer."""
        self.constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        """One node with one output."""
        name = f"{output}_{operator}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=name, **attributes))
        return output

    def quantize(self, tensor: str, scale: float, zero_point: int, channels: int, output: str | None = None) -> str:
        """QuantizeLinear and DequantizeLinear at uint8; the dequantized tensor's name."""
        final = output or f"{tensor}_dq"
        scale32 = np.float32(scale)
        s = self.constant(f"{final}_scale", np.asarray(scale32))
        z = self.constant(f"{final}_zero_point", np.asarray(zero_point, np.uint8))
        self.node("QuantizeLinear", [tensor, s, z], f"{final}_q")
        self.node("DequantizeLinear", [f"{final}_q", s, z], final)
        self.scales[final] = scale32
        self.channels[final] = channels
        return final

    def conv(
        self,
        source: str,
        name: str,
        outputs: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        pads: tuple[int, int, int, int] | None = None,
        groups: int = 1,
        gain: float = 1.0,
        bias: bool = True,
    ) -> str:
        """A convolution with int8 per-channel weights and int32 bias; ``pads`` is top, left, bottom, right."""
        inputs = self.channels[source] // groups
        fan_in = inputs * kernel * kernel
        weights = self.random.normal(0, gain / np.sqrt(fan_in), (outputs, inputs, kernel, kernel))
        scale = (np.abs(weights).reshape(outputs, -1).max(axis=1) / 127).astype(np.float32)
        quantized = np.clip(np.rint(weights / scale[:, None, None, None]), -127, 127).astype(np.int8)
        self.constant(f"{name}_weight", quantized)
        self.constant(f"{name}_weight_scale", scale)
        self.constant(f"{name}_weight_zero_point", np.zeros(outputs, np.int8))
        operands = [source, f"{name}_weight_dq"]
        self.node(
            "DequantizeLinear",
            [f"{name}_weight", f"{name}_weight_scale", f"{name}_weight_zero_point"],
            f"{name}_weight_dq",
            axis=0,
        )
        if bias:
            operands.append(self._bias(source, name, scale))
        half = kernel // 2
        self.channels[name] = outputs
        return self.node(
            "Conv",
            operands,
            name,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=list(pads or (half, half, half, half)),
            dilations=[1, 1],
            group=groups,
        )

    def _bias(self, source: str, name: str, weight_scale: Floats) -> str:
        scale = (self.scales[source] * weight_scale).astype(np.float32)
        values = np.rint(self.random.normal(0, 0.05, len(scale)) / scale).astype(np.int32)
        self.constant(f"{name}_bias", values)
        self.constant(f"{name}_bias_scale", scale)
        self.constant(f"{name}_bias_zero_point", np.zeros(len(scale), np.int32))
        parts = [f"{name}_bias", f"{name}_bias_scale", f"{name}_bias_zero_point"]
        return self.node("DequantizeLinear", parts, f"{name}_bias_dq", axis=0)

    def model(self, inputs: dict[str, Sequence[object]], outputs: dict[str, Sequence[object]]) -> bytes:
        """The serialized model; shapes may hold names for dynamic axes."""
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in outputs.items()],
            list(self.constants.values()),
        )
        opset = helper.make_opsetid("", 18)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="edgeloop")
        model.ir_version = 9
        return bytes(model.SerializeToString(deterministic=True))


def vsr_qdq(
    channels: int = 16,
    mid: int = 16,
    blocks: int = 2,
    kernel: int | Sequence[int] = 3,
    seed: int = 0,
    space_to_depth: int = 2,
) -> bytes:
    """Residual x2 super-resolution net: x [1,3,H,W] -> y [1,3,2H,2W]; ``kernel`` may differ for each block."""
    b = QdqBuilder(seed)
    kernels = [kernel] * blocks if isinstance(kernel, int) else list(kernel)
    depth = space_to_depth
    image = b.quantize("x", 1 / 255, 0, 3)
    b.node("SpaceToDepth", [image], "s2d", blocksize=depth)
    trunk = b.quantize("s2d", 1 / 255, 0, 3 * depth * depth)
    b.conv(trunk, "head", channels, gain=2.0)
    trunk = b.quantize(b.node("Relu", ["head"], "head_relu"), 0.008, 0, channels)
    for index in range(blocks):
        trunk = _residual_block(b, trunk, f"block{index}", channels, mid, kernels[index])
    b.conv(trunk, "tail", 3 * (2 * depth) ** 2, gain=0.3)
    tail = b.quantize("tail", 0.004, 128, 3 * (2 * depth) ** 2)
    b.node("DepthToSpace", [tail], "shuffled", blocksize=2 * depth, mode="CRD")
    shuffled = b.quantize("shuffled", 0.004, 128, 3)
    scales = b.constant("anchor_scales", np.array([1, 1, 2, 2], np.float32))
    b.node(
        "Resize",
        [image, "", scales],
        "anchor",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    anchor = b.quantize("anchor", 1 / 255, 0, 3)
    b.node("Add", [shuffled, anchor], "sum")
    b.quantize("sum", 1 / 255, 0, 3, output="y")
    return b.model({"x": [1, 3, "height", "width"]}, {"y": [1, 3, "height2", "width2"]})


def recurrent_qdq(
    pool: int = 4, dims: tuple[str, str] | None = None, follows: str = "history_next", factor: int = 1
) -> bytes:
    """x [1,3,H,W] and history [1,8,H/pool,W/pool] -> y, and the features that the next frame reads."""
    b = QdqBuilder(3)
    image = b.quantize("x", 1 / 255, 0, 3)
    b.conv(image, "features", 8, gain=2.0)
    features = b.quantize(b.node("Relu", ["features"], "features_relu"), 0.02, 0, 8)
    history = b.quantize("history", 0.02, 0, 8)
    scales = b.constant("up", np.array([1, 1, pool, pool], np.float32))
    b.node("Resize", [history, "", scales], "large", mode="nearest", coordinate_transformation_mode="asymmetric",
           nearest_mode="floor")  # fmt: skip
    large = b.quantize("large", 0.02, 0, 8)
    b.node("Concat", [features, large], "joined", axis=1)
    joined = b.quantize("joined", 0.02, 0, 16)
    b.conv(joined, "fused", 3 * factor * factor)
    if factor > 1:
        fused = b.quantize("fused", 0.02, 128, 3 * factor * factor)
        b.node("DepthToSpace", [fused], "shuffled", blocksize=factor, mode="CRD")
    b.quantize("shuffled" if factor > 1 else "fused", 0.02, 128, 3, output="y")
    b.node("AveragePool", [features], "pooled", kernel_shape=[pool, pool], strides=[pool, pool])
    b.quantize("pooled", 0.02, 0, 8, output=follows)
    inputs = {"x": [1, 3, "h", "w"], "history": [1, 8, *(dims or (f"h/{pool}", f"w/{pool}"))]}
    outputs = {"y": [1, 3, "height2", "width2"], follows: [1, 8, "a", "b"]}
    return b.model(inputs, outputs)


def _residual_block(b: QdqBuilder, trunk: str, name: str, channels: int, mid: int, kernel: int) -> str:
    b.conv(trunk, f"{name}_a", mid, kernel, gain=1.5)
    inner = b.quantize(b.node("Relu", [f"{name}_a"], f"{name}_relu"), 0.006, 0, mid)
    b.conv(inner, f"{name}_b", channels, kernel, gain=0.7)
    inner = b.quantize(f"{name}_b", 0.01, 120, channels)
    b.node("Add", [trunk, inner], f"{name}_add")
    return b.quantize(f"{name}_add", 0.011, 100, channels)


def quality_qdq(seed: int = 0) -> bytes:
    """Quality net: x [1,3,H,W] -> features [1,16,h,w] and embedding [1,256,h,w] with h = ceil(H / 32)."""
    b = QdqBuilder(seed)
    value = b.quantize("x", 1 / 255, 0, 3)
    widths = (8, 16, 24, 32, 16)
    for index, width in enumerate(widths):
        b.conv(value, f"stage{index}", width, stride=2, gain=2.0)
        relu = b.node("Relu", [f"stage{index}"], f"stage{index}_relu")
        output = "features" if index == len(widths) - 1 else None
        value = b.quantize(relu, 0.01, 0, width, output=output)
    b.conv(value, "embed", 256, kernel=1, gain=2.0)
    b.quantize(b.node("Relu", ["embed"], "embed_relu"), 0.012, 0, 256, output="embedding")
    shape = [1, 3, "height", "width"]
    return b.model({"x": shape}, {"features": [1, 16, "h", "w"], "embedding": [1, 256, "h", "w"]})


def single_conv_qdq(
    inputs: int = 16, outputs: int = 16, kernel: int = 3, seed: int = 0, *, stride: int = 1, relu: bool = True
) -> bytes:
    """One convolution, as the operator table of the architecture search compiles by the hundred."""
    b = QdqBuilder(seed)
    source = b.quantize("x", 1 / 255, 0, inputs)
    b.conv(source, "conv", outputs, kernel, stride=stride)
    result = b.node("Relu", ["conv"], "relu") if relu else "conv"
    b.quantize(result, 0.01, 0 if relu else 128, outputs, output="y")
    return b.model({"x": [1, inputs, "height", "width"]}, {"y": [1, outputs, "h", "w"]})
