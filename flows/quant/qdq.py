"""A small writer of QDQ ONNX graphs: every activation on a uint8 grid, weights int8 per channel, bias int32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
_IR_VERSION = 8


@dataclass(frozen=True)
class Encoding:
    """Grid of a tensor: real = scale * (code - zero_point)."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True)
class Edge:
    """A tensor that lies on a grid: its name after DequantizeLinear."""

    name: str
    encoding: Encoding


@dataclass(frozen=True)
class ConvCodes:
    """Integer weights of a convolution: int8 [out, in, k, k], float32 [out] scales, int32 [out] bias."""

    weight: np.ndarray
    scale: np.ndarray
    bias: np.ndarray
    stride: int
    padding: int


class QdqWriter:
    """Adds nodes in order; `finish` gives checked, deterministic model bytes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Append one node; returns the name of its output. Any: ONNX attributes are of many types."""
        self._nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: np.ndarray) -> str:
        """Append an initialiser of the value's own rank; returns its name."""
        self._constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def quantize(self, tensor: str, encoding: Encoding, output: str | None = None) -> Edge:
        """Quantize-dequantize a float tensor; the result is named `output` or `<tensor>_dq`."""
        result = output or f"{tensor}_dq"
        scale = self.constant(f"{result}_scale", np.array(encoding.scale, np.float32))
        zero = self.constant(f"{result}_zero", np.array(encoding.zero_point, np.uint8))
        code = self.node("QuantizeLinear", [tensor, scale, zero], f"{result}_q")
        self.node("DequantizeLinear", [code, scale, zero], result)
        return Edge(result, encoding)

    def conv(self, name: str, source: Edge, codes: ConvCodes) -> str:
        """Convolution of a quantised edge; returns the float tensor before any activation."""
        weight_scale = self.constant(f"{name}_weight_scale", codes.scale.astype(np.float32))
        zeros = self.constant(f"{name}_weight_zero", np.zeros(len(codes.scale), np.int8))
        stored = self.constant(f"{name}_weight_q", codes.weight.astype(np.int8))
        weight = self.node("DequantizeLinear", [stored, weight_scale, zeros], f"{name}_weight", axis=0)
        bias_scale = (np.float32(source.encoding.scale) * codes.scale.astype(np.float32)).astype(np.float32)
        stored_bias = self.constant(f"{name}_bias_q", codes.bias.astype(np.int32))
        bias = self.node(
            "DequantizeLinear", [stored_bias, self.constant(f"{name}_bias_scale", bias_scale)], f"{name}_bias", axis=0
        )
        kernel = codes.weight.shape[-1]
        return self.node(
            "Conv",
            [source.name, weight, bias],
            f"{name}_conv",
            kernel_shape=[kernel, kernel],
            strides=[codes.stride] * 2,
            pads=[codes.padding] * 4,
        )

    def output(self, edge: Edge, shape: list[int | str]) -> None:
        """Declare a graph output."""
        self._outputs.append(helper.make_tensor_value_info(edge.name, TensorProto.FLOAT, shape))

    def finish(
        self,
        input_shape: list[int | str],
        metadata: dict[str, str],
        states: Mapping[str, list[int | str]] | None = None,
    ) -> bytes:
        """Model bytes; `states` are further inputs by name, which a recurrent net keeps from frame to frame. Raises
        onnx.checker.ValidationError when the graph is malformed.
        """
        shapes = {"x": input_shape, **(states or {})}
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        graph = helper.make_graph(self._nodes, self._name, inputs, self._outputs, self._constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="edgeloop", ir_version=_IR_VERSION
        )
        helper.set_model_props(model, dict(sorted(metadata.items())))
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
