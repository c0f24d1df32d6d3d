"""The QDQ cases by name, and how near ONNX Runtime they have to be.

``EXACT``: every byte equals ONNX Runtime running the nodes in float. The others contain a convolution, an addition or
a product, which the integer arithmetic rounds once where float rounds twice: one step on few bytes. ``TIES``: averages
of few bytes lie on ties, where float rounds by its own errors and the page to even.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.compiler import qdq_nets as net
from tests.compiler.qdq_nets import Case

CRD = ([1, 1, 2, 2, 8, 12], [0, 1, 4, 2, 5, 3], [1, 1, 16, 24])
DCR = ([1, 2, 2, 1, 8, 12], [0, 3, 4, 1, 5, 2], [1, 1, 16, 24])
UNSHUFFLE = ([1, 4, 4, 2, 6, 2], [0, 1, 3, 5, 2, 4], [1, 16, 4, 6])
ONNX_S2D = ([1, 4, 4, 2, 6, 2], [0, 3, 5, 1, 2, 4], [1, 16, 4, 6])
CHANNELS = ([1, 2, 2, 8, 12], [0, 2, 1, 3, 4], [1, 4, 8, 12])

EXACT: Mapping[str, Case] = {
    "leaky relu": net.unary("LeakyRelu", alpha=0.1),
    "hard swish": net.unary("HardSwish"),
    "hard sigmoid": net.unary("HardSigmoid", 1 / 256, 0),
    "relu": net.unary("Relu", 0.02, 120),
    "relu, other scale": net.unary("Relu", 0.011, 0),
    "neg": net.unary("Neg", 0.02, 130),
    "abs": net.unary("Abs", 0.02, 0),
    "prelu by channel": net.prelu([4, 1, 1]),
    "prelu, one slope": net.prelu([1]),
    "clip on the input": net.clip(-1.0, 1.5),
    "add a number": net.with_constant("Add", False, 0.37),
    "add by channel": net.with_constant("Add", True, [[[0.1]], [[-0.4]], [[0.9]], [[0.0]]]),
    "number minus map": net.with_constant("Sub", True, 1.0),
    "map minus number": net.with_constant("Sub", False, 0.6),
    "times a number": net.with_constant("Mul", False, 1.7),
    "divided": net.with_constant("Div", False, 1.3),
    "max pool": net.pool("MaxPool", kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[2, 1]),
    "max pool, ceil": net.pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max pool, dilated": net.pool("MaxPool", kernel_shape=[2, 2], dilations=[2, 3]),
    "max pool, other scale": net.pool("MaxPool", 0.03, 99, kernel_shape=[2, 2]),
    "global max pool": net.pool("GlobalMaxPool"),
    "slice, channels": net.cut([1], [3], [1], [1]),
    "slice, window": net.cut([1, 2], [-1, 9], [2, 3], [1, 1]),
    "slice, steps": net.cut([0, 1, 2], [4, 100, 100], [1, 2, 3], [2, 2, 3]),
    "gather": net.gather,
    "split channels": net.split(1),
    "split rows": net.split(2, [3, 5]),
    "split cols": net.split(3, [7, 5]),
    "pad, max pool": net.pad([0, 0, 1, 2, 0, 0, 3, 0], "max"),
    "pad, counted average": net.pad([0, 0, 1, 2, 0, 0, 3, 0], "average"),
    "nearest, even": net.resize(
        [2, 2], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ),
    "nearest, ceil": net.resize(
        [3, 3], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="ceil"
    ),
    "nearest, two factors": net.resize([2, 3], mode="nearest", coordinate_transformation_mode="half_pixel"),
    "nearest, smaller": net.resize([0.5, 0.25], mode="nearest", coordinate_transformation_mode="half_pixel"),
    "nearest, align corners": net.resize_to([5, 17], mode="nearest", coordinate_transformation_mode="align_corners"),
    "reshaped CRD": net.spelled_shuffle(*CRD, False),
    "reshaped DCR": net.spelled_shuffle(*DCR, True),
    "reshaped PixelUnshuffle": net.spelled_shuffle(*UNSHUFFLE, False),
    "reshaped space to depth": net.spelled_shuffle(*ONNX_S2D, True),
    "channel shuffle": net.spelled_shuffle(*CHANNELS, True),
    "another scale": net.rescaled,
}

NEAR: Mapping[str, Case] = {
    "sigmoid": net.unary("Sigmoid", 1 / 256, 0),
    "tanh": net.unary("Tanh", 1 / 128, 128),
    "elu": net.unary("Elu"),
    "softplus": net.unary("Softplus"),
    "exp": net.unary("Exp", 0.05, 0),
    "sqrt": net.unary("Sqrt", 0.01, 0),
    "batch normalisation": net.batch_normalization,
    "batch normalisation behind a convolution": lambda: net.batch_normalization(True),
    "add a quantised number": net.with_quantized_constant("Add", False, []),
    "sub by quantised channel": net.with_quantized_constant("Sub", False, [4, 1, 1]),
    "quantised channel minus map": net.with_quantized_constant("Sub", True, [1, 4, 1, 1]),
    "mul by quantised channel": net.with_quantized_constant("Mul", False, [4, 1, 1]),
    "add": net.two("Add"),
    "sub": net.two("Sub"),
    "mul": net.two("Mul"),
    "squeeze and excite": net.gate(),
    "swish": net.swish,
    "global average": net.pool("GlobalAveragePool"),
    "concat channels": net.concat(1, [(0.03, 110), (0.03, 110)]),
    "concat, other scales": net.concat(1, [(0.03, 110), (0.02, 90), (0.05, 128)]),
    "concat rows": net.concat(2, [(0.03, 110), (0.03, 110)]),
    "concat cols": net.concat(3, [(0.02, 110), (0.03, 110)]),
    "concat with the input and itself": net.concat_with_the_input_and_itself,
    "concat of a concat": net.concat_of_a_concat,
    "slice, then conv": net.cut_then_conv,
    "conv quantised twice": net.conv_quantised_twice,
    "pad, conv": net.pad([0, 0, 1, 2, 0, 0, 3, 0], "conv"),
    "conv, DCR, conv": net.shuffle("DepthToSpace", 2, "DCR", 8),
    "conv, CRD, conv": net.shuffle("DepthToSpace", 2, "CRD", 8),
    "conv, DCR, conv, no Q between": net.shuffle("DepthToSpace", 2, "DCR", 8, between=False),
    "conv, S2D, conv": net.shuffle("SpaceToDepth", 2, "DCR", 4),
    "dynamic reshape": net.dynamic_reshape,
    "classifier over the map": net.gemm("map", trans=True),
    "classifier over the mean": net.gemm("pool", trans=True),
    "classifier, not transposed": net.gemm("map", trans=False, bias=False),
    "tokens": net.tokens,
    "softmax over channels": net.softmax(1),
    "softmax over rows": net.softmax(2),
    "softmax over columns": net.softmax(-1),
    "attention": net.attention,
}

TIES: Mapping[str, Case] = {
    "average pool": net.pool("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    "average pool, counted": net.pool("AveragePool", kernel_shape=[3, 2], pads=[1, 0, 2, 1], count_include_pad=1),
    "linear x2": net.resize([2, 2], mode="linear", coordinate_transformation_mode="half_pixel"),
    "linear x4, asymmetric": net.resize([4, 4], mode="linear", coordinate_transformation_mode="asymmetric"),
    "linear x2, torch": net.resize([2, 4], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    "linear x3": net.resize([3, 3], mode="linear", coordinate_transformation_mode="half_pixel"),
    "linear, align corners": net.resize_to([5, 17], mode="linear", coordinate_transformation_mode="align_corners"),
    "linear, other scale": net.resize([2, 2], 0.03, mode="linear", coordinate_transformation_mode="half_pixel"),
}

NEWER_OPSET: Mapping[str, Case] = {"gelu": net.unary("Gelu")}
