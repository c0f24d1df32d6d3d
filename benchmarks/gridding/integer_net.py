"""QOperator models by hand: one integer operator, or a small net of them, uint8 or int8 input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.generic]


class IntegerNet:
    """Builds one graph of integer operators over the input ``x``."""

    def __init__(self, seed: int, channels: int = 4, *, signed: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.signed = signed
        self.channels = channels
        self.facts = {"x": (np.float32(0.02), self.zero(120))}

    def zero(self, value: int) -> Array:
        """A zero point of the activations' type, given as uint8."""
        return np.asarray(value - 128, np.int8) if self.signed else np.asarray(value, np.uint8)

    def constant(self, name: str, value: object) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def parameters(self, tensor: str) -> list[str]:
        """The tensor with its scale and zero point."""
        scale, zero = self.facts[tensor]
        tag = f"{tensor}.{len(self.constants)}"
        return [tensor, self.constant(f"{tag}.s", scale), self.constant(f"{tag}.z", zero)]

    def result(self, name: str, scale: float, zero: int) -> list[str]:
        self.facts[name] = (np.float32(scale), self.zero(zero))
        return self.parameters(name)[1:]

    def node(self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: object) -> str:
        name = f"{output}_{operator}"
        made = helper.make_node(operator, list(inputs), [output], name=name, domain=domain)
        made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(made)
        return output

    def conv(
        self,
        source: str,
        name: str,
        outputs: int,
        *,
        scale: float = 0.03,
        zero: int = 100,
        kernel: tuple[int, int] = (3, 3),
        pads: tuple[int, int, int, int] = (1, 1, 1, 1),
        strides: tuple[int, int] = (1, 1),
        dilations: tuple[int, int] = (1, 1),
        groups: int = 1,
        inputs: int = 4,
        per_channel: bool = True,
        bias: bool = True,
        unsigned_weights: bool = False,
        weight_zero: Sequence[int] | None = None,
        auto_pad: str | None = None,
    ) -> str:
        """QLinearConv; pads are top, left, bottom, right. ``weight_zero`` is in the weights' own type."""
        kind = np.uint8 if unsigned_weights else np.int8
        low, high = (0, 256) if unsigned_weights else (-127, 128)
        weights = self.random.integers(low, high, (outputs, inputs // groups, *kernel)).astype(kind)
        spread = 0.4 / np.sqrt(inputs / groups * kernel[0] * kernel[1]) / 64
        scales = self.random.uniform(0.5 * spread, spread, outputs).astype(np.float32)
        scales = scales if per_channel else scales[0]
        zeros = np.asarray(weight_zero if weight_zero is not None else (128 if unsigned_weights else 0), kind)
        if scales.ndim and zeros.ndim == 0:
            zeros = np.broadcast_to(zeros, outputs).copy()
        operands = [*self.parameters(source), self.constant(f"{name}.w", weights)]
        operands += [self.constant(f"{name}.ws", scales), self.constant(f"{name}.wz", zeros)]
        operands += self.result(name, scale, zero)
        if bias:
            operands.append(self.constant(f"{name}.b", self.random.integers(-3000, 3000, outputs).astype(np.int32)))
        attributes: dict[str, object] = {"kernel_shape": list(kernel), "strides": list(strides)}
        attributes |= {"auto_pad": auto_pad} if auto_pad else {"pads": list(pads)}
        attributes |= {"dilations": list(dilations), "group": groups}
        return self.node("QLinearConv", operands, name, "", **attributes)

    def two(self, operator: str, a: str, b: str, name: str, scale: float, zero: int) -> str:
        operands = [*self.parameters(a), *self.parameters(b), *self.result(name, scale, zero)]
        return self.node(operator, operands, name, domain="com.microsoft")

    def one(self, operator: str, source: str, name: str, scale: float, zero: int, **attributes: object) -> str:
        operands = [*self.parameters(source), *self.result(name, scale, zero)]
        return self.node(operator, operands, name, domain="com.microsoft", **attributes)

    def concat(self, sources: Sequence[str], name: str, scale: float, zero: int, axis: int = 1) -> str:
        operands = self.result(name, scale, zero) + [part for s in sources for part in self.parameters(s)]
        return self.node("QLinearConcat", operands, name, domain="com.microsoft", axis=axis)

    def model(self, output: str, extents: tuple[int, int] | None = None, *, dequantized: bool = True) -> bytes:
        """The model; the output through DequantizeLinear when asked."""
        kind = TensorProto.INT8 if self.signed else TensorProto.UINT8
        last = self.node("DequantizeLinear", self.parameters(output), "y") if dequantized else output
        shape = [1, self.channels, *(extents or ("h", "w"))]
        info = helper.make_tensor_value_info(last, TensorProto.FLOAT if dequantized else kind, None)
        graph = helper.make_graph(
            self.nodes, "integer", [helper.make_tensor_value_info("x", kind, shape)], [info], self.constants
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        made = helper.make_model(graph, opset_imports=opsets, producer_name="edgeloop")
        made.ir_version = 9
        return bytes(made.SerializeToString(deterministic=True))
