"""The course of events from the first process to the report, on any ground: one turn of the loop and the second act."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rich.console import Console

from demo import judge
from demo.actors import GROUPS, Actors
from demo.acts import FirstAct, broken_candidate, first_act, misbehaving_candidate
from demo.driver import Stage, gather_fleet, live_through_the_change, record_scene
from demo.errors import DemoError
from demo.ground import Ground
from demo.observe import Json, Observer, Sight
from demo.pace import Pace
from demo.report import write_report
from demo.sealing import seal_bundles
from demo.settings import DemoSettings
from demo.story import DriftPoint, Story
from demo.view import Board, View
from edgeloop.figures import Figure
from flows.data.corpus import Corpus, Split
from flows.platform import Platform
from flows.provision import provision
from flows.steps.context import PROFILES, Profiles, RetrainSettings, views_of

NEW, OLD = "v2 (retrained)", "v1 (seed)"


def play(
    folder: Path, settings: DemoSettings, console: Console, ground: Ground, actors: Actors, corpus: Corpus,
    clock_file: Path,
) -> Story:  # fmt: skip
    """The course of events on any ground, from its first process to the report in `folder`."""
    story = Story(pace=_pace(settings))
    console.print(story.pace, highlight=False)
    board = Board(pace=story.pace, limit_s=settings.wall_limit_s)
    open_clients = contextlib.ExitStack()
    try:
        with View(console) as seen:
            stage = _open(folder, settings, story, board, seen, clock_file, ground, actors, corpus, open_clients)
            record_scene(stage)
            gather_fleet(stage)
            alarmed = live_through_the_change(stage)
            act = first_act(stage, alarmed)
            story.figures += _first_figures(stage, act)
            if settings.second_act:
                blocked = broken_candidate(stage, act)
                rolled_back = misbehaving_candidate(stage, act)
                story.figures += judge.act_two_figures(blocked, rolled_back)
            with stage.phase("report"):
                story.figures += _last_figures(stage, act)
    except DemoError as error:
        story.figures.append(Figure("demo.finished", str(error), "", "yes", ok=False))
        raise
    finally:
        open_clients.close()
        actors.stop()
        ground.stop()
        write_report(folder, story)
    return story


def _open(
    folder: Path, settings: DemoSettings, story: Story, board: Board, view: View, clock_file: Path,
    ground: Ground, actors: Actors, corpus: Corpus, open_clients: contextlib.ExitStack,
) -> Stage:  # fmt: skip
    view.show(board, Sight())
    with story.step("platform"):
        info = ground.start()
    seal_bundles(info.base_url, info.operator_token)
    profiles = profiles_of(corpus)
    platform = Platform(info.base_url, info.service_token)
    observer = Observer(info.base_url, info.operator_token, info.prefect_api_url, folder / "fleet.json")
    open_clients.callback(platform.close)
    open_clients.callback(observer.close)
    stage = Stage(
        folder, settings, corpus, profiles, story, board, view, clock_file, Pace(clock_file),
        ground, actors, platform, observer,
    )  # fmt: skip
    with stage.phase("seed build"):
        wanted = RetrainSettings(profiles=profiles)
        build = provision(ground.root, platform, stage.factory, wanted, progress=stage.tell)
    board.names[build.digest] = OLD
    return stage


def _first_figures(stage: Stage, act: FirstAct) -> list[Figure]:
    new = stage.folder / "new.elb"
    new.write_bytes(stage.platform.bundle(str(act.build["id"])))
    assert stage.scene is not None
    stage.tell("measuring quality on held-out recordings", 0.5)
    quality = judge.measure_quality(stage.scene.recordings, stage.factory, new, act.float_net())
    stage.story.quality += quality.rows
    stage.story.pictures += quality.pictures
    return [*judge.quality_figures(quality), *judge.coverage_figures(act.covered_before, act.covered_after)]


def _last_figures(stage: Stage, act: FirstAct) -> list[Figure]:
    sight, series, devices = stage.observer.look(), stage.observer.series(), stage.observer.devices()
    changed = {group.cohort for group in GROUPS if group.changes}
    stage.story.drift += [
        DriftPoint(row["cohort"], row["day"], row["state"], row.get("z"), row.get("d"), row["cohort"] in changed)
        for row in series
    ]
    on_new = sum(device["running_digest"] == act.digest for device in devices)
    people = sum(_by_a_person(entry) for entry in stage.observer.audit())
    people += sum(int(rollout.get("human_actions", 0)) for rollout in sight.rollouts)
    return [
        *judge.size_figures(stage.ground.access.database_url),
        *judge.drift_figures(series, sight.alarms),
        *judge.fleet_figures(len(devices), on_new, stage.unverified_before + stage.unverified_bytes()),
        *judge.time_figures(stage.story.seconds(), stage.settings.wall_limit_s, people),
    ]


def _by_a_person(entry: Json) -> bool:
    return str(entry["actor"]).startswith("operator") and entry["action"] not in SETTING_UP


SETTING_UP = frozenset({"enrolment-token.created", "content-keys.rotated"})
"""Done once, before the first day: tokens that devices join with, and the master key that bundles are sealed under."""
"""What `edgeloop up` does at its start with the operator's token, before the loop runs."""


def profiles_of(corpus: Corpus) -> Profiles:
    """The usual input sizes, and those of the clips that the fleet watches."""
    sizes = set(PROFILES)
    for clip, view in views_of(corpus.of(Split.HELD_OUT), smaller=False):
        sizes.add((clip.height // view.scale // 4 * 2, clip.width // view.scale // 4 * 2))
    return tuple(sorted(sizes))


def environment(settings: DemoSettings, profiles: Profiles) -> dict[str, str]:
    """What the platform's processes are told about the demo, besides the clock's file."""
    return {
        "EDGELOOP_RETRAIN_BUDGET_MINUTES": str(settings.budget_minutes),
        "EDGELOOP_RETRAIN_SOAK_S": str(3_600.0 * settings.soak_hours),
        "EDGELOOP_RETRAIN_MIN_DEVICES": str(settings.min_devices),
        "EDGELOOP_RETRAIN_PROFILES": ",".join(f"{rows}x{columns}" for rows, columns in profiles),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _pace(settings: DemoSettings) -> str:
    return (
        f"Time is compressed: a day passes in {settings.day_s:g} s (factor {settings.watching_factor:,.0f}) "
        f"while the fleet is watched, factor {settings.learning_factor:g} while a model is trained, "
        f"{settings.release_factor:,.0f} during rollouts. "
        f"{settings.light_devices} light and {settings.full_devices} full devices."
    )
