"""How many requests may use the database at a time: no more than there are connections; the others wait their turn.

A request holds its connection while it waits for a thread between its dependencies and its route. Without a bound,
enough requests at once hold every connection and wait for threads, while every thread waits for a connection: nothing
moves until the pool's time-out. With it, whoever was let in finds a connection. Those who wait cost no thread; one who
waits too long is told to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter
from fastapi import Depends

from services.kit.limits import HTTP
from services.kit.problems import Unavailable
from services.kit.settings import settings

RESERVED = 2  # connections that polls keep for themselves
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_aside: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()


def capacity() -> int:
    """Requests that may use the database at a time: the pool with its overflow, less what polls keep."""
    return max(2 * settings().database_pool - RESERVED, 1)


async def admission() -> AsyncIterator[None]:
    """FastAPI dependency of every session: wait for a place. Raises Unavailable after `HTTP.admission_s`."""
    slots = _of_this_loop()
    try:
        await asyncio.wait_for(slots.acquire(), HTTP.admission_s)
    except TimeoutError as error:
        raise Unavailable("the service has more work than it can do; try again in a few seconds") from error
    try:
        yield
    finally:
        slots.release()


def polls_aside() -> CapacityLimiter:
    """Threads of their own for what polls must look up, so that no other work can hold them up."""
    loop = asyncio.get_running_loop()
    if loop not in _aside:
        _aside[loop] = CapacityLimiter(RESERVED)
    return _aside[loop]


def _of_this_loop() -> asyncio.Semaphore:
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = asyncio.Semaphore(capacity())
    return _slots[loop]


Admission = Annotated[None, Depends(admission, scope="function")]
