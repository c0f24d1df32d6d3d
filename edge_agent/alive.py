"""`python -m edge_agent.alive`: 0 when the agent of EDGELOOP_AGENT_STATE_DIR wrote its status lately, else 1.

For a container's health check: it reads one file's time and imports nothing heavy.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

VARIABLE = "EDGELOOP_AGENT_STATE_DIR"
STATUS = "status.json"
FRESH_S = 60.0


def age(folder: Path) -> float:
    """Seconds since the agent last wrote its status. Raises OSError where it never did."""
    return time.time() - (folder / STATUS).stat().st_mtime


def main() -> int:
    """Say on standard error what is wrong, if anything."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; name the agent's state folder", file=sys.stderr)
        return 1
    try:
        seconds = age(Path(folder))
    except OSError as error:
        print(f"no status in {folder}: {error.strerror}; the agent has not begun", file=sys.stderr)
        return 1
    if seconds > FRESH_S:
        print(f"the agent of {folder} has not written its status for {seconds:.0f} s", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
