"""Tasks by name: the first one is built in, others come from the entry-point group `edgeloop.tasks`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from flows.errors import FlowError
from flows.tasks.task import Task
from flows.tasks.vsr.task import VSR

GROUP = "edgeloop.tasks"
DEFAULT = VSR.name


def names() -> tuple[str, ...]:
    """Every known task, the default first."""
    return tuple(dict.fromkeys((DEFAULT, *sorted(point.name for point in entry_points(group=GROUP)))))


def task_named(name: str) -> Task:
    """The task of this name. Raises FlowError when there is none, or when it cannot be loaded."""
    if name == DEFAULT:
        return VSR
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _loaded(point.name, point.value, point.load)
    raise FlowError(f"there is no task {name!r}; known: {', '.join(names())}")


def _loaded(name: str, where: str, load: object) -> Task:
    try:
        found = cast("Task", load())  # type: ignore[operator]  # an entry point's loader
    except Exception as error:  # whatever somebody's module raises while it is imported
        raise FlowError(f"task {name} ({where}) cannot be loaded: {error}; correct or uninstall it") from error
    if found.name != name:
        raise FlowError(f"task {name} ({where}) calls itself {found.name!r}; give both one name")
    return found
