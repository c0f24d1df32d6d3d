"""A fleet of containers is made as wanted, or removed."""

from __future__ import annotations

from collections.abc import Callable

from edge_agent.containers.engine import ContainerEngine
from edge_agent.containers.plan import Changes, FleetWish, Found, changes, check_name, checked, specs

Tell = Callable[[str, float], None]


def bring_up(engine: ContainerEngine, wish: FleetWish, token: str, tell: Tell) -> Changes:
    """Make the fleet as wished; returns what was done. Raises ConfigError, EngineError."""
    todo = changes(specs(checked(wish)), engine.list(wish.name))
    done = 0

    def step(words: str) -> None:
        nonlocal done
        tell(words, done / max(1, todo.count))
        done += 1

    for device in todo.remove:
        step(f"removing {device.name}")
        engine.remove(device, state=True)
    for old, new in todo.replace:
        step(f"replacing {new.name}")
        engine.remove(old, state=False)
        engine.create(new, token)
    for device in todo.start:
        step(f"starting {device.name}")
        engine.start(device)
    for spec in todo.create:
        step(f"making {spec.name}")
        engine.create(spec, token)
    tell("done", 1.0)
    return todo


def take_down(engine: ContainerEngine, name: str, *, keep_state: bool, tell: Tell) -> list[Found]:
    """Remove every container of a fleet; with `keep_state` their identities stay. Returns what was removed."""
    check_name(name)
    found = sorted(engine.list(name), key=lambda device: device.number)
    for index, device in enumerate(found):
        tell(f"removing {device.name}", index / len(found))
        engine.remove(device, state=False)
    if not keep_state:
        engine.forget(name)
    tell("done", 1.0)
    return found
