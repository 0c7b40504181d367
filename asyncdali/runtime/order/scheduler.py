"""The order in which segments of iterations start, and the stream of each segment.

Iterations are admitted in order. A segment of iteration k starts when its producers have finished iteration k and the same segment is
planned for iteration k-1, because its position is known then. `OperatorConcurrency` and the streams of `StreamPolicy` limit this further.

*Decoding ahead.* A pipeline that decodes pictures for a GPU has three steps: decode, queue the launches, return the outputs. Beside a
thread that runs pure Python the last two wait for the interpreter, 5 ms each. With two iterations in flight the decoders have nothing to do
during one of these waits. So one iteration more than `prefetch_queue_depth` is queued, and its pictures are decoded. Its GPU segments,
which need memory for outputs, are held back until the next iteration is queued or a caller waits for this one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence

from ...device.base import Stream
from ...types import OperatorConcurrency, StreamPolicy
from ..work.segments import BuiltSegment
from .record import NumberedSegment, Record


class Scheduler:
    """Decides which segments start. It keeps the state of iterations and runs nothing. Not thread-safe."""

    def __init__(
        self,
        segments: Sequence[BuiltSegment],
        concurrency: OperatorConcurrency,
        start: Callable[[BuiltSegment, Record], None],
        resume: Callable[[Callable[[], None]], None] | None = None,
    ):
        """`resume`: makes a decision call :meth:`pump`, for a pipeline that decodes ahead. None: it does not."""
        self._segments = segments
        self._start = start
        self._let_go = None if resume is None else functools.partial(resume, self.pump)
        self._newest = -1
        self._most_running = 1 if concurrency == OperatorConcurrency.NONE else sys.maxsize
        self._limited = {"cpu"} if concurrency == OperatorConcurrency.FULL else {"cpu", "mixed", "gpu"}
        self._records: dict[int, Record] = {}
        self._next = [0] * len(segments)
        self._planning: dict[int, int] = {}  # segment -> iteration that is being planned
        self._running = 0
        self._pumping = False
        self._again = False  # a nested call has asked for another look at all segments
        self._busy_backends: set[str] = set()

    def resume(self, records: Iterable[Record], admitted: int) -> None:
        """Continue with iterations in flight. All `admitted` iterations were started without this scheduler."""
        self._records = {record.index: record for record in records}
        self._next = [admitted] * len(self._segments)
        self._running = len(self._records)

    def begin_at(self, index: int) -> None:
        """No iteration is in progress. The next one has this index."""
        self._next = [index] * len(self._segments)

    def admit(self, record: Record) -> None:
        """Begin an iteration. Iterations come in order."""
        record.lane = self
        self._records[record.index] = record
        self._newest = record.index
        self.pump()

    def leave(self, record: Record) -> None:
        """The iteration is done. :meth:`done` has forgotten it."""

    def planned(self, segment: NumberedSegment, record: Record) -> None:
        """The segment's positions after this iteration are known, so the next iteration may be planned.

        Reported once or twice per iteration; the second report may come when the next iteration is already being planned.
        """
        if self._planning.get(segment.index) == record.index:
            del self._planning[segment.index]
            self._busy_backends.discard(segment.backend)

    def done(self, segment: NumberedSegment, record: Record) -> bool:
        """The segment is done for this record. Returns True if the whole record is done."""
        self.planned(segment, record)
        self._running -= 1
        record.done_segments.add(segment.index)
        if len(record.done_segments) < len(self._segments):
            return False
        del self._records[record.index]
        return True

    def pump(self) -> None:
        """Start every segment that may start, oldest iterations first."""
        self._again = True
        if self._pumping or not self._records:
            return  # a nested call (an iteration that failed immediately), where the outer loop continues; or nothing is in progress
        self._pumping = True
        planning, busy = self._planning, self._busy_backends
        try:
            while self._again:
                self._again = False
                for segment in self._segments:
                    index = segment.index
                    if index in planning or segment.backend in busy or self._running >= self._most_running:
                        continue
                    record = self._records.get(self._next[index])
                    if record is None or not segment.producers <= record.done_segments:
                        continue
                    if self._let_go is not None and segment.backend == "gpu" and self._holds(record):
                        continue
                    self._next[index] += 1
                    planning[index] = record.index
                    self._running += 1
                    if segment.backend in self._limited:
                        busy.add(segment.backend)
                    self._start(segment, record)
        finally:
            self._pumping = False

    def _holds(self, record: Record) -> bool:
        """Whether an iteration is held back, because it is the newest and no caller waits for it."""
        if record.index != self._newest:
            return False
        record.let_go = self._let_go  # before `awaited` is read; see ``Record.on_finished``
        return not record.awaited


def assign_streams(segments: list[BuiltSegment], policy: StreamPolicy, make: Callable[[str], Stream]) -> list[Stream]:
    """Assigns a stream to every segment. CPU segments share the CPU stage; the others follow `policy`.

    SINGLE: one stream for all. PER_BACKEND: one for mixed and one for gpu. PER_OPERATOR: a segment continues the lowest-numbered stream of
    its producers that no other segment has continued; otherwise it opens a new stream.
    """
    streams: list[Stream] = []
    numbers: dict[int, int] = {}
    continued: set[int] = set()
    opened = 0
    for segment in segments:
        if segment.backend == "cpu":
            streams.append(make("cpu"))
        elif policy == StreamPolicy.SINGLE:
            streams.append(make("stream"))
        elif policy == StreamPolicy.PER_OPERATOR:
            numbered = [index for index in segment.producers if index in numbers and index not in continued]
            free = sorted(numbered, key=numbers.__getitem__)
            if free:
                continued.add(free[0])
                numbers[segment.index] = numbers[free[0]]
            else:
                numbers[segment.index] = opened
                opened += 1
            streams.append(make(f"stream-{numbers[segment.index]}"))
        else:
            streams.append(make(segment.backend))
    return streams
