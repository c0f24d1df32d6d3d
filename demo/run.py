"""The demo on this machine: the embedded platform, devices as child processes, and the course of events on them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from contracts.clock import CLOCK_FILE_VARIABLE, SECONDS_PER_DAY, SystemClock, day_of, set_pace
from demo.actors import Actors
from demo.embedded_ground import EmbeddedGround
from demo.play import environment, play, profiles_of
from demo.settings import DemoSettings
from demo.story import Story
from flows.data.corpus import Corpus, Split, default_corpus, folder_corpus


def run_demo(folder: Path, settings: DemoSettings, console: Console, port: int, video: Path | None = None) -> Story:
    """Run everything below `folder`, write the report there and return the story. Nothing is left running."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder = folder.resolve()
    clock_file = folder / "clock.json"
    set_pace(clock_file, 1.0, start=SECONDS_PER_DAY * float(day_of(SystemClock().now())))
    corpus = _corpus(video, folder)
    variables = {CLOCK_FILE_VARIABLE: str(clock_file), **environment(settings, profiles_of(corpus))}
    return play(
        folder, settings, console, EmbeddedGround(folder / "platform", port, variables), Actors(), corpus, clock_file
    )


def _corpus(video: Path | None, folder: Path) -> Corpus:
    """The default clips; a user's own video takes the place of the held-out ones."""
    default = default_corpus()
    if video is None:
        return default
    alone = folder / "own"
    alone.mkdir()
    (alone / video.name).symlink_to(video)
    own = tuple(replace(clip, split=Split.HELD_OUT) for clip in folder_corpus(alone).clips)
    return Corpus((*default.of(Split.TRAIN), *own))
