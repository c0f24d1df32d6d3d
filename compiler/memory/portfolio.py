"""One search in several processes: the first that finds a placement, or proves that there is none, ends all.

Most problems are solved within a few hundred steps, so the calling process tries first; processes start only when
it does not succeed. They shake the order by another seed each from the start, and search without knowing of each other.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from compiler.memory.exact import Searcher
from compiler.memory.problem import Problem
from compiler.memory.valley_search import Found, Outcome, Settings, search

ALONE_STEPS = 2_000  # steps before other processes are worth their start


def searcher(workers: int) -> Searcher:
    """A search in this process, or for more than one worker in that many processes."""
    if workers <= 1:
        return search

    def together(problem: Problem, capacity: int, settings: Settings, deadline: float | None) -> Found:
        first = search(problem, capacity, replace(settings, steps=min(settings.steps, ALONE_STEPS)), deadline)
        left = settings.steps - first.steps
        if first.outcome is not Outcome.STOPPED or left <= 0:
            return first
        found = _race(problem, capacity, replace(settings, steps=left), deadline, workers)
        return replace(found, steps=found.steps + first.steps)

    return together


def _race(problem: Problem, capacity: int, settings: Settings, deadline: float | None, workers: int) -> Found:
    """The first decisive result; ``time.monotonic`` is one clock for all processes of a machine."""
    context = multiprocessing.get_context("spawn")
    runners: dict[Connection, SpawnProcess] = {}
    try:
        for worker in range(1, workers + 1):
            ours, theirs = context.Pipe(duplex=False)
            own = replace(settings, seed=settings.seed + worker, unshaken=0)
            process = context.Process(target=_run, args=(theirs, problem, capacity, own, deadline), daemon=True)
            process.start()
            theirs.close()
            runners[ours] = process
        return _first(runners)
    finally:
        for connection, process in runners.items():
            process.terminate()
            process.join()
            connection.close()


def _first(runners: dict[Connection, SpawnProcess]) -> Found:
    waiting = dict(runners)
    steps = 0
    while waiting:
        for connection in wait(list(waiting)):
            assert isinstance(connection, Connection)
            del waiting[connection]
            try:
                found: Found = connection.recv()
            except EOFError:
                raise RuntimeError("a search process ended without a result: killed, or out of memory") from None
            steps = max(steps, found.steps)
            if found.outcome is not Outcome.STOPPED:
                return found
    return Found(Outcome.STOPPED, None, steps)


def _run(connection: Connection, problem: Problem, capacity: int, settings: Settings, deadline: float | None) -> None:
    connection.send(search(problem, capacity, settings, deadline))
    connection.close()
