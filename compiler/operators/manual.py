"""The manual of operators, from the converters' docstrings, the placement rules and the driver matrix."""

from __future__ import annotations

import re
from collections.abc import Mapping

from compiler.importer.operators import CONVERTERS
from compiler.importer.qoperator import FORMS
from compiler.ir import Add, Clip, Conv, Host, Join, Move, Mul, Part, Pool, Resize, Table
from compiler.operators.placement import FALLBACKS, HOST_REASONS, MINIMUM_DRIVER

_HEAD = """# Operators

Made by `python -m compiler.operators --write` from the support checks themselves: what a check's docstring says is what
it accepts. Anything else is one error that names node, reason and remedy. Arithmetic: `arithmetic.md`.

Activations are uint8 or int8 with one scale and zero point, weights int8 or uint8 with a scale and a zero point for the
tensor or for each output channel, the batch is 1, maps are `[1, C, H, W]`. Every edge between operators is quantised;
an operator that only moves bytes needs no QuantizeLinear behind it, and may stand on integer tensors.
"""

_COMMANDS: Mapping[str, type] = {
    "convolution, Gemm, MatMul with constant weights, Pad, a channel order, a slice with steps": Conv,
    "addition": Add,
    "Space-to-Depth, Depth-to-Space, nearest enlargement": Move,
    "functions of one operand, changes of scale, sums and products with constants, Relu and Clip on their own": Table,
    "product of two maps": Mul,
    "MaxPool, AveragePool, their global forms": Pool,
    "Resize": Resize,
    "Concat, Split, Slice (windows, no command)": Join,
    "host operators": Host,
}


def manual() -> str:
    """The page."""
    parts = [_HEAD, _supported(), _integer_forms(), _host(), _drivers()]
    return "\n".join(parts)


def _supported() -> str:
    rows = [f"| {_name(operator)} | {_sentence(operator)} |" for operator in sorted(CONVERTERS, key=str.casefold)]
    return "\n".join(["## Accepted", "", "| operator | what of it |", "|---|---|", *rows, ""])


def _name(operator: str) -> str:
    return f"`{operator}`"


def _sentence(operator: str) -> str:
    text = " ".join((CONVERTERS[operator].__doc__ or "").split())
    if not text.rstrip().endswith("."):
        raise ValueError(f"the support check of {operator} has no docstring that ends a sentence")
    plain = re.sub(r"^[\w.]+(?: \(and [\w]+\))?: ", "", text)
    return plain[0].upper() + plain[1:]


def _integer_forms() -> str:
    rows = [f"| `{name}` | `{plain}` |" for name, plain in sorted(FORMS.items())]
    text = "QOperator nodes are read as their float operator between DequantizeLinear and QuantizeLinear:"
    return "\n".join(["## Integer forms", "", text, "", "| node | read as |", "|---|---|", *rows, ""])


def _host() -> str:
    text = "These run on the host processor in the same arena; the report has a line `node -> CPU: reason` for each."
    rows = [f"| {function.name.lower().replace('_', ' ')} | {reason} |" for function, reason in HOST_REASONS.items()]
    return "\n".join(["## On the CPU", "", text, "", "| operator | reason |", "|---|---|", *rows, ""])


def _drivers() -> str:
    text = (
        "`compile --driver VERSION` makes a program for the oldest driver in the field. What that one lacks is placed\n"
        "elsewhere, byte for byte the same, and the report has a line for each: `node: on the CPU, because driver\n"
        "1.0.0 lacks what 1.1.0 has`. Only what nothing else can run is refused. A subtraction, fused or not, needs\n"
        "1.1.0 like the tables. An addition or subtraction whose second operand is made by a convolution\n"
        "is fused into it for 1.3.0 and later, and is a command of its own for an older driver."
    )
    rows = [f"| {what} | {MINIMUM_DRIVER[kind]} | {FALLBACKS.get(kind, '')} |" for what, kind in _COMMANDS.items()]
    assert {*_COMMANDS.values(), Part, Clip} >= set(MINIMUM_DRIVER)
    head = ["## Driver versions", "", text, "", "| operator | oldest driver | an older one gets |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])
