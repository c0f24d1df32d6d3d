"""ONNX bytes to integer IR: ``read_source`` once for a model, ``build_graph`` once for each profile."""

from __future__ import annotations

from compiler.importer.build import build_graph
from compiler.importer.reading import read_source
from compiler.importer.source import SourceGraph, SourceNode

__all__ = ["SourceGraph", "SourceNode", "build_graph", "read_source"]
