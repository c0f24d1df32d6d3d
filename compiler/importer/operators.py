"""The table of supported ONNX operators. A converter's docstring says what it accepts: it is the manual
(``docs/reference/operators.md``).

Every refusal names node, reason and remedy. QOperator forms are expanded before (``qoperator.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from compiler.errors import UnsupportedModel
from compiler.importer import activations, borders, elementwise, host, joining, layouts, pooling, products, reshaping
from compiler.importer.activations import simple
from compiler.importer.convolution import convert_conv
from compiler.importer.normalization import convert_batch_normalization
from compiler.importer.pending import Pending
from compiler.importer.resizing import convert_resize
from compiler.importer.source import SourceNode
from compiler.importer.walk import Walk

Converter = Callable[[Walk, SourceNode], Pending | None]

CONVERTERS: Mapping[str, Converter] = {
    "Abs": simple("Abs", np.abs),
    "Add": elementwise.convert_add,
    "AveragePool": pooling.convert_average_pool,
    "BatchNormalization": convert_batch_normalization,
    "Clip": activations.convert_clip,
    "Concat": joining.convert_concat,
    "Conv": convert_conv,
    "DepthToSpace": layouts.convert_depth_to_space,
    "Div": elementwise.convert_div,
    "Elu": activations.convert_elu,
    "Exp": simple("Exp", np.exp),
    "Flatten": reshaping.convert_flatten,
    "Gather": joining.convert_gather,
    "Gelu": activations.convert_gelu,
    "Gemm": products.convert_gemm,
    "GlobalAveragePool": pooling.convert_global_average_pool,
    "GlobalMaxPool": pooling.convert_global_max_pool,
    "HardSigmoid": activations.convert_hard_sigmoid,
    "HardSwish": simple("HardSwish", activations.hard_swish),
    "LeakyRelu": activations.convert_leaky_relu,
    "MatMul": products.convert_matmul,
    "MaxPool": pooling.convert_max_pool,
    "Mul": elementwise.convert_mul,
    "Neg": simple("Neg", np.negative),
    "PRelu": activations.convert_prelu,
    "Pad": borders.convert_pad,
    "ReduceMean": pooling.convert_reduce_mean,
    "Relu": activations.convert_relu,
    "Reshape": reshaping.convert_reshape,
    "Resize": convert_resize,
    "Sigmoid": simple("Sigmoid", activations.sigmoid),
    "Slice": joining.convert_slice,
    "Softmax": host.convert_softmax,
    "Softplus": simple("Softplus", lambda x: np.logaddexp(0.0, x)),
    "SpaceToDepth": layouts.convert_space_to_depth,
    "Split": joining.convert_split,
    "Sqrt": simple("Sqrt", np.sqrt),
    "Squeeze": reshaping.convert_squeeze,
    "Sub": elementwise.convert_sub,
    "Tanh": simple("Tanh", np.tanh),
    "Transpose": reshaping.convert_transpose,
    "Unsqueeze": reshaping.convert_unsqueeze,
    "edgeloop.DeformableAlignment": host.convert_deformable_alignment,
    "edgeloop.DynamicUpsampling": host.convert_dynamic_upsampling,
    "edgeloop.GlobalMotionWarp": host.convert_global_motion_warp,
    "edgeloop.LinearTemporalAttention": host.convert_linear_temporal_attention,
}

_REFUSALS: Mapping[str, tuple[str, str]] = {
    "ConvInteger": (
        "has no scale for its result",
        "export QLinearConv, or Conv between DequantizeLinear and QuantizeLinear",
    ),
    "MatMulInteger": (
        "has no scale for its result",
        "export QLinearMatMul, or MatMul between DequantizeLinear and QuantizeLinear",
    ),
    "DynamicQuantizeLinear": ("finds its scale at run time", "use static quantisation"),
    "ConvTranspose": ("is not supported", "use DepthToSpace behind a Conv, or Resize before one"),
}


def refusal(node: SourceNode) -> UnsupportedModel:
    """Why an operator is not in the table."""
    if node.operator in _REFUSALS:
        reason, remedy = _REFUSALS[node.operator]
        return UnsupportedModel(node.name, f"operator {node.operator} {reason}", remedy)
    known = ", ".join(sorted(CONVERTERS))
    return UnsupportedModel(node.name, f"operator {node.operator} is not supported", f"supported are {known}")
