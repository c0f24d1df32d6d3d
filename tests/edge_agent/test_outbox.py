"""The outbox: bounded, durable, and never in the way of the call."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.errors import OutboxError
from edge_agent.limits import LIMITS
from edge_agent.outbox import Kind, Outbox
from tests.support.agent_twin import FaultyDisk, PowerCut


def bodies(outbox: Outbox, kind: Kind) -> list[bytes]:
    return [body for _, body in outbox.peek(kind, 100)]


def test_messages_survive_a_restart_in_order(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, FaultyDisk())
    for index in range(5):
        assert outbox.put(Kind.REPORT, b"%d" % index)
    outbox.done(outbox.peek(Kind.REPORT, 1)[0][0])

    again = Outbox(tmp_path, FaultyDisk())
    assert bodies(again, Kind.REPORT) == [b"1", b"2", b"3", b"4"]
    assert again.put(Kind.REPORT, b"5")
    assert bodies(again, Kind.REPORT)[-1] == b"5"


def test_a_full_box_drops_the_oldest_of_the_least_important_kind_and_counts_it(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, FaultyDisk(), entries=3)
    outbox.put(Kind.INSTALL, b"install")
    outbox.put(Kind.SEGMENT, b"old segment")
    outbox.put(Kind.SEGMENT, b"new segment")
    assert outbox.put(Kind.REPORT, b"report")

    assert bodies(outbox, Kind.SEGMENT) == [b"new segment"]
    assert bodies(outbox, Kind.INSTALL) == [b"install"]
    assert outbox.dropped == {"segment": 1}


def test_a_less_important_message_never_pushes_out_a_more_important_one(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, FaultyDisk(), entries=2)
    outbox.put(Kind.INSTALL, b"1")
    outbox.put(Kind.REPORT, b"2")
    assert not outbox.put(Kind.SEGMENT, b"3")
    assert outbox.dropped == {"segment": 1}
    assert len(outbox) == 2


def test_the_box_is_bounded_in_bytes(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, FaultyDisk(), size=10_000)
    for _ in range(50):
        outbox.put(Kind.SEGMENT, bytes(900))
    assert outbox.size <= 10_000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == outbox.size


def test_a_full_disk_costs_the_message_and_never_raises(tmp_path: Path) -> None:
    disk = FaultyDisk(full=True)
    outbox = Outbox(tmp_path, disk)
    assert not outbox.put(Kind.REPORT, b"lost")
    assert list(tmp_path.iterdir()) == []
    disk.full = False
    assert outbox.put(Kind.REPORT, b"kept")
    assert outbox.dropped == {"report": 1}


def test_an_oversized_message_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(OutboxError, match="over"):
        Outbox(tmp_path, FaultyDisk()).put(Kind.SEGMENT, bytes(LIMITS.outbox_entry_bytes + 1))


def test_a_power_cut_at_any_operation_loses_at_most_the_message_being_written(tmp_path: Path) -> None:
    counted = FaultyDisk()
    live(tmp_path / "count", counted, [])
    for cut in range(1, counted.operations + 1):
        folder, acknowledged = tmp_path / f"cut{cut}", []
        with pytest.raises(PowerCut):
            live(folder, FaultyDisk(cut_at=cut, seed=cut), acknowledged)
        found = bodies(Outbox(folder, FaultyDisk()), Kind.REPORT)
        assert set(acknowledged) <= set(found), f"operation {cut}: {counted.log[cut - 1]}"
        assert not list(folder.glob("*.tmp"))


def live(folder: Path, disk: FaultyDisk, acknowledged: list[bytes]) -> None:
    """Write four, send one, write one; `acknowledged` is what the caller may rely on."""
    outbox = Outbox(folder, disk)
    for index in range(4):
        outbox.put(Kind.REPORT, b"message %d" % index)
        acknowledged.append(b"message %d" % index)
    acknowledged.pop(0)
    outbox.done(outbox.peek(Kind.REPORT, 1)[0][0])
    outbox.put(Kind.SEGMENT, b"last")


def test_a_torn_file_is_dropped_and_counted(tmp_path: Path) -> None:
    Outbox(tmp_path, FaultyDisk()).put(Kind.REPORT, b"a whole message")
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-3])
    outbox = Outbox(tmp_path, FaultyDisk())
    assert bodies(outbox, Kind.REPORT) == []
    assert outbox.dropped == {"report": 1}
    assert list(tmp_path.iterdir()) == []


def test_foreign_files_in_the_folder_are_removed(tmp_path: Path) -> None:
    (tmp_path / "something.else").write_bytes(b"x")
    (tmp_path / "000000000001.report.tmp").write_bytes(b"x")
    assert len(Outbox(tmp_path, FaultyDisk())) == 0
    assert list(tmp_path.iterdir()) == []
