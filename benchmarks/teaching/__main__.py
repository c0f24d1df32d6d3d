"""`python -m benchmarks.teaching STAGE --seed N`: run one stage of `edgeloop bench learning`, or go on with it.

Example: `python -m benchmarks.teaching anchor --seed 1`. The result is printed as JSON and kept (see `kept.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from benchmarks.teaching.stages import STAGES


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.teaching", description=__doc__)
    parser.add_argument("stage", choices=list(STAGES))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    found = STAGES[given.stage](given.seed, _Teller())
    sys.stderr.write("\n")
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


class _Teller:
    """Shares with the time that is left, by what this process needed so far."""

    def __init__(self) -> None:
        self._began: tuple[float, float] | None = None

    def __call__(self, share: float, text: str) -> None:
        now = time.monotonic()
        if self._began is None or share < self._began[1]:
            self._began = (now, share)
        done = share - self._began[1]
        left = (now - self._began[0]) / done * (1 - share) if done > 0 else float("nan")
        sys.stderr.write(f"\r{share:5.0%}  {left:6.0f} s left  {text:<60}")
        sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
