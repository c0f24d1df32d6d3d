"""What a kept result depends on: a hash of the code that made it; comments, docstrings and layout do not count."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def code_hash(paths: Sequence[str], root: Path = ROOT) -> str:
    """SHA-256 over the syntax trees of Python files and folders below `root`."""
    digest = hashlib.sha256()
    for path in paths:
        place = root / path
        for file in sorted(place.glob("*.py")) if place.is_dir() else (place,):
            digest.update(str(file.relative_to(root)).encode())
            digest.update(ast.dump(_bare(ast.parse(file.read_text(encoding="utf-8")))).encode())
    return digest.hexdigest()


def _bare(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and (
            node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        ):
            node.body = node.body[1:]
    return tree
