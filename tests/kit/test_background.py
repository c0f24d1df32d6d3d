"""Tasks, schedule, locks, token buckets and logs."""

from __future__ import annotations

import json
import logging

import pytest
from celery.beat import ScheduleEntry

from services import worker
from services.kit import ratelimit
from services.kit.database import transaction, try_lock
from services.kit.discovery import part
from services.kit.logs import configure_logs
from services.kit.problems import TooManyRequests
from services.kit.ratelimit import Rate, TokenBucket
from services.kit.settings import Settings
from services.kit.tasks import QUEUES, ROUTES, SCHEDULE, task


def test_every_scheduled_task_is_registered_and_has_a_queue(platform: Settings) -> None:
    worker.app.loader.import_default_modules()
    registered = set(worker.app.tasks)
    assert SCHEDULE
    for name, entry in SCHEDULE.items():
        assert entry["task"] in registered, name
        assert ROUTES[entry["task"]] in QUEUES
        assert entry["options"]["expires"] <= max(1.0, entry["schedule"])
        ScheduleEntry(name=name, app=worker.app, **entry)


def test_a_task_of_an_unknown_queue_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="unknown queue 'nowhere'"):
        task(queue="nowhere")


def test_a_lock_is_held_by_one_transaction_at_a_time(platform: Settings) -> None:
    with transaction() as one, transaction() as other:
        assert try_lock(one, "work")
        assert not try_lock(other, "work")
        assert try_lock(other, "other work")
    with transaction() as later:
        assert try_lock(later, "work")


@pytest.mark.parametrize("redis_is_up", [True, False])
def test_a_bucket_lets_a_burst_through_and_then_names_the_wait(
    platform: Settings, redis_is_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not redis_is_up:
        monkeypatch.setattr(ratelimit, "connection", _no_redis)
    bucket = TokenBucket(f"test-{redis_is_up}", Rate(per_second=0.1, burst=3))
    for _ in range(3):
        bucket.take("a")
    with pytest.raises(TooManyRequests) as refused:
        bucket.take("a")
    assert refused.value.headers["Retry-After"] == "10"
    bucket.take("b")


def _no_redis() -> None:
    raise ratelimit.redis.ConnectionError("Redis is down")


def test_a_part_that_is_absent_is_passed_over_and_a_broken_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert part("telemetry", "no_such_part") is None

    def broken(_: str) -> None:
        raise ModuleNotFoundError("No module named 'onnx'", name="onnx")

    monkeypatch.setattr("services.kit.discovery.importlib.import_module", broken)
    with pytest.raises(ModuleNotFoundError):
        part("telemetry", "api")


def test_logs_are_json_lines_with_a_trace_and_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    import structlog

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure_logs("api")
        structlog.get_logger("x").info("enrolled", device="d1", access_token="el_1_secret", Authorization="Bearer x")
        logging.getLogger("other").warning("from the library %s", "itself")
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
    assert lines[0]["event"] == "enrolled"
    assert (lines[0]["access_token"], lines[0]["Authorization"]) == ("***", "***")
    assert lines[0]["service"] == "api"
    assert len(lines[0]["trace_id"]) == 32
    assert lines[1]["event"] == "from the library itself"
