"""The chart as Kubernetes would get it: rendered by Helm's own engine, from its wheel."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "edgeloop"
VALUE_SETS = ("small", "production", "airgapped")

Object = dict[str, Any]


def values(name: str) -> Object:
    """One of the value files in `ci/`."""
    loaded: Object = yaml.safe_load((CHART / "ci" / f"{name}.yaml").read_text())
    return loaded


def render(given: Object) -> list[Object]:
    """Every object, hooks too."""
    files = helm_python.Chart.load(str(CHART)).render(given, name="el", namespace="edge")
    texts = [text for path, text in sorted(files.items()) if path.endswith(".yaml")]
    return [found for text in texts for found in yaml.safe_load_all(text) if found]


@lru_cache(maxsize=4)
def rendered(name: str) -> tuple[Object, ...]:
    """The objects of a value file."""
    return tuple(render(values(name)))


def of_kind(objects: tuple[Object, ...], *kinds: str) -> list[Object]:
    return [found for found in objects if found["kind"] in kinds]


def pods(objects: tuple[Object, ...]) -> list[tuple[str, Object]]:
    """Name and pod spec of everything that runs."""
    running = of_kind(objects, "Deployment", "StatefulSet", "Job")
    return [(found["metadata"]["name"], found["spec"]["template"]["spec"]) for found in running]


def containers(objects: tuple[Object, ...]) -> list[tuple[str, Object]]:
    return [
        (f"{name}/{container['name']}", container)
        for name, spec in pods(objects)
        for container in [*spec.get("initContainers", []), *spec["containers"]]
    ]
