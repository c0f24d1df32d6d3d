"""Integer IR: quantised values and the operators between them, as frozen dataclasses.

Activations are uint8 H x W x C with one scale and zero point (signed models are shifted by 128 at import).
Operators are in execution order. Passes make new graphs; nothing is changed in place. ``check`` states the
invariants.
"""

from __future__ import annotations

from compiler.ir.core import Add, Block, Clip, Conv, Move, Residual
from compiler.ir.graph import STRUCTURAL, Graph, Operator, Place, Simple, State, check, flat, place, share_bytes
from compiler.ir.host import Host, HostFunction
from compiler.ir.shape import Join, Pad, Part, Permute
from compiler.ir.values import OPEN, PLAIN, Clamp, Value, View, Window
from compiler.ir.vector import Mul, Pool, Resize, Rounding, Table, Transformation

__all__ = [
    "OPEN",
    "PLAIN",
    "STRUCTURAL",
    "Add",
    "Block",
    "Clamp",
    "Clip",
    "Conv",
    "Graph",
    "Host",
    "HostFunction",
    "Join",
    "Move",
    "Mul",
    "Operator",
    "Pad",
    "Part",
    "Permute",
    "Place",
    "Pool",
    "Residual",
    "Resize",
    "Rounding",
    "Simple",
    "State",
    "Table",
    "Transformation",
    "Value",
    "View",
    "Window",
    "check",
    "flat",
    "place",
    "share_bytes",
]
