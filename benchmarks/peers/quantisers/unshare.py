"""Every node with constants of its own: ONNX Runtime 1.32 cannot fuse a graph whose nodes share them."""

from __future__ import annotations

from pathlib import Path

import onnx


def unshare(path: Path) -> None:
    """Rewrite the model so that no two uses read the same initialiser, and all lies in this one file."""
    model = onnx.load(path)
    stored = {one.name: one for one in model.graph.initializer}
    seen: set[str] = set()
    for number, node in enumerate(model.graph.node):
        for place, name in enumerate(node.input):
            if name in stored and name in seen:
                copy = onnx.TensorProto()
                copy.CopyFrom(stored[name])
                copy.name = f"{name}_of_{number}_{place}"
                model.graph.initializer.append(copy)
                node.input[place] = copy.name
            seen.add(name)
    onnx.save(model, path)
