"""A worker for benches: the releases' periodic tasks at their own schedule, in one process without a broker.

`python -m benchmarks.serving.beats` runs until it is ended.
"""

from __future__ import annotations

import time

from services.kit.tasks import SCHEDULE, celery_app
from services.releases import tasks

PREFIX = f"{tasks.__name__.removeprefix('services.').removesuffix('.tasks')}."


def main() -> None:
    """Run each task when it is due."""
    periods = {entry["task"]: float(entry["schedule"]) for name, entry in SCHEDULE.items() if name.startswith(PREFIX)}
    due = dict.fromkeys(periods, time.monotonic())
    while True:
        for name, at in due.items():
            if time.monotonic() >= at:
                celery_app.tasks[name]()
                due[name] = at + periods[name]
        time.sleep(0.05)


if __name__ == "__main__":
    main()
