"""Concurrent requests become batches; each gets its own answer, and no more wait than may."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from services.kit.batching import Batcher, BatchLimits, Busy

LIMITS = BatchLimits(batch=10, at_once=1, waiting=20)


class Work:
    """Doubles numbers; odd ones are an error of their own. Waits for `go_on`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        assert self.go_on.wait(20)
        self.batches.append(list(items))
        return [2 * item if item % 2 == 0 else ValueError(str(item)) for item in items]


def run(work: Work, *items: int) -> list[object]:
    batcher: Batcher[int, int] = Batcher("test", work, LIMITS)

    async def submit_all() -> list[object]:
        return list(await asyncio.gather(*(batcher.submit(item) for item in items), return_exceptions=True))

    return asyncio.run(submit_all())


def test_a_lone_request_is_worked_on_at_once() -> None:
    work = Work()
    assert run(work, 4) == [8]
    assert work.batches == [[4]]


def test_what_comes_at_once_shares_a_batch_of_bounded_size() -> None:
    work = Work()
    assert run(work, *range(0, 32, 2)) == list(range(0, 64, 4))
    assert [len(batch) for batch in work.batches] == [10, 6]


def test_an_error_of_one_item_reaches_that_item_alone() -> None:
    answers = run(Work(), 2, 3, 4)
    assert (answers[0], answers[2]) == (4, 8)
    assert isinstance(answers[1], ValueError)


def test_a_failure_of_the_work_reaches_everybody_and_the_next_batch_works() -> None:
    calls: list[int] = []

    def fails_once(items: Sequence[int]) -> list[int | Exception]:
        calls.append(len(items))
        if len(calls) == 1:
            raise RuntimeError("broken")
        return list(items)

    batcher: Batcher[int, int] = Batcher("test", fails_once, LIMITS)

    async def twice() -> tuple[list[object], int]:
        first = await asyncio.gather(batcher.submit(1), batcher.submit(2), return_exceptions=True)
        return list(first), await batcher.submit(3)

    first, second = asyncio.run(twice())
    assert all(isinstance(error, RuntimeError) for error in first)
    assert second == 3


def test_more_than_may_wait_is_refused_with_a_time_to_come_back() -> None:
    work = Work()
    work.go_on.clear()
    batcher: Batcher[int, int] = Batcher("test", work, LIMITS)

    async def overfill() -> list[object]:
        waiting = [asyncio.create_task(batcher.submit(0)) for _ in range(60)]
        await asyncio.sleep(0.1)
        work.go_on.set()
        return list(await asyncio.gather(*waiting, return_exceptions=True))

    answers = asyncio.run(overfill())
    refused = [answer for answer in answers if isinstance(answer, Busy)]
    assert len(refused) >= 60 - LIMITS.waiting - LIMITS.batch
    assert all(1 <= int(answer.headers["Retry-After"]) <= 60 for answer in refused)
    assert answers.count(0) == 60 - len(refused)


def test_a_request_that_was_given_up_disturbs_nobody() -> None:
    work = Work()
    work.go_on.clear()
    batcher: Batcher[int, int] = Batcher("test", work, LIMITS)

    async def give_up() -> int:
        gone, stays = asyncio.create_task(batcher.submit(2)), asyncio.create_task(batcher.submit(4))
        await asyncio.sleep(0.05)
        gone.cancel()
        work.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return await stays

    assert asyncio.run(give_up()) == 8


def test_another_event_loop_may_take_over() -> None:
    batcher: Batcher[int, int] = Batcher("test", Work(), LIMITS)
    assert [asyncio.run(batcher.submit(number)) for number in (2, 4)] == [4, 8]
