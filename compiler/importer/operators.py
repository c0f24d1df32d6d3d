"""The table of supported ONNX operators. A converter's docstring says what it accepts: it is the manual.

Every refusal names node, reason and remedy. Later operators enter here, one converter each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.importer.convolution import convert_conv
from compiler.importer.elementwise import convert_add, convert_clip, convert_relu
from compiler.importer.layouts import convert_depth_to_space, convert_resize, convert_space_to_depth
from compiler.importer.pending import Context, Pending
from compiler.importer.source import SourceNode

Converter = Callable[[Context, SourceNode], Pending]

CONVERTERS: Mapping[str, Converter] = {
    "Add": convert_add,
    "Clip": convert_clip,
    "Conv": convert_conv,
    "DepthToSpace": convert_depth_to_space,
    "Relu": convert_relu,
    "Resize": convert_resize,
    "SpaceToDepth": convert_space_to_depth,
}
