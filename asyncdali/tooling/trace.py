"""Traces of a running pipeline, in the format of chrome://tracing and https://ui.perfetto.dev.

Each thread, stream, worker process and stage has a lane, including those of engines. Arrows link the spans of one iteration.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asyncdali_workers.interrupts import uninterrupted

if TYPE_CHECKING:
    from ..pipeline import Pipeline

_SAMPLING = 0.005
_CONSUMER = "MainThread"


@dataclass(frozen=True)
class Span:
    """One span of work on a lane: start and end (ns, ``time.perf_counter_ns``), and the iteration."""

    what: str
    began: int
    ended: int
    iteration: int
    lane: str


@dataclass(frozen=True)
class Level:
    """The level of a quantity at a time (ns)."""

    what: str
    time: int
    value: int


class TraceRecorder:
    """Collects spans and levels from all threads. Keeps at most `limit` of each and drops the oldest."""

    def __init__(self, limit: int = 200_000):
        self.spans: deque[Span] = deque(maxlen=limit)
        self.levels: deque[Level] = deque(maxlen=limit)

    def span(self, what: str, began: int, ended: int, iteration: int, lane: str | None = None) -> None:
        """Add a span. `lane` defaults to the calling thread."""
        self.spans.append(Span(what, began, ended, iteration, lane or _lane(threading.current_thread().name)))

    def level(self, what: str, time: int, value: int) -> None:
        """Record the current level of a quantity."""
        self.levels.append(Level(what, time, value))

    def chrome(self) -> dict[str, object]:
        """The trace as JSON data."""
        spans = sorted(self.spans, key=lambda span: span.began)
        lanes = {lane: number for number, lane in enumerate(sorted({span.lane for span in spans}, key=_rank))}
        pid = os.getpid()
        start = min([*[span.began for span in spans], *[level.time for level in self.levels]], default=0)
        events: list[dict[str, Any]] = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": "asyncdali"}}]
        for lane, number in lanes.items():
            events.append({"ph": "M", "pid": pid, "tid": number, "name": "thread_name", "args": {"name": lane}})
            events.append({"ph": "M", "pid": pid, "tid": number, "name": "thread_sort_index", "args": {"sort_index": number}})
        for span in spans:
            events.append({
                "ph": "X", "pid": pid, "tid": lanes[span.lane], "name": span.what, "ts": (span.began - start) / 1e3,
                "dur": (span.ended - span.began) / 1e3, "args": {"iteration": span.iteration},
            })  # fmt: skip
        events += _arrows(spans, lanes, pid, start)
        for level in self.levels:
            events.append({
                "ph": "C", "pid": pid, "name": level.what, "ts": (level.time - start) / 1e3, "args": {"value": level.value},
            })  # fmt: skip
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def write(self, path: str) -> None:
        """Write the trace to a file."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.chrome(), file)


def _arrows(spans: list[Span], lanes: dict[str, int], pid: int, start: int) -> list[dict[str, object]]:
    """Flow events through the spans of each iteration, in order of time. Iteration -1 means none."""
    events = []
    chains: dict[int, list[Span]] = {}
    for span in spans:
        if span.iteration >= 0:
            chains.setdefault(span.iteration, []).append(span)
    for iteration, chain in chains.items():
        for k, span in enumerate(chain if len(chain) > 1 else []):
            phase = "s" if k == 0 else ("f" if k == len(chain) - 1 else "t")
            event = {
                "ph": phase, "pid": pid, "tid": lanes[span.lane], "name": "iteration", "cat": "iteration", "id": iteration,
                "ts": (span.began - start) / 1e3,
            }  # fmt: skip
            if phase == "f":
                event["bp"] = "e"
            events.append(event)
    return events


def _lane(thread: str) -> str:
    """A thread's name without the number of its pipeline: "asyncdali-7f..-worker-0" -> "worker-0"."""
    if thread == _CONSUMER:
        return "consumer"
    parts = thread.split("-", 2)
    return parts[2] if parts[0] == "asyncdali" and len(parts) == 3 else thread


def _rank(lane: str) -> tuple[int, str]:
    kinds = ("consumer", "sources", "engine", "process", "cpu", "mixed", "gpu", "stream", "segment", "worker")
    return next((k for k, kind in enumerate(kinds) if lane.startswith(kind)), len(kinds)), lane


class WorkerSampler:
    """Samples the counters of a pipeline's worker processes at the start, every 5 ms and at the end, and records the work in between.

    Spans have the right length; their positions are exact to 5 ms.
    """

    def __init__(self, pipeline: Pipeline, recorder: TraceRecorder):
        self._pipeline = pipeline
        self._recorder = recorder
        self._seen: dict[int, tuple[int, float]] = {}
        self._ended: dict[int, int] = {}  # end of the last span of each worker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asyncdali-trace-workers", daemon=True)

    def __enter__(self) -> WorkerSampler:
        if self._pipeline.worker_statistics():
            self._look()
            with uninterrupted():
                self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._look()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLING):
            self._look()

    def _look(self) -> None:
        """Record the work of each worker since the last sample. The first sample is the start."""
        time_now = time.perf_counter_ns()
        for number, worker in enumerate(self._pipeline.worker_statistics().get("workers", ())):
            tasks, busy = worker["tasks"], worker["busy_seconds"]
            known, so_far = self._seen.get(number, (tasks, busy))
            if busy > so_far:
                what = f"{tasks - known} tasks" if tasks - known != 1 else "1 task"
                took = int((busy - so_far) * 1e9)
                # A span begins behind the previous span of its lane, because overlapping spans cannot be drawn.
                began = max(time_now - took, self._ended.get(number, 0))
                self._ended[number] = began + took
                self._recorder.span(what, began, began + took, -1, f"process {number} ({worker['pid']})")
            self._seen[number] = (tasks, busy)
