"""ONNX Runtime's integer operators as an oracle: an integer IR graph becomes QLinearConv / QLinearAdd ONNX.

Written from the operators' own definitions; nothing of the compiler's arithmetic is used, only its graph.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from benchmarks.reference_nets.exact_session import exact_session
from compiler.ir import Add, Clamp, Clip, Conv, Graph, Move, Value, View, flat
from contracts.npu import Layout

Image = npt.NDArray[np.uint8]


class IntegerModel:
    """Runs a graph (blocks allowed, views allowed) with ONNX Runtime, one thread."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        for operator in flat(graph.operators):
            self._emit(operator)
        self._session = session(
            self._nodes,
            {graph.input: graph.values[graph.input].shape},
            [value for _, value in graph.outputs],
            self._constants,
        )

    def run(self, frame: Image) -> dict[str, Image]:
        """Outputs by ONNX name, H x W x C."""
        feed = {self._graph.input: np.ascontiguousarray(frame.transpose(2, 0, 1))[None]}
        results = self._session.run([value for _, value in self._graph.outputs], feed)
        pairs = zip(self._graph.outputs, results, strict=True)
        return {name: np.ascontiguousarray(image[0].transpose(1, 2, 0)) for (name, _), image in pairs}

    def _emit(self, operator: Conv | Add | Move | Clip) -> None:
        if isinstance(operator, Conv):
            self._conv(operator)
        elif isinstance(operator, Add):
            a, b = self._seen(operator.a, operator.a_view), self._seen(operator.b, operator.b_view)
            values = self._graph.values
            total = self._add(operator.result, (a, values[operator.a]), (b, values[operator.b]), operator.clamp)
            assert total == operator.result
        elif isinstance(operator, Move):
            self._laid(self._seen(operator.source, operator.read), operator.write, operator.result)
        else:
            self._clamp(operator.source, operator.clamp, operator.result)

    def _conv(self, conv: Conv) -> None:
        values = self._graph.values
        source = values[conv.source]
        product = [self._scale(f"{conv.name}.x", source.scale), self._zero(f"{conv.name}.xz", source.zero_point)]
        weights = self._constant(f"{conv.name}.w", conv.weights)
        weight_scale = self._constant(f"{conv.name}.ws", conv.weight_scale)
        weight_zero = self._constant(f"{conv.name}.wz", conv.weight_zero_point)
        result = [self._scale(f"{conv.name}.y", conv.scale), self._zero(f"{conv.name}.yz", conv.zero_point)]
        bias = self._constant(f"{conv.name}.b", conv.bias)
        top, bottom, left, right = conv.pads
        inputs = [self._seen(conv.source, conv.read), *product, weights, weight_scale, weight_zero, *result, bias]
        raw = f"{conv.result}.conv"
        self._node(
            "QLinearConv",
            inputs,
            raw,
            kernel_shape=list(conv.kernel),
            strides=list(conv.strides),
            pads=[top, left, bottom, right],
            dilations=list(conv.dilations),
            group=conv.groups,
        )
        clamped = self._clamp(raw, conv.clamp, f"{conv.result}.clamped")
        if conv.residual is None:
            self._laid(clamped, conv.write, conv.result)
            return
        own = Value("own", 1, 1, 1, conv.scale, conv.zero_point)
        image = self._laid(clamped, conv.write, f"{conv.result}.own")
        other = self._seen(conv.residual.value, conv.residual.view)
        pair = (image, own), (other, values[conv.residual.value])
        self._add(conv.result, *(pair[::-1] if conv.residual.first else pair), conv.residual.clamp)

    def _add(self, result: str, a: tuple[str, Value], b: tuple[str, Value], clamp: Clamp) -> str:
        target = self._graph.values[result]
        operands: list[str] = []
        for label, (tensor, value) in (("a", a), ("b", b)):
            name = f"{result}.{label}"
            operands += [tensor, self._scale(f"{name}s", value.scale), self._zero(f"{name}z", value.zero_point)]
        operands += [self._scale(f"{result}.cs", target.scale), self._zero(f"{result}.cz", target.zero_point)]
        self._node("QLinearAdd", operands, f"{result}.sum", domain="com.microsoft")
        return self._clamp(f"{result}.sum", clamp, result)

    def _clamp(self, source: str, clamp: Clamp, result: str) -> str:
        low, high = self._zero(f"{result}.lo", clamp.low), self._zero(f"{result}.hi", clamp.high)
        return self._node("Clip", [source, low, high], result)

    def _seen(self, source: str, view: View) -> str:
        if view.layout == Layout.NHWC:
            return source
        name = f"{source}.seen{len(self._nodes)}"
        if view.layout == Layout.S2D:
            return self._as_float(source, name, "SpaceToDepth", blocksize=view.block)
        scales = self._constant(f"{name}.scales", np.array([1, 1, view.block, view.block], np.float32))
        return self._as_float(
            source,
            name,
            "Resize",
            extra=["", scales],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def _laid(self, source: str, view: View, result: str) -> str:
        if view.layout == Layout.NHWC:
            return self._node("Identity", [source], result)
        return self._as_float(source, result, "DepthToSpace", blocksize=view.block, mode="CRD")

    def _as_float(
        self, source: str, result: str, operator: str, extra: list[str] | None = None, **attributes: object
    ) -> str:
        self._node("Cast", [source], f"{result}.f", to=TensorProto.FLOAT)
        self._node(operator, [f"{result}.f", *(extra or [])], f"{result}.g", **attributes)
        return self._node("Cast", [f"{result}.g"], result, to=TensorProto.UINT8)

    def _node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: object) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def _constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _scale(self, name: str, value: float) -> str:
        return self._constant(name, np.asarray(value, np.float32))

    def _zero(self, name: str, value: int) -> str:
        return self._constant(name, np.asarray(value, np.uint8))


def session(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, int, int]],
    outputs: list[str],
    constants: list[onnx.TensorProto],
) -> ort.InferenceSession:
    """A session over uint8 N x C x H x W tensors; ``inputs`` gives H, W, C."""
    shapes = {name: [1, channels, height, width] for name, (height, width, channels) in inputs.items()}
    graph = helper.make_graph(
        nodes,
        "integer",
        [helper.make_tensor_value_info(name, TensorProto.UINT8, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in outputs],
        constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9
    return exact_session(model.SerializeToString())
