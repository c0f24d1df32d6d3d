"""`edgeloop bench healing`: a call on a device that falls ill, what watching it costs, and frames on a conveyor.

The call is 70 simulated minutes (`mending/call.py` has the list of faults); nothing of it depends on this machine. The
cost of tracing is host time of this machine, measured in pairs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.mending.call import PROBE_S, SPECIFIED, Call, as_specified, hold
from benchmarks.mending.flowing import flow_figures
from benchmarks.mending.seed_bundle import seed_bundle
from benchmarks.mending.tracing import Cost, made_cost, real_cost
from edgeloop.figures import Figure, below, exactly

LEAST_MINUTES = 60
MOST_TRACE_US = 50.0


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of healing."""
    with tempfile.TemporaryDirectory(prefix="edgeloop-healing-") as folder:
        bundle = seed_bundle(Path(folder) / "seed.elb")
        tell(0.0, "trace cost")
        costs = [*cost_figures("made", made_cost()), *cost_figures("npu", real_cost(bundle))]
        costs += flow_figures()
        call = hold(Path(folder) / "device", bundle, tell=lambda share: tell(0.1 + 0.9 * share, "call"))
    return [*call_figures(call), *costs]


def call_figures(call: Call) -> list[Figure]:
    """Frames, path and recovery."""
    words = ", ".join(f"{at:.2f} s {before} -> {after}" for at, before, after in call.path)
    backs = [
        at - left for (left, _, _), (at, _, after) in zip(call.path, call.path[1:], strict=False) if after == "normal"
    ]
    promise = f"{PROBE_S:g} s, then the first frame"
    in_time = bool(backs) and all(PROBE_S <= back < PROBE_S + 1 for back in backs)
    return [
        exactly("call.frames_lost", call.lost, f"of {call.frames}, {call.frames / 25 / 60:.0f} min at 25/s", 0),
        exactly("call.errors_to_caller", call.raised, "exceptions", 0),
        exactly("call.path", as_specified(call.path), words, True),
        exactly("call.transitions", len(call.path), "changes of state", len(SPECIFIED)),
        Figure("call.recovery", round(max(backs, default=0.0), 2), "s from the fall to normal", promise, in_time),
        Figure("call.by_cpu", call.on_cpu, "frames", "printed", True),
        Figure("call.plain", call.plain, "frames enlarged without a model", "printed", True),
        *(
            Figure(f"call.injected.{stage.replace(' ', '_')}", count, "failures", "at least 1", count > 0)
            for stage, count in sorted(call.injected.items())
        ),
        *(Figure(f"call.served_{state}", count, "frames", "printed", True) for state, count in call.served_in.items()),
    ]


def cost_figures(name: str, cost: Cost) -> list[Figure]:
    """Traced against untraced frames, in turn."""
    return [
        below(f"trace.{name}.median", round(cost.median, 2), f"us a frame, {cost.frames} pairs", MOST_TRACE_US),
        Figure(f"trace.{name}.mean", round(cost.mean, 2), "us a frame", "printed", True),
        Figure(f"trace.{name}.p99", round(cost.worst, 2), "us, of the paired difference", "printed", True),
        Figure(f"trace.{name}.frame", round(cost.frame, 1), "us, untraced frame", "printed", True),
    ]
