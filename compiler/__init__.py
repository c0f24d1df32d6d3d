"""INT8 ONNX to NPU programs and bundles. ``driver`` reads top to bottom; ``cli`` is the command line."""

from __future__ import annotations

COMPILER_VERSION = "2"
