"""What the oldest driver in the field lacks, made of what it has, or given to the host processor.

In this order: a sum that it cannot fuse leaves its convolution; a table that is a line becomes a depthwise
convolution; a subtraction becomes a negation and an addition; the rest of the vector unit's work goes to the host
processor, as do copies into and out of windows. Invariants: no byte of any result changes (a decomposition is used only
after every case of its arithmetic was compared); what a driver has stays as it was. Operators of the host itself have
no other place: they stay, and the driver check refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from compiler import golden
from compiler.importer.strided import identity
from compiler.ir import (
    STRUCTURAL,
    Add,
    Block,
    Conv,
    Graph,
    Host,
    Move,
    Mul,
    Operator,
    Pool,
    Resize,
    Simple,
    Table,
    Value,
)
from compiler.operators.placement import WINDOWS, lacked, touches_window, version
from compiler.passes.affine_tables import as_convolution
from compiler.passes.base import PassResult


class OldDriver:
    """Places what ``driver`` lacks."""

    name = "old-driver"

    def __init__(self, driver: str) -> None:
        self._driver = driver

    def requires(self, graph: Graph) -> str | None:
        """Any graph will do."""
        return None

    def run(self, graph: Graph) -> PassResult:
        """Operators first, then the windows that are left."""
        work = _Work(self._driver, dict(graph.values))
        placed = [new for operator in graph.operators for new in work.placed(operator)]
        graph = replace(graph, values=work.values).with_operators(placed)
        if version(self._driver) < version(WINDOWS):
            graph = _without_windows(graph, work)
        return PassResult(graph, tuple(work.changes))

    def ensures(self, graph: Graph) -> str | None:
        """Only operators of the host are left that the driver lacks."""
        steps = [step for operator in graph.operators for step in _steps(operator) if not isinstance(step, Host)]
        left = [step.name for step in steps if lacked(step, self._driver)]
        return f"{left[0]} is left" if left else None


@dataclass
class _Work:
    driver: str
    values: dict[str, Value]
    changes: list[str] = field(default_factory=list)

    def placed(self, operator: Operator) -> Iterator[Operator]:
        """The operator, or what stands for it."""
        if not any(lacked(step, self.driver) for step in _steps(operator)):
            yield operator
            return
        for step in _steps(operator):
            for part in self._unfused(step):
                yield from self._replaced(part) if lacked(part, self.driver) else (part,)

    def _unfused(self, step: Simple) -> tuple[Simple, ...]:
        """A convolution and its sum apart, when the driver lacks the sum."""
        if not isinstance(step, Conv) or step.residual is None or not lacked(step, self.driver):
            return (step,)
        residual, result = step.residual, self.values[step.result]
        own = replace(result, name=f"{step.result}.alone", scale=step.scale, zero_point=step.zero_point, window=None)
        self.values[own.name] = own
        pair = (own.name, residual.value)
        a, b = reversed(pair) if residual.first else pair
        self._note(step, f"{step.name} and its sum are two kernels", lacked(step, self.driver))
        add = Add(f"{step.name}.sum", a, b, step.result, clamp=residual.clamp, origin=step.origin)
        add = replace(add, a_view=residual.view) if residual.first else replace(add, b_view=residual.view)
        return replace(step, result=own.name, residual=None), replace(add, subtract=residual.subtract)

    def _replaced(self, step: Simple) -> tuple[Simple, ...]:
        needed = lacked(step, self.driver)
        if isinstance(step, Table):
            conv = as_convolution(step, self.values[step.source], self.values[step.result])
            if conv is not None:
                self._note(step, "a depthwise convolution with the same 256 answers", needed)
                return (conv,)
        if isinstance(step, Add) and step.subtract:
            parts = self._negated(step)
            if parts:
                self._note(step, "a negation by convolution and an addition", needed)
                return parts
        if isinstance(step, Add | Move | Table | Mul | Pool | Resize):
            what = "subtraction" if isinstance(step, Add) else type(step).__name__.upper()
            self._note(step, "on the CPU", needed)
            return (replace(step, host=f"driver {self.driver} has no {what}, {needed} has"),)
        return (step,)

    def _negated(self, step: Add) -> tuple[Simple, ...]:
        """a + (-b), where it gives the same bytes as a - b for all 65,536 pairs."""
        a, b, result = (self.values[name] for name in (step.a, step.b, step.result))
        negative = replace(b, name=f"{step.name}.negative", zero_point=255 - b.zero_point, window=None)
        left, right = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8), indexing="ij")
        wanted = golden.add(left, right, a, golden.mirrored(b), result, step.clamp)
        if not np.array_equal(golden.add(left, 255 - right, a, negative, result, step.clamp), wanted):
            return ()
        self.values[negative.name] = negative
        plain = identity(f"{step.name}.negation", b, negative, (0, 0, 0, 0), (1, 1), step.origin)
        return replace(plain, weights=-plain.weights), replace(step, b=negative.name, subtract=False)

    def _note(self, step: Simple, what: str, needed: str) -> None:
        node = ", ".join(step.origin) or step.name
        self.changes.append(f"{node}: {what}, because driver {self.driver} lacks what {needed} has")


def _without_windows(graph: Graph, work: _Work) -> Graph:
    """Every map that the NPU touches dense; the host copies between it and the window."""
    values, operators = dict(graph.values), list[Operator]()
    dense: dict[str, str] = {}
    reason = f"driver {work.driver} has no windows of maps, {WINDOWS} has"
    for operator in graph.operators:
        if isinstance(operator, STRUCTURAL):
            operators.append(operator)
            if values[operator.result].window is not None and _read_by_npu(graph, operator.result):
                dense[operator.result] = own = _dense(values, operator.result)
                name = f"{operator.name}.copied"
                operators.append(Move(name, operator.result, own, origin=operator.origin, host=reason))
                work.changes.append(
                    f"{', '.join(operator.origin) or operator.name}: copied by the CPU, because {reason}"
                )
            continue
        changed = _renamed(operator, dense)
        result = changed.result
        if any(touches_window(graph, step) for step in _steps(operator)) and values[result].window is not None:
            dense[result] = own = _dense(values, result)
            name = f"{operator.name}.placed"
            operators += [_writing(changed, own), Move(name, own, result, origin=operator.origin, host=reason)]
            work.changes.append(f"{', '.join(operator.origin) or operator.name}: copied by the CPU, because {reason}")
        else:
            operators.append(changed)
    return replace(graph, values=values).with_operators(operators)


def _dense(values: dict[str, Value], name: str) -> str:
    own = f"{name}.dense"
    values[own] = replace(values[name], name=own, window=None)
    return own


def _read_by_npu(graph: Graph, name: str) -> bool:
    return any(not isinstance(reader, STRUCTURAL) for reader in graph.consumers(name))


def _steps(operator: Operator) -> tuple[Simple, ...]:
    return operator.body if isinstance(operator, Block) else (operator,)


def _renamed(operator: Operator, names: Mapping[str, str]) -> Operator:
    """The operator reading other values."""
    if isinstance(operator, Block):
        body = tuple(conv for conv in (_renamed(conv, names) for conv in operator.body) if isinstance(conv, Conv))
        return replace(operator, body=body)
    known = {entry.name for entry in fields(operator)}
    changes: dict[str, object] = {
        key: names[value] for key in ("source", "a", "b") if key in known and (value := getattr(operator, key)) in names
    }
    if isinstance(operator, Conv) and operator.residual is not None and operator.residual.value in names:
        changes["residual"] = replace(operator.residual, value=names[operator.residual.value])
    return replace(operator, **changes) if changes else operator  # type: ignore[arg-type]  # fields of the operator


def _writing(operator: Operator, result: str) -> Operator:
    """The operator writing another value."""
    if isinstance(operator, Block):
        return replace(operator, body=(*operator.body[:-1], replace(operator.body[-1], result=result)))
    return replace(operator, result=result)
