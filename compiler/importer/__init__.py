"""ONNX bytes to integer IR: ``read_source`` once for a model, ``build_graph`` once for each profile."""

from __future__ import annotations

from compiler.importer.build import build_graph
from compiler.importer.source import SourceGraph, SourceNode, read_source

__all__ = ["SourceGraph", "SourceNode", "build_graph", "read_source"]
