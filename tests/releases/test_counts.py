"""Counts that the database keeps: always what a walk over the devices would find, folded or not."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import event, func, select, text, update
from sqlalchemy.orm import Session

from contracts.wire.releases import FleetStanding, RolloutList
from services.kit.database import engine, transaction
from services.releases import counts
from services.releases.limits import COUNTS
from services.releases.models import Device, Exposure, ExposureCount, FleetCount
from tests.releases.conftest import OLD
from tests.releases.world import World

BELOW = (1, 500, 2_500, 5_000, 10_000)


def walked(session: Session, rollout_id: str, basis_points: int) -> counts.StageCounts:
    """The counts of a stage from the exposures themselves."""
    stays = Exposure.failed | ~Exposure.moved
    query = select(
        func.count().filter(stays, Exposure.stage != "taken"),
        func.count().filter(Exposure.confirmed, stays),
        func.count().filter(Exposure.failed),
        func.count().filter(~stays),
    ).where(Exposure.rollout_id == rollout_id, Exposure.bucket < basis_points)
    return counts.StageCounts(*session.execute(query).one())


def agrees(rollout_id: str, stages: tuple[int, ...]) -> None:
    with transaction() as session:
        kept = counts.progress(session, [rollout_id])[rollout_id]
        for points in stages:
            assert kept.up_to(points) == walked(session, rollout_id, points)
        fleet = Counter({(one.digest, one.device_class): one.devices for one in counts.fleet(session)[: COUNTS.rows]})
        groups = select(Device.running_digest, Device.device_class, func.count()).group_by(
            Device.running_digest, Device.device_class
        )
        assert fleet == Counter({(digest, name): count for digest, name, count in session.execute(groups)})


def fold_everything() -> None:
    with transaction() as session:
        session.execute(counts.FOLD_FLEET)
        session.execute(counts.FOLD_EXPOSURES, {"rows": 0})


def test_counts_follow_a_rollout_from_the_first_download_to_devices_that_leave(world: World) -> None:
    world.enrol(60, OLD)
    rollout = world.rollout(world.register())
    stages = tuple(stage.basis_points for stage in rollout.stages)
    agrees(rollout.id, stages)
    world.run(rollout.id, bad_class="npu-2t")
    agrees(rollout.id, stages)
    with transaction() as session:
        assert counts.progress(session, [rollout.id])[rollout.id].up_to(10_000).installed > 0
        exposed = select(Exposure.device_id).where(Exposure.rollout_id == rollout.id, ~Exposure.failed).limit(2)
        session.execute(update(Exposure).where(Exposure.device_id.in_(exposed)).values(moved=True))
    agrees(rollout.id, stages)
    with transaction() as session:
        gone = session.scalars(select(Exposure.device_id).where(Exposure.rollout_id == rollout.id).limit(1)).one()
        session.execute(text("DELETE FROM releases.devices WHERE id = :id"), {"id": gone})
    agrees(rollout.id, stages)
    shown = world.client.get(f"/releases/v1/rollouts/{rollout.id}", token=world.operator).json()
    with transaction() as session:
        for stage in shown["stages"]:
            if stage["entered"] is not None:
                assert stage["failed"] == walked(session, rollout.id, stage["basis_points"]).failed


def test_folding_changes_no_count_and_leaves_few_rows(world: World) -> None:
    world.enrol(40, OLD)
    rollout = world.rollout(world.register())
    world.run(rollout.id)
    stages = tuple(stage.basis_points for stage in rollout.stages)
    fold_everything()
    agrees(rollout.id, stages)
    with transaction() as session:
        assert session.scalar(select(func.count()).select_from(ExposureCount).where(
            ExposureCount.rollout_id == rollout.id)) <= len(stages)  # fmt: skip
        groups = select(Device.running_digest, Device.device_class).distinct().subquery()
        assert session.scalar(select(func.count()).select_from(FleetCount)) == session.scalar(
            select(func.count()).select_from(groups)
        )


def test_the_fleet_at_a_glance_names_versions_alerts_and_the_kill_switch(world: World) -> None:
    before = FleetStanding.model_validate(world.client.get("/releases/v1/standing", token=world.operator).json())
    world.enrol(12, OLD)
    rollout = world.rollout(world.register())
    world.run(rollout.id)
    after = FleetStanding.model_validate(world.client.get("/releases/v1/standing", token=world.operator).json())
    assert sum(one.devices for one in after.running) == sum(one.devices for one in before.running) + 12
    assert {one.version for one in after.running if one.digest == rollout.digest} == {rollout.release_version}
    assert not after.killed
    assert after.complete


def test_a_list_of_rollouts_asks_the_same_few_queries_however_long_it_is(world: World) -> None:
    world.enrol(20, OLD)
    for _ in range(3):
        world.run(world.rollout(world.register()).id)
    sent: list[str] = []

    def note(*given: object) -> None:
        sent.append(str(given[2]))

    counted = []
    for limit in (1, 3):
        sent.clear()
        event.listen(engine(), "before_cursor_execute", note)
        try:
            answer = world.client.get("/releases/v1/rollouts", token=world.operator, params={"limit": limit})
        finally:
            event.remove(engine(), "before_cursor_execute", note)
        assert len(RolloutList.model_validate(answer.json()).items) == limit
        counted.append(len(sent))
    assert counted[0] == counted[1] <= 6
