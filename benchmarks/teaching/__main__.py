"""`python -m benchmarks.teaching STAGE --seed N`: run one stage of `edgeloop bench learning`, or go on with it.

Example: `python -m benchmarks.teaching anchor --seed 1`. The result is printed as JSON and kept (see `kept.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from benchmarks.teaching.eta import Eta
from benchmarks.teaching.stages import STAGES
from flows.tasks.device import VARIABLE as DEVICE


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.teaching", description=__doc__)
    parser.add_argument("stage", choices=list(STAGES))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    os.environ[DEVICE] = "cpu"  # budgets are CPU seconds
    found = STAGES[given.stage](given.seed, Eta(_show))
    sys.stderr.write("\n")
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


def _show(share: float, text: str) -> None:
    sys.stderr.write(f"\r{share:5.0%}  {text:<76}")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
