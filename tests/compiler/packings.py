"""Placement problems with a known answer, made by seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from compiler.memory.buffers import Buffer
from compiler.memory.problem import Problem


def guillotine(seed: int, count: int, steps: int, capacity: int) -> list[Buffer]:
    """``count`` buffers cut out of a rectangle of ``steps`` x ``capacity`` bytes: they fill it to the last byte."""
    chance = random.Random(seed)
    pieces = [(0, steps, capacity)]
    while len(pieces) < count:
        first, end, size = pieces.pop(chance.choice([i for i, p in enumerate(pieces) if p[1] - p[0] > 1 or p[2] > 1]))
        if size > 1 and (end - first == 1 or chance.random() < 0.5):
            cut = chance.randint(1, size - 1)
            pieces += [(first, end, cut), (first, end, size - cut)]
        else:
            cut = chance.randint(first + 1, end - 1)
            pieces += [(first, cut, size), (cut, end, size)]
    chance.shuffle(pieces)
    return [Buffer(f"b{index}", size, first, end - 1) for index, (first, end, size) in enumerate(pieces)]


def smallest_peak(problem: Problem) -> int:
    """The optimum in units, by trying every order in which offsets rise: plain loops, small problems only."""
    lower, upper, size = problem.lower.tolist(), problem.upper.tolist(), problem.size.tolist()
    floor = [0] * problem.sections

    def fits(left: frozenset[int], level: int, capacity: int) -> bool:
        if not left:
            return True
        alike: set[tuple[int, int, int]] = set()
        for index in sorted(left):
            if (lower[index], upper[index], size[index]) in alike:
                continue
            alike.add((lower[index], upper[index], size[index]))
            offset = max(floor[lower[index] : upper[index]])
            if offset < level or offset + size[index] > capacity:
                continue
            before = floor[lower[index] : upper[index]]
            floor[lower[index] : upper[index]] = [offset + size[index]] * len(before)
            done = _room(problem, floor, left - {index}, capacity) and fits(left - {index}, offset, capacity)
            floor[lower[index] : upper[index]] = before
            if done:
                return True
        return False

    capacity = int(problem.load.max())
    while not fits(frozenset(range(len(size))), 0, capacity):
        capacity += 1
    return capacity


def _room(problem: Problem, floor: Sequence[int], left: frozenset[int], capacity: int) -> bool:
    rest = [0] * problem.sections
    for index in left:
        for section in range(int(problem.lower[index]), int(problem.upper[index])):
            rest[section] += int(problem.size[index])
    return all(filled + more <= capacity for filled, more in zip(floor, rest, strict=True))
