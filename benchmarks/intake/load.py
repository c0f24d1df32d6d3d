"""The load generator, a process of its own: `python -m benchmarks.intake.load` with an `Order` as JSON on stdin.

Every device of the order sends its report once, with its own token, over a fixed number of connections that stay open.
Two ways: as fast as answers come (`rate` 0), or on a fixed timetable, where latency counts from the moment that the
report was due, so a slow server cannot hide by slowing the generator down. A report that is not answered 202 (429,
503, a broken connection) is sent again after a pause until it is: what the order names is delivered, or the order
runs out of time. Standard output: a `Result` as JSON. Lines `progress N` go to standard error.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass

from benchmarks.intake import fleet

TELL_EVERY_S = 0.5
PAUSE_S = 0.2
END = b"\r\n\r\n"


@dataclass(frozen=True)
class Order:
    """Which devices (`first` up to `first + count`) report to which server, and how.

    `rate` is reports a second by timetable, 0 as fast as answers come. With `one_token` all come from one token. The
    order is given up after `seconds`.
    """

    host: str
    port: int
    first: int
    count: int
    day: int
    connections: int
    rate: float = 0.0
    seconds: float = 300.0
    one_token: bool = False


@dataclass(frozen=True)
class Result:
    """What happened. Times in seconds; `statuses` counts every answer, `broken` connections that ended early.

    Of the order's devices the first `sent` were sent at all; of these `missing` were never acknowledged.
    """

    seconds: float
    cpu_seconds: float
    accepted: int
    duplicates: int
    sent: int
    missing: list[int]
    statuses: dict[str, int]
    broken: int
    latencies: list[float]


class Run:
    """State that all connections share."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.next_device = order.first
        self.again: list[tuple[float, int, float]] = []
        self.open: set[int] = set()
        self.accepted = self.duplicates = self.broken = 0
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        self.begun = time.perf_counter()
        self.done = asyncio.Event()

    def take(self) -> tuple[int, float] | float | None:
        """The next device and when it was due; or the seconds to wait for one; or None when nothing is left."""
        now = time.perf_counter()
        if self.again and self.again[0][0] <= now:
            _, device, due = heapq.heappop(self.again)
            return device, due
        if self.next_device < self.order.first + self.order.count:
            position = self.next_device - self.order.first
            due = self.begun + position / self.order.rate if self.order.rate else now
            if due > now:
                return due - now
            self.next_device += 1
            self.open.add(self.next_device - 1)
            return self.next_device - 1, due
        return max(0.001, self.again[0][0] - now) if self.again else None

    def put_back(self, device: int, due: float, pause: float) -> None:
        """Send this one again later."""
        heapq.heappush(self.again, (time.perf_counter() + pause, device, due))

    def finish(self, device: int, due: float, duplicate: bool) -> None:
        """It was accepted."""
        self.accepted += 1
        self.duplicates += duplicate
        self.latencies.append(time.perf_counter() - due)
        self.open.discard(device)
        if len(self.open) == 0 and self.next_device >= self.order.first + self.order.count:
            self.done.set()


class Connection(asyncio.Protocol):
    """One open connection: a request, its answer, the next request."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._transport: asyncio.Transport | None = None
        self._current: tuple[int, float] | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._go_on()

    def connection_lost(self, error: Exception | None) -> None:
        run = self._run
        if self._current is not None:
            run.broken += 1
            run.put_back(*self._current, PAUSE_S)
            self._current = None
        self._transport = None
        if not run.done.is_set():
            asyncio.get_running_loop().call_later(PAUSE_S, lambda: keep(asyncio.ensure_future(connect(run))))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(END)
        if not end:
            return
        length = _length(head)
        if len(body) < length:
            return
        self._buffer = body[length:]
        self._answered(int(head[9:12]), head, body)

    def _answered(self, status: int, head: bytes, body: bytes) -> None:
        assert self._current is not None
        (device, due), self._current = self._current, None
        self._run.statuses[status] += 1
        if status == 202:
            self._run.finish(device, due, b'"duplicate":true' in body)
        else:
            self._run.put_back(device, due, _retry_after(head))
        self._go_on()

    def _go_on(self) -> None:
        if self._transport is None or self._current is not None:
            return
        taken = self._run.take()
        if taken is None:
            if not self._run.done.is_set():
                asyncio.get_running_loop().call_later(0.05, self._go_on)
        elif isinstance(taken, float):
            asyncio.get_running_loop().call_later(min(taken, 0.5), self._go_on)
        else:
            self._current = taken
            self._transport.write(request(self._run.order, taken[0]))


def request(order: Order, device: int) -> bytes:
    """The bytes of one POST."""
    body = fleet.report(device, order.day)
    bearer = fleet.token(order.first if order.one_token else device)
    head = (
        f"POST /telemetry/v1/reports HTTP/1.1\r\nHost: {order.host}\r\nAuthorization: Bearer {bearer}\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def connect(run: Run) -> None:
    """Open a connection; tries again until the order is done."""
    while not run.done.is_set():
        try:
            await asyncio.get_running_loop().create_connection(lambda: Connection(run), run.order.host, run.order.port)
            return
        except OSError:
            await asyncio.sleep(PAUSE_S)


async def deliver(order: Order) -> Result:
    """Deliver everything that the order names, or stop when its time is over."""
    fleet.templates(order.day)
    run, cpu = Run(order), time.process_time()
    for _ in range(order.connections):
        keep(asyncio.ensure_future(connect(run)))
    teller = asyncio.ensure_future(_tell(run))
    try:
        await asyncio.wait_for(run.done.wait(), order.seconds)
    except TimeoutError:
        run.done.set()
    teller.cancel()
    seconds = time.perf_counter() - run.begun
    missing = sorted(run.open)
    return Result(
        seconds=seconds,
        cpu_seconds=time.process_time() - cpu,
        accepted=run.accepted,
        duplicates=run.duplicates,
        sent=run.next_device - order.first,
        missing=missing,
        statuses={str(status): count for status, count in run.statuses.items()},
        broken=run.broken,
        latencies=[round(each, 6) for each in run.latencies],
    )


async def _tell(run: Run) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        print(f"progress {run.accepted}", file=sys.stderr, flush=True)


_tasks: set[asyncio.Future[None]] = set()


def keep(task: asyncio.Future[None]) -> None:
    """Hold a reference until the task is done, as the loop does not."""
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _length(head: bytes) -> int:
    low = head.lower()
    start = low.find(b"content-length:")
    return int(low[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0


def _retry_after(head: bytes) -> float:
    low = head.lower()
    start = low.find(b"retry-after:")
    return float(low[start + 12 :].split(b"\r\n", 1)[0]) if start >= 0 else PAUSE_S


def main() -> None:
    """Read the order, deliver, write the result."""
    order = Order(**json.load(sys.stdin))
    json.dump(asdict(asyncio.run(deliver(order))), sys.stdout)


if __name__ == "__main__":
    main()
