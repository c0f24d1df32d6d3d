"""Life of a build: an enum (`contracts.wire.BuildState`), a transition table, and nothing else that moves it.

    queued ──> compiling ──> gating ──> passed | blocked
                   │            │
                   └> refused   └────> failed   (compiling may fail too)

A finished build never moves again.
"""

from __future__ import annotations

from contracts.wire import BuildState

TRANSITIONS: dict[BuildState, frozenset[BuildState]] = {
    BuildState.QUEUED: frozenset({BuildState.COMPILING, BuildState.FAILED}),
    BuildState.COMPILING: frozenset({BuildState.GATING, BuildState.REFUSED, BuildState.FAILED}),
    BuildState.GATING: frozenset({BuildState.PASSED, BuildState.BLOCKED, BuildState.FAILED}),
    BuildState.PASSED: frozenset(),
    BuildState.BLOCKED: frozenset(),
    BuildState.REFUSED: frozenset(),
    BuildState.FAILED: frozenset(),
}

COMPILABLE = (BuildState.QUEUED, BuildState.COMPILING)
GATEABLE = (BuildState.GATING,)


class IllegalTransition(RuntimeError):
    """Code tried to move a build along an arrow that does not exist: a programming error."""


def check_transition(before: BuildState, after: BuildState) -> None:
    """Raise IllegalTransition unless the table has this arrow."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(f"a build cannot go from {before.value} to {after.value}")


def is_final(state: BuildState) -> bool:
    """Whether nothing follows this state."""
    return not TRANSITIONS[state]
