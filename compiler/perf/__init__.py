"""Compare two builds: did the new one get slower, hungrier, or too big? Pure: bytes in, judgement out.

``judge`` compares tables that ``tables.read`` and ``trace.read`` made; ``compare`` does both for two profile tables.
"""

from __future__ import annotations

from compiler.perf.judge import Comparison, PerfLimits, Regression, Row, compare, judge
from compiler.perf.tables import Sample, Tables, read, with_trace
from compiler.perf.trace import read_trace

__all__ = [
    "Comparison",
    "PerfLimits",
    "Regression",
    "Row",
    "Sample",
    "Tables",
    "compare",
    "judge",
    "read",
    "read_trace",
    "with_trace",
]
