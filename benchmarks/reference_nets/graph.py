"""Collects nodes and initialisers of one ONNX graph; the two forms of the nets are written with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

IR_VERSION = 9
OPSET = 18


class GraphWriter:
    """Nodes in order of writing; an initialiser is written once under its name."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
        """An initialiser; returns its name."""
        self._constants[name] = numpy_helper.from_array(np.array(value, dtype), name)
        return name

    def node(self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: object) -> str:
        """A node with one output; returns the output's name."""
        name = f"{output}_{operator}"
        made = helper.make_node(operator, list(inputs), [output], name=name, domain=domain)
        made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._nodes.append(made)
        return output

    def model(
        self, name: str, kind: int, x: Sequence[int | str], y: Sequence[int | str], *, microsoft: bool = False
    ) -> bytes:
        """The serialised model with input `x` and output `y` of element type `kind`."""
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info("x", kind, list(x))],
            [helper.make_tensor_value_info("y", kind, list(y))],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        if microsoft:
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        model = helper.make_model(graph, opset_imports=opsets, producer_name="edgeloop-benchmarks")
        model.ir_version = IR_VERSION
        return bytes(model.SerializeToString(deterministic=True))


FLOAT = TensorProto.FLOAT
UINT8 = TensorProto.UINT8
