"""``asyncdali bench --what-if``: the rate that other settings would give, from one measurement.

The model is a closed queueing network with service times that vary little. Its stations are the consumer (with the sources that
run in its thread), awaited sources, worker processes, planning (one batch at a time), storage, the worker threads, the processors and the
interpreter. A batch is planned when all its files are read, and the thread that plans reads, too: reads wait for storage in rounds of
`threads` + 1 files. At most `depth` batches are in the network. Such a network is as fast as its slowest station, and a batch passes all
stations one after the other, so the rate is the smallest of the bounds in :func:`bounds` (asymptotic bounds: Denning and Buzen, "The
operational analysis of queueing network models", Computing Surveys 10, 1978). What the bounds do not explain of the measured time of a
batch (hand-overs, wake-ups) stays the same with other settings.

``bench_report.py`` has the same formulas in JavaScript for its sliders; tests/unit/tooling/test_what_if.py compares both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .bottleneck import WAITS
from .sharing import WORKERS

if TYPE_CHECKING:
    from .measure import Measurement

_GAIN = 1.03
"""A knob that is predicted to gain less than this factor is not advised: predictions are not that exact."""
_WAITS = 0.05
"""Storage is named if threads wait for this share of their time."""


@dataclass(frozen=True)
class Knobs:
    """Settings that do not change the stream of batches, and two properties of the machine.

    `fetch`: batches that awaited sources are asked for ahead. `cores`: processors; not whole if other programs use them, too.
    `storage`: how many times faster than the measured one.
    """

    threads: int
    depth: int
    workers: int
    engines: int
    fetch: int
    cores: float
    storage: float = 1.0


@dataclass(frozen=True)
class Demands:
    """The seconds of each station that one batch needs.

    Attributes:
        consumer: between two calls of ``run()``. called: sources that run in the consumer's thread. calling: processor time of them.
        awaited: from asking an awaited source to its answer; 0 if no such source limits the rate.
        workers: of worker processes, summed. planning: on the busiest stage thread. passing: on all stage threads.
        computing: processor time of worker threads. waiting: the time in which they wait for storage.
        slowest: processor time of the slowest sample. elsewhere: processor time that the worker threads do not use.
        interpreter: with the interpreter held, the consumer's step included if it is Python. planning_interpreter: its part in planning.
        samples: of a batch. measured: from one batch to the next. reading: the part of `waiting` in which files are read before planning.
            It is taken for latency: more reads at a time are as fast as few.
    """

    consumer: float
    called: float
    awaited: float
    workers: float
    planning: float
    passing: float
    computing: float
    waiting: float
    slowest: float
    elsewhere: float
    interpreter: float
    planning_interpreter: float
    samples: float
    measured: float
    calling: float = 0.0
    reading: float = 0.0


def bounds(need: Demands, given: Knobs) -> dict[str, float]:
    """The seconds from one batch to the next that each station allows at least."""
    beside = max(1, given.engines)
    reading = min(need.reading, need.waiting) / given.storage
    working = need.computing + need.waiting / given.storage - reading
    rounds = math.ceil(need.samples / (given.threads + 1)) * reading / max(1.0, need.samples)
    pixels = max(working / given.threads, need.slowest)
    interpreter = need.interpreter - (need.planning_interpreter if given.engines else 0.0)
    return {
        "consumer": need.consumer + need.called,
        "source": need.awaited / max(1, given.fetch),
        "workers": need.workers / max(1, given.workers),
        "planning": need.planning / beside,
        "threads": (working / given.threads + reading / (given.threads + 1)) / beside,
        "storage": (need.planning + rounds) / beside if reading else 0.0,
        "cores": (need.computing + need.elsewhere) / given.cores,
        "interpreter": max(0.0, interpreter),
        "queue": (need.consumer + need.called + need.passing + pixels + rounds) / given.depth,
    }


def seconds(need: Demands, now: Knobs, then: Knobs, later: Demands | None = None) -> float:
    """The predicted seconds from one batch to the next, with the settings `then`, if a batch then needs `later` (default: `need`).

    `need` and `now` are those of the measurement.
    """
    modelled = max(bounds(need, now).values())
    predicted = max(bounds(need if later is None else later, then).values())
    if need.measured >= modelled:
        return predicted + need.measured - modelled
    return predicted * need.measured / modelled


def limit(need: Demands, given: Knobs) -> str:
    """The station that limits the rate with these settings."""
    found = bounds(need, given)
    return max(found, key=found.__getitem__)


@dataclass(frozen=True)
class Forecast:
    """One knob: its `name` as an argument of the pipeline, or words; its `value`; the predicted samples per second; the limit then.

    `factor`: of the measured rate. `is_setting`: whether it is an argument of the pipeline, and not another source, storage or machine.
    Words say the value, too.
    """

    name: str
    value: Any
    rate: float
    factor: float
    limit: str
    is_setting: bool

    @property
    def shown(self) -> str:
        """The change for people: an argument with its value, or words."""
        return f"{self.name}={self.value}" if self.is_setting else self.name


@dataclass(frozen=True)
class WhatIf:
    """The answer: what a batch needs, the measured settings, and a prediction per knob, largest gain first."""

    need: Demands
    now: Knobs
    rows: list[Forecast]

    @property
    def first(self) -> Forecast | None:
        """The setting to turn first; None: no setting gains 3 %."""
        gains = [row for row in self.rows if row.is_setting and row.factor >= _GAIN]
        return gains[0] if gains else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        first = self.first
        return {
            "need": dataclasses.asdict(self.need), "now": dataclasses.asdict(self.now), "limit": limit(self.need, self.now),
            "rows": [dataclasses.asdict(row) for row in self.rows], "first": None if first is None else dataclasses.asdict(first),
        }  # fmt: skip


def what_if(found: Measurement) -> WhatIf:
    """Predictions from one measurement."""
    need, now = demands(found), knobs(found)
    rows = [_row(need, now, *turned) for turned in _turned(need, now)]
    return WhatIf(need, now, sorted(rows, key=lambda row: -row.rate))


def _row(need: Demands, now: Knobs, name: str, value: object, then: Knobs, is_setting: bool, later: Demands | None = None) -> Forecast:
    took = seconds(need, now, then, later)
    return Forecast(name, value, need.samples / took, need.measured / took, limit(later or need, then), is_setting)


def _turned(need: Demands, now: Knobs) -> Iterator[tuple[Any, ...]]:
    """(name, value, settings, whether it is an argument of the pipeline[, other demands]) of each knob."""
    for threads in filter(None, (2 * now.threads, now.threads // 2)):
        yield "num_threads", threads, dataclasses.replace(now, threads=threads), True
    for depth in dict.fromkeys((now.depth + 1, 2 * now.depth, now.depth + 4)):
        yield "prefetch_queue_depth", depth, dataclasses.replace(now, depth=depth), True
    if need.workers:
        for workers in dict.fromkeys((now.workers + 1, 2 * now.workers, 4 * now.workers)):
            yield "py_num_workers", workers, dataclasses.replace(now, workers=workers), True
    for engines in (now.engines + 1, now.engines + 2):
        depth = max(now.depth, engines + 1)
        yield "engines", engines, dataclasses.replace(now, engines=engines, depth=depth), True
    if need.awaited:
        yield f"{2 * now.fetch} batches asked for ahead", 2 * now.fetch, dataclasses.replace(now, fetch=2 * now.fetch), False
    if need.called > 0.1 * need.measured:
        held = max(0.0, need.interpreter - need.calling)
        ahead = dataclasses.replace(need, called=0.0, workers=need.workers + need.called, interpreter=held)
        yield "the called sources in 2 workers", 2, dataclasses.replace(now, workers=2), False, ahead
    if need.waiting > _WAITS * (need.computing + need.waiting):
        yield "storage twice as fast", 2, dataclasses.replace(now, storage=2.0), False
    yield "twice the processors", round(2 * now.cores, 2), dataclasses.replace(now, cores=2 * now.cores), False
    threads = 2 * now.threads
    yield f"twice the processors and num_threads={threads}", threads, dataclasses.replace(now, cores=2 * now.cores, threads=threads), False


def knobs(found: Measurement) -> Knobs:
    """The settings of a measurement."""
    engines, workers = found.statistics["engines"], found.statistics["workers"]
    fetch = max((item["prefetch"] for item in found.statistics["sources"] if item["kind"] == "awaited"), default=0)
    return Knobs(
        threads=found.statistics["threads"]["count"], depth=found.statistics["queue"]["depth"],
        workers=workers["count"] if workers else 0, engines=len(engines), fetch=fetch,
        cores=max(0.1, found.cores - found.sharing["others_seconds"] / found.seconds),
    )  # fmt: skip


def demands(found: Measurement) -> Demands:
    """The seconds of each station that one batch needed in a measurement."""
    told, batches = found.statistics, found.iterations
    engines, threads = told["engines"], told["threads"]
    stretch = found.sharing["stretch"].get(WORKERS, 1.0)
    computing = threads["processor_seconds"] + sum(item["pixels_seconds"] for item in engines) / stretch
    waiting = max(0.0, threads["busy_seconds"] - threads["processor_seconds"] * stretch)
    reading = sum(max(0.0, item["prepare_seconds"] - item["prepare_processor_seconds"] * stretch) for item in told["operators"])
    planning: dict[str, float] = {}
    for item in told["segments"]:
        planning[item["stream"]] = planning.get(item["stream"], 0.0) + item["planning_seconds"]
    of_engines = sum(item["planning_seconds"] for item in engines)
    called = sum(item["wait_seconds"] for item in told["sources"] if item["kind"] == "called")
    step = _held_by_the_step(found)
    workers = told["workers"]["busy_seconds"] if told["workers"] else 0.0  # waiting included, unlike the counts of the system
    used = found.processor_seconds + step if found.sharing["is_estimated"] else found.sharing["own_seconds"]
    planning_processor = sum(item["planning_processor_seconds"] for item in told["segments"])
    return Demands(
        consumer=told["consumer"]["away_seconds"] / batches, called=called / batches, awaited=_awaited(told, found.seconds) / batches,
        workers=workers / batches, planning=max([*planning.values(), of_engines]) / batches,
        passing=(sum(planning.values()) + of_engines) / batches, computing=computing / batches, waiting=waiting / batches,
        slowest=sum(item["slowest_sample_seconds"] for item in told["segments"]) / batches,
        elsewhere=max(0.0, used - threads["processor_seconds"]) / batches,
        interpreter=(found.interpreter_seconds + step) / batches,
        planning_interpreter=min(found.interpreter_seconds, planning_processor) / batches,
        samples=found.samples / batches, measured=found.seconds / batches,
        calling=sum(item["processor_seconds"] for item in told["sources"] if item["kind"] == "called") / batches,
        reading=min(reading, waiting) / batches,
    )  # fmt: skip


def _held_by_the_step(found: Measurement) -> float:
    """The seconds in which a training step of Python held the interpreter."""
    beside = found.consumer
    return beside["step_alone_ms"] * 1e-3 * found.iterations if beside is not None and beside["simulated"] else 0.0


def _awaited(told: dict[str, Any], elapsed: float) -> float:
    """The summed latency of the awaited source that limits the rate (Little's law: all batches asked for are on their way); else 0."""
    waits = [item for item in told["sources"] if item["kind"] == "awaited" and item["wait_seconds"] > WAITS * elapsed]
    return max((elapsed * max(1, item["prefetch"]) for item in waits), default=0.0)


def text(found: WhatIf) -> str:
    """The predictions as lines for people."""
    rate = found.need.samples / found.need.measured
    lines = [f"what if (now {rate:,.0f} samples/s, limit: {limit(found.need, found.now)}):"]
    lines += [f"  {row.rate:>10,.0f} samples/s  x {row.factor:4.2f}  {row.shown}  (limit: {row.limit})" for row in found.rows]
    first = found.first
    lines.append("turn first: " + ("no setting gains 3 %" if first is None else first.shown))
    return "\n".join(lines)
