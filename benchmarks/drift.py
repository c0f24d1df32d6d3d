"""`edgeloop bench drift`: false alarms, power, merging, change points, and Evidently beside it.

Everything runs the service's own rules on synthetic fleets with fixed seeds (`benchmarks/drifting`); a simulated share
carries its Monte-Carlo standard error. River's annotated series are read out of its wheel, installed once under
`build/peers`; Evidently's table is committed (`benchmarks/peers/evidently`) and made again by its own command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.drifting import alarms, changepoints, merging, peers, power, whole_frames
from edgeloop.figures import Figure

ALARMS_UNTIL, FRAMES_UNTIL, POWER_UNTIL, MERGE_UNTIL = 0.45, 0.6, 0.7, 0.95

Tell = Callable[[float, str], None]


def bench(tell: Tell) -> Sequence[Figure]:
    """All figures of drift."""
    found = alarms.figures(_part(tell, 0.0, ALARMS_UNTIL))
    found += whole_frames.figures(_part(tell, ALARMS_UNTIL, FRAMES_UNTIL))
    found += power.figures(_part(tell, FRAMES_UNTIL, POWER_UNTIL))
    found += merging.figures(_part(tell, POWER_UNTIL, MERGE_UNTIL))
    tell(MERGE_UNTIL, "change points")
    found += changepoints.figures()
    return [*found, *peers.figures()]


def _part(tell: Tell, start: float, end: float) -> Tell:
    return lambda share, text: tell(start + (end - start) * share, text)
