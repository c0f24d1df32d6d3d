"""How long a device rests between two turns with its platform: a turn that took long does not stretch the rhythm.

A kill switch is obeyed by the next look at the state document. If the rest began when a turn ends, a platform that is
slow to take reports in, as it is when a whole fleet returns to another bundle, would hold up the next look by as much.
So it counts from the turn's beginning; a part of it always stays, so that a slow platform is not pressed.
"""

from __future__ import annotations

LEAST = 0.25
"""Share of the rhythm that a device rests at least."""


def rest_s(every_s: float, took_s: float) -> float:
    """Seconds to rest after a turn of `took_s` seconds, for turns that begin every `every_s` seconds."""
    return max(every_s - took_s, LEAST * every_s)
