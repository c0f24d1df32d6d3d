"""Jobs that tests spread: each tells in a log beside its results that it was begun."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from flows.errors import BudgetError
from flows.run_folder import Json
from flows.spread.work import Work
from flows.steps import jobs


def began(folder: Path) -> list[str]:
    """What was begun so far, in order."""
    log = folder / "began.log"
    return log.read_text().split() if log.exists() else []


def draw(work: Work) -> Json:
    """Random numbers of torch and NumPy, a large sum, and the threads that it may use."""
    _begin(work)
    left = np.random.rand(256, 256).astype(np.float32)  # whatever a library draws of the shared one
    work.beside(".bin").write_bytes((left @ left.T).tobytes())
    return {
        "torch": float(torch.rand(())), "threads": torch.get_num_threads(),
        "file": work.beside(".bin").name, "of": work.settings["number"],
    }  # fmt: skip


def length(work: Work) -> Json:
    """Bytes of its file."""
    _begin(work)
    return {"length": len(work.files["data"].read_bytes())}


def given(work: Work) -> Json:
    """What it takes without a file."""
    return {"value": work.given["data"]}


def refuse(work: Work) -> Json:
    """Fails as trainings do."""
    _begin(work)
    raise BudgetError("too little of it")


def odd_error(work: Work) -> Json:
    """Fails with an error that cannot be sent."""

    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    raise Odd(1, 2)


def die_always(work: Work) -> Json:
    """Takes its process with it."""
    _begin(work)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def finetune_dying(work: Work) -> Json:
    """Fine-tuning whose process is killed with -9 half way, the first time."""
    _begin(work)

    def watched(share: float, what: str) -> None:
        work.progress(share, what)
        if share >= 0.5 and len(began(work.folder)) == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    return jobs.finetune(replace(work, progress=watched))


def hang_once(work: Work) -> Json:
    """The first time it stands still for ever, once it has told who it is."""
    _begin(work)
    if len(began(work.folder)) == 1:
        print(os.getpid(), flush=True)
        threading.Event().wait()
    return {"number": work.settings["number"]}


def tell(work: Work) -> Json:
    """Tells that it is half way and waits until somebody has seen that."""
    work.progress(0.5, "half way")
    while not (work.folder / "seen").exists():
        threading.Event().wait(0.01)
    return {"number": work.settings["number"]}


def _begin(work: Work) -> None:
    with (work.folder / "began.log").open("a") as log:
        log.write(f"{work.settings.get('number', 0)}\n")
