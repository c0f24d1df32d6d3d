"""Frames on four threads: prepare -> engine -> finish -> compose, two frames at most before each, in order.

    prepare   reads the source at its pace, names the frame, fits it to the engine's sizes     own thread
    engine    `Agent.step` as it always was: its source is `feed`, its sink is `outlet`         the caller's thread
    finish    makes of the picture what the sink wants, measures what may be measured later     own thread
    compose   hands pictures to the sink, in the order in which frames came                     own thread

The throughput is that of the slowest stage. A frame that is late (`deadline_s` after it was read) and a frame behind a
stage that hangs (`hang_s` with one frame) is enlarged plainly and shown in its turn; what a stage makes of it
afterwards is dropped, and stages pass over frames that were shown already, so that they catch up with the newest.
Invariants: every frame that the source gave and the engine was to show is written once, in order, whatever a stage
does; without late frames the pictures are those of the engine alone, byte for byte; memory is bounded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from edge_agent.errors import VideoError
from edge_agent.picture import Pixels, enlarge, fit
from edge_agent.sinks import Finished, FinishingSink, Sink
from edge_agent.sources import Source, SourceFrame
from edge_agent.stages import StageRing, StageTrace

log = logging.getLogger(__name__)
BUFFERS = 2
IN_FLIGHT = 3 * (BUFFERS + 1)
"""Two before each of three stages, and one in each."""
END_S = 30.0
LAST_READ_S = 1.0
"""A source that was told to end may give one more frame within this."""


@dataclass(frozen=True)
class ConveyorSettings:
    """Frames a second of the source (0: as fast as they go), how many of them (0: all), seconds after which a frame is
    late (0: never) and after which a stage hangs.
    """

    fps: float = 0.0
    most: int = 0
    deadline_s: float = 0.0
    hang_s: float = 10.0


@dataclass
class Counts:
    """What happened since the start."""

    read: int = 0
    shown: int = 0
    late: int = 0
    errors: int = 0


@dataclass(eq=False)
class _Job:
    frame: SourceFrame
    trace: StageTrace
    born: float
    image: Pixels | None = None
    finished: Finished | None = None
    ready: bool = False
    """There is something to write, or nothing is to be written."""
    shown: bool = False
    wanted: bool = True
    """False when the engine shows nothing of this frame."""


@dataclass
class _Place:
    """Frames that wait before a stage, the one that it has, and since when."""

    waiting: deque[_Job] = field(default_factory=deque)
    busy: _Job | None = None
    since: float = 0.0

    def forget_shown(self) -> None:
        """Drop frames that were shown plainly meanwhile."""
        self.waiting = deque(job for job in self.waiting if not job.shown)


class Conveyor:
    """One source and one sink. `feed` and `outlet` belong to the thread that runs the engine."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        settings: ConveyorSettings | None = None,
        *,
        sizes: Callable[[], Sequence[tuple[int, int]]] = tuple,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        end_s: float = END_S,
    ) -> None:
        self._source, self._sink = source, sink
        self._settings = settings or ConveyorSettings()
        self.sizes = sizes
        self._now, self._monotonic, self._end_s = now, monotonic, end_s
        self._changed = threading.Condition()
        self._line: deque[_Job] = deque()
        self._engine, self._finish, self._compose = _Place(), _Place(), _Place()
        self._ended = self._closing = False
        self._ended_at = 0.0
        self._error: VideoError | None = None
        self.counts = Counts()
        self.traces = StageRing()
        self.feed, self.outlet = _Feed(self), _Outlet(self)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to read; the first `feed.next` does it too."""
        if self._threads:
            return
        for work in (self._prepare_all, self._finish_all, self._compose_all):
            thread = threading.Thread(target=work, name=work.__name__.strip("_").removesuffix("_all"), daemon=True)
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Read no further frame; those that were read go their way."""
        with self._changed:
            if not self._ended:
                self._ended, self._ended_at = True, self._monotonic()
            self._changed.notify_all()

    # prepare

    def _prepare_all(self) -> None:
        began = self._monotonic()
        try:
            while self._may_read():
                if self._settings.fps:
                    began = self._keep_pace(began)
                at, start = self._now(), self._monotonic()
                frame = self._source.next()
                if frame is None:
                    return
                self._take_in(frame, at, start)
        except VideoError as error:
            self._error = error
        except Exception as error:  # a bug of a source must reach the caller, not die with its thread
            log.exception("the source failed")
            self._error = VideoError(f"the source failed ({error!r}); give another source")
        finally:
            self.end()

    def _may_read(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._has_room())
            most = self._settings.most
            return not self._ended and not (most and self.counts.read >= most)

    def _has_room(self) -> bool:
        self._engine.forget_shown()
        return len(self._engine.waiting) < BUFFERS and len(self._line) < IN_FLIGHT

    def _keep_pace(self, began: float) -> float:
        """Wait for the frame's time; a source that is late starts afresh instead of catching up."""
        late = self._monotonic() - (began + self.counts.read / self._settings.fps)
        with self._changed:
            if late < 0 and not self._ended:
                self._changed.wait_for(lambda: self._ended, -late)
        return began + late if late > 1.0 else began

    def _take_in(self, frame: SourceFrame, at: float, start: float) -> None:
        read = self._monotonic()
        number = self.counts.read + 1
        sizes = tuple(self.sizes())
        fitted = (sizes, fit(frame.pixels, sizes)) if sizes else None
        trace = StageTrace(number, at)
        trace.add("capture", 0.0, read - start)
        trace.add("prepare", read - start, self._monotonic() - start)
        job = _Job(replace(frame, trace=number, fitted=fitted, later=[]), trace, start)
        with self._changed:
            self.counts.read = number
            self._line.append(job)
            self._engine.waiting.append(job)
            self._changed.notify_all()

    # engine

    def take(self) -> SourceFrame | None:
        """Return the next frame that was not shown yet; None at the end. Raises what ended the source."""
        self.start()
        with self._changed:
            self._let_go()
            while True:
                self._engine.forget_shown()
                if self._engine.waiting:
                    break
                if self._ended and (
                    not self._threads[0].is_alive() or self._monotonic() - self._ended_at > LAST_READ_S
                ):
                    if self._error is not None:
                        raise self._error
                    return None
                self._changed.wait(0.05)
            job = self._engine.waiting.popleft()
            self._engine.busy, self._engine.since = job, self._monotonic()
            self._changed.notify_all()
            return job.frame

    def made(self, image: Pixels) -> None:
        """Take the picture of the frame that was fed last."""
        with self._changed:
            job = self._engine.busy
            if job is None:
                return
            job.trace.add("engine", self._engine.since - job.born, self._monotonic() - job.born)
            self._engine.busy = None
            self._changed.wait_for(lambda: job.shown or self._may_finish())
            if not job.shown:
                job.image = image
                self._finish.waiting.append(job)
            self._changed.notify_all()

    def _may_finish(self) -> bool:
        self._finish.forget_shown()
        return len(self._finish.waiting) < BUFFERS

    def _let_go(self) -> None:
        """The frame before was played without a picture."""
        job, self._engine.busy = self._engine.busy, None
        if job is not None:
            job.ready, job.wanted = True, False
            self._changed.notify_all()

    # finish

    def _finish_all(self) -> None:
        while (job := self._next_to_finish()) is not None:
            start = self._monotonic()
            finished: Finished | None = None
            try:
                for work in job.frame.later or ():
                    work()
                if isinstance(self._sink, FinishingSink) and job.image is not None:
                    finished = self._sink.finish(job.image)
            except Exception:  # the picture itself is there; it is shown without
                self._count_error("finishing", job)
            with self._changed:
                job.trace.add("finish", start - job.born, self._monotonic() - job.born)
                job.finished, job.ready = finished, True
                self._finish.busy = None
                self._changed.notify_all()

    def _next_to_finish(self) -> _Job | None:
        with self._changed:
            while True:
                self._finish.forget_shown()
                finished = sum(job.ready and job.wanted for job in self._line)
                if self._finish.waiting and finished < BUFFERS:
                    job = self._finish.waiting.popleft()
                    self._finish.busy, self._finish.since = job, self._monotonic()
                    self._changed.notify_all()
                    return job
                if self._closing and not self._line:
                    return None
                self._changed.wait(0.1)

    # compose

    def _compose_all(self) -> None:
        while (job := self._next_to_compose()) is not None:
            start = self._monotonic()
            try:
                self._write(job)
            except Exception:  # the frames behind it go on
                self._count_error("composing", job)
            job.trace.add("compose", start - job.born, self._monotonic() - job.born)
            self.traces.record(job.trace)

    def _write(self, job: _Job) -> None:
        if not job.wanted:
            return
        if job.finished is not None and isinstance(self._sink, FinishingSink):
            self._sink.write_finished(job.finished)
        else:
            self._sink.write(enlarge(job.frame.pixels) if job.image is None or not job.ready else job.image)
        self.counts.shown += 1

    def _next_to_compose(self) -> _Job | None:
        """Wait for the oldest frame, until it is ready or must be shown as it is."""
        with self._changed:
            while True:
                if self._line:
                    job, wait = self._line[0], self._patience(self._line[0])
                    if job.ready or wait <= 0.0:
                        break
                    self._changed.wait(wait)
                elif self._closing:
                    return None
                else:
                    self._changed.wait(0.1)
            self._line.popleft()
            job.shown = True
            if not job.ready:
                self.counts.late += 1
                job.trace.anomalies += (self._why(job),)
            self._changed.notify_all()
            return job

    def _patience(self, job: _Job) -> float:
        """Return the seconds for which this frame may still be waited for."""
        settings, now = self._settings, self._monotonic()
        waits = [0.1] if not self._closing else [0.1, self._left_at_close(job)]
        if settings.deadline_s:
            waits.append(job.born + settings.deadline_s - now)
        waits += [place.since + settings.hang_s - now for place in (self._engine, self._finish) if place.busy]
        return min(waits)

    def _left_at_close(self, job: _Job) -> float:
        """At the end nobody feeds the engine any more: what did not reach it is shown as it is."""
        on_the_way = job is self._finish.busy or job in self._finish.waiting
        return 0.1 if on_the_way else 0.0

    def _why(self, job: _Job) -> str:
        for name, place in (("engine", self._engine), ("finish", self._finish)):
            if place.busy and self._monotonic() - place.since >= self._settings.hang_s:
                return f"{name} hangs"
        return "not played at the end" if self._closing else "late"

    def _count_error(self, what: str, job: _Job) -> None:
        if self.counts.errors == 0:
            log.exception("%s frame %s failed", what, job.frame.key)
        self.counts.errors += 1
        job.trace.anomalies += (f"{what} failed",)

    # the end

    def finish_and_close(self) -> None:
        """Show what was read, then close the sink."""
        self.end()
        with self._changed:
            self._let_go()
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads[1:]:
            thread.join(self._end_s)
        if any(thread.is_alive() for thread in self._threads[1:]):
            log.error("the sink hangs; it is left as it is")
            return
        self._sink.close()

    def close_source(self) -> None:
        """Let go of the source, unless it hangs."""
        self.end()
        if self._threads:
            self._threads[0].join(self._end_s)
        if not self._threads or not self._threads[0].is_alive():
            self._source.close()


class _Feed:
    """The engine's source."""

    def __init__(self, conveyor: Conveyor) -> None:
        self._conveyor = conveyor

    def next(self) -> SourceFrame | None:
        return self._conveyor.take()

    def close(self) -> None:
        self._conveyor.close_source()


class _Outlet:
    """The engine's sink."""

    def __init__(self, conveyor: Conveyor) -> None:
        self._conveyor = conveyor

    def write(self, frame: Pixels) -> None:
        self._conveyor.made(frame)

    def close(self) -> None:
        self._conveyor.finish_and_close()
