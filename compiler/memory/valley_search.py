"""Exact search for a placement within a capacity, and a proof when there is none.

Depth first. The section with the fewest options is decided first (divided by a weight that grows when it is a dead
end), its buffers are tried in turn, and after each failed one it is known that this buffer does not rest there. Runs
start afresh after a growing number of dead ends (1, 1, 2, 1, 1, 2, 4, ... times ``restart``), each with another
order of buffers; the weights last longer. A run that ends by itself has looked at everything: a proof.

Deterministic: the seed and the budget of steps decide, not the clock. A deadline, when given, only stops early.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from compiler.memory.deduction import Choices, DeadEnd, deduce
from compiler.memory.problem import Ints, Problem
from compiler.memory.skyline import FULL, Skyline, Tables

Floats = npt.NDArray[np.float64]


class Outcome(Enum):
    """How a search ended."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Settings:
    """Steps in all; dead ends before the first restart; attempts with orders as they are and how far later ones are
    shaken (natural log); what one dead end adds to the weight of its section, which begins at 1, and after how many
    attempts weights are forgotten, so that a misleading lesson does not last.
    """

    steps: int = 20_000
    restart: int = 50
    unshaken: int = 3
    shake: float = 0.02
    learn: float = 0.1
    forget: int = 31
    seed: int = 0


@dataclass(frozen=True)
class Found:
    """The outcome, the offsets in units by the problem's own order (when found), and the steps taken."""

    outcome: Outcome
    offsets: Ints | None
    steps: int


_LEFT_WEIGHT = 0.1  # how much a section with all of its units still to place gains over one with none, in options


@dataclass
class _Node:
    """A section to decide. ``run`` is its valley, ``wall`` the valley's lower neighbour; ``untried`` is taken
    from its end.
    """

    state: Skyline
    section: int
    floor: int
    wall: int
    run: tuple[int, int]
    untried: list[int]
    gap_allowed: bool
    placed: int = -1

    def exact_fits_first(self, tables: Tables) -> None:
        """Buffers as wide as the valley come first, in their own order: ``bar`` relies on it."""
        fitting = [buffer for buffer in self.untried if self._fits(buffer, tables)]
        others = [buffer for buffer in self.untried if not self._fits(buffer, tables)]
        self.untried = [*others, *sorted(fitting, reverse=True)]

    def bar(self, buffer: int, tables: Tables) -> None:
        """The buffer does not rest on this floor. If it is as wide as the valley it lies above the valley's
        wall: from any lower place it could change places with what lies below it.
        """
        self.state.barred[buffer] = max(self.floor + 1, self.wall if self._fits(buffer, tables) else 0)

    def leave_gap(self, tables: Tables) -> None:
        """Nothing rests on the floor of this section."""
        pending = self.state.pending
        bounds = tables.bounds[pending]
        covering = pending[(bounds[:, 0] <= self.section) & (self.section < bounds[:, 1])]
        self.state.barred[covering] = np.maximum(self.state.barred[covering], self.floor + 1)

    def _fits(self, buffer: int, tables: Tables) -> bool:
        return tuple(tables.bounds[buffer]) == self.run


def search(problem: Problem, capacity: int, settings: Settings, deadline: float | None = None) -> Found:
    """Look for offsets such that every buffer ends at or below ``capacity`` units; ``deadline`` as time.monotonic."""
    return _Search(problem, capacity, settings, deadline).run()


class _Search:
    def __init__(self, problem: Problem, capacity: int, settings: Settings, deadline: float | None) -> None:
        self.tables = Tables.of(problem)
        self.capacity = capacity
        self.settings = settings
        self.deadline = deadline
        self.random = np.random.default_rng(settings.seed)
        self.trouble = np.ones(problem.sections)
        self.steps = 0
        self.rank: Floats = np.zeros(len(problem.size))

    def run(self) -> Found:
        for attempt in range(1, self.settings.steps + 2):
            if attempt % self.settings.forget == 0:
                self.trouble[:] = 1
            self._shuffle(attempt - 1)
            dead_ends = self.settings.restart * _luby(attempt)
            outcome, state = self._attempt(dead_ends)
            if outcome is not Outcome.STOPPED or self._spent():
                return Found(outcome, state.offsets if state else None, self.steps)
        raise AssertionError("every attempt takes a step")

    def _attempt(self, dead_ends: int) -> tuple[Outcome, Skyline | None]:
        """One run from the root."""
        root = Skyline.empty(self.tables.problem)
        path: list[_Node] = []
        state: Skyline | None = root
        while True:
            if state is not None:
                if self._spent():
                    return Outcome.STOPPED, None
                self.steps += 1
                found = deduce(self.tables, state, self.capacity)
                if found is None:
                    return Outcome.FOUND, state
                if isinstance(found, DeadEnd):
                    self.trouble[found.section] += self.settings.learn
                    dead_ends -= 1
                else:
                    path.append(self._node(state, found))
            if dead_ends <= 0:
                return Outcome.STOPPED, None
            if not path:
                return Outcome.IMPOSSIBLE, None
            state = self._next(path)

    def _node(self, state: Skyline, choices: Choices) -> _Node:
        """Decide the section with the fewest options for its trouble; most still to place breaks ties."""
        score = (choices.options + choices.gap_allowed) / self.trouble - _LEFT_WEIGHT * state.rest / self.capacity
        score[choices.options == 0] = np.inf
        section = int(score.argmin())
        level = int(state.floor[section])
        apart = np.flatnonzero(state.floor != level)
        at = int(np.searchsorted(apart, section))
        run = (int(apart[at - 1]) + 1 if at else 0, int(apart[at]))
        wall = min(int(state.floor[run[0] - 1]) if at else FULL, int(state.floor[run[1]]))
        bounds = self.tables.bounds[choices.ready]
        covering = choices.ready[(bounds[:, 0] <= section) & (section < bounds[:, 1])]
        best_last = covering[np.argsort(self.rank[covering], kind="stable")].tolist()
        gap_allowed = bool(choices.gap_allowed[section])
        node = _Node(state, section, level, min(wall, self.capacity), run, best_last, gap_allowed)
        node.exact_fits_first(self.tables)
        return node

    def _next(self, path: list[_Node]) -> Skyline | None:
        """The next state to look at; None when the last node has none left, which is then gone."""
        node = path[-1]
        if node.placed >= 0:
            node.bar(node.placed, self.tables)
        if node.untried:
            node.placed = node.untried.pop()
            state = node.state.copy()
            state.place(node.placed, node.floor, self.tables.problem)
            return state
        path.pop()
        if not node.gap_allowed:
            return None
        node.leave_gap(self.tables)
        return node.state

    def _shuffle(self, attempt: int) -> None:
        """Rank buffers by size, area or live range in turn; later attempts shake the order a little."""
        size, width = self.tables.problem.size.astype(float), self.tables.width.astype(float)
        most = self.tables.problem.sections + 1
        rank = (size * most + width, size * width, width * self.capacity + size)[attempt % 3]
        shake = self.settings.shake if attempt >= self.settings.unshaken else 0.0
        self.rank = rank * np.exp(shake * self.random.standard_normal(len(rank)))

    def _spent(self) -> bool:
        if self.steps >= self.settings.steps:
            return True
        return self.deadline is not None and self.steps % 16 == 0 and time.monotonic() > self.deadline


def _luby(attempt: int) -> int:
    """1, 1, 2, 1, 1, 2, 4, 1, ...: the universal sequence of restarts, counted from 1."""
    power = attempt.bit_length()
    if attempt == (1 << power) - 1:
        return 1 << (power - 1)
    return _luby(attempt - (1 << (power - 1)) + 1)
