"""What devices see is what a receiver would have decoded, to the last byte, and held-out clips only."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from demo.actors import GROUPS, World, agent_config, fleet_config
from demo.scene import HARD, NORMAL, degradations, make_scene, write_lossless
from demo.settings import DemoSettings
from edge_agent.config import AgentConfig
from edge_agent.fleet.config import FleetConfig
from flows.data.clips import decode
from flows.data.corpus import Corpus, Split, default_corpus


def test_recordings_decode_to_the_same_bytes(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (5, 72, 88, 3)).astype(np.uint8)
    write_lossless(tmp_path / "clip.mp4", frames, 25.0)
    assert np.array_equal(decode(tmp_path / "clip.mp4"), frames)


def test_the_scene_shows_held_out_clips_under_both_conditions(tmp_path: Path) -> None:
    corpus = default_corpus()
    held = tuple(clip for clip in corpus.of(Split.HELD_OUT) if clip.video == "carphone_pristine")
    scene = make_scene(tmp_path, Corpus(held), variants=2, frames=8, seed=1)
    assert {recording.condition for recording in scene.recordings} == {NORMAL, HARD}
    assert {recording.clip for recording in scene.recordings} == {clip.id for clip in held}
    for recording in scene.recordings:
        assert np.array_equal(decode(recording.path), recording.low)
        assert recording.high.shape[1] == 2 * recording.low.shape[1]
    assert scene.of(HARD)[0].high.mean() < 0.7 * scene.of(NORMAL)[0].high.mean()


def test_conditions_repeat_themselves_by_seed() -> None:
    assert degradations(HARD, 3, 7) == degradations(HARD, 3, 7)
    assert degradations(HARD, 3, 7) != degradations(HARD, 3, 8)


def test_two_thirds_of_the_fleet_change_and_both_classes_take_part() -> None:
    assert sum(group.changes for group in GROUPS) * 3 == 2 * len(GROUPS)
    assert {group.device_class for group in GROUPS} == {"npu-4t", "npu-2t"}


def test_the_agents_accept_what_the_demo_writes_for_them(tmp_path: Path) -> None:
    corpus = default_corpus()
    held = tuple(clip for clip in corpus.of(Split.HELD_OUT) if clip.video == "carphone_pristine")
    scene = make_scene(tmp_path / "clips", Corpus(held), variants=1, frames=4, seed=1)
    world = World(
        tmp_path, tmp_path / "f.elb", "http://127.0.0.1:1", "t" * 20, tmp_path / "c.json", 9.0, scene, DemoSettings()
    )
    fleet = FleetConfig.model_validate(fleet_config(world))
    assert fleet.devices == DemoSettings().light_devices
    for number, group in enumerate(GROUPS):
        AgentConfig.model_validate(agent_config(world, f"agent-{number}", group, number))
