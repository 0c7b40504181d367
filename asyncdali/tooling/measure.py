"""Measures one pipeline: rates, processor time, interpreter time, memory, statistics, and the bottleneck."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..pipeline.front import core_of
from . import bottleneck, machine, sharing
from .bench_consumer import Consumer
from .interpreter import interpreter_time
from .trace import TraceRecorder, WorkerSampler

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..tensors import TensorListCPU, TensorListGPU

_PARTS = 20
_STALL = 0.001
_ROUNDS_ALONE = 50
"""Largest number of steps with one repeated batch."""

Progress = Callable[[int, float], None]
"""Called with the iterations done so far and the samples per second."""


@dataclass
class Measurement:
    """The result of :func:`measure`. Times are seconds, sizes bytes. `rates` are samples per second in consecutive parts of the run.

    `interpreter_seconds` is an upper bound (see :mod:`.interpreter`). `consumer` is None without a training step.
    """

    settings: dict[str, Any]
    iterations: int
    samples: int
    seconds: float
    rates: list[float]
    processor_seconds: float
    interpreter_seconds: float
    peak_memory: int
    cores: int
    statistics: dict[str, Any]
    bottleneck: dict[str, Any]
    sharing: dict[str, Any]
    """:class:`.sharing.Sharing`, with its `others_share`."""
    kernels: dict[str, Any]
    """Kernels that were compiled before the measurement (`before`, in `seconds`), and the names of those compiled during it (`during`)."""
    consumer: dict[str, Any] | None = None
    timeline: list[tuple[float, int]] = field(default_factory=list)
    """The time at which each batch arrived, and its samples."""

    @property
    def rate(self) -> float:
        """Median of `rates`."""
        return statistics.median(self.rates)

    @property
    def spread(self) -> tuple[float, float]:
        """Lower and upper quartile of `rates`."""
        if len(self.rates) < 2:
            return self.rates[0], self.rates[0]
        low, _, high = statistics.quantiles(self.rates, n=4, method="inclusive")
        return low, high

    @property
    def sentence(self) -> str:
        """The bottleneck, and the advice."""
        return str(self.bottleneck["sentence"])

    def as_dict(self) -> dict[str, Any]:
        """All figures for JSON, including the figures that :func:`bench.text` prints."""
        low, high = self.spread
        return {
            **asdict(self),
            "samples_per_second": {"median": self.rate, "lower_quartile": low, "upper_quartile": high},
            "processor_us_per_sample": self.processor_seconds / self.samples * 1e6,
            "interpreter_us_per_sample": self.interpreter_seconds / self.samples * 1e6,
            "operators": self.operators(),
        }

    def operators(self) -> list[dict[str, Any]]:
        """Name, kind, seconds and share of the busy time of each operator, largest share first."""
        found = []
        for item in self.statistics["operators"]:
            seconds = item["planning_seconds"] + item["prepare_seconds"] + item["steps_seconds"]
            found.append({"name": item["name"], "operator": item["operator"], "seconds": seconds})
        total = sum(item["seconds"] for item in found)
        for item in found:
            item["share"] = item["seconds"] / total if total else 0.0
        return sorted(found, key=lambda item: -item["seconds"])


def measure(
    pipeline: Pipeline,
    iterations: int,
    settings: dict[str, Any],
    step: Consumer | None = None,
    recorder: TraceRecorder | None = None,
    progress: Progress = lambda done, rate: None,
) -> Measurement:
    """Run a pipeline for this number of iterations, after a few to warm up. At the end of the data the next epoch starts.

    `step` is called after each batch. `recorder` gets a trace. Raises the errors of the pipeline and of the step.
    """
    pipeline.build()
    counters = core_of(pipeline).built().counters
    if counters is None:
        raise ValueError("a pipeline with enable_statistics=False cannot be measured: leave out that argument")
    run = _Run(pipeline)
    for _ in range(pipeline.statistics().queue.depth + 2):
        outputs = run.batch()
    if step is not None:
        step.calibrate(outputs, min(iterations, _ROUNDS_ALONE))
        run.batch()  # the calibration counts as time between the two calls, which must not be part of the measurement
    machine.forget_peak()
    counters.forget_slowest()
    counters.always_processor = True
    counters.record(recorder)
    with ExitStack() as stack:
        interpreter = stack.enter_context(interpreter_time())
        if recorder is not None:
            stack.enter_context(WorkerSampler(pipeline, recorder))
        processes = sharing.processes_of(pipeline, os.getpid())
        before, took = pipeline.statistics(), sharing.taken(processes)
        used, start = time.process_time(), time.perf_counter()
        timeline, steps, waits, own = _loop(run, iterations, step, start, progress)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        took_later = sharing.taken(sharing.processes_of(pipeline, os.getpid()))
        found = pipeline.statistics().since(before)
    counters.record(None)
    workers = 0.0 if found.workers is None else found.workers.busy_seconds
    if took is None or took_later is None:
        shared = sharing.estimated(used + workers, found.threads, seconds, machine.cores())
    else:
        shared = sharing.between(took, took_later, sharing.groups_of_threads(), seconds, machine.cores())
        used, workers = shared.own_seconds, 0.0  # processor time of all processes; `busy_seconds` would count the workers' waiting, too
    limit = bottleneck.find(found, machine.cores(), shared)
    samples = sum(count for _, count in timeline)
    return Measurement(
        settings=settings, iterations=iterations, samples=samples, seconds=seconds, rates=_rates(timeline),
        processor_seconds=used - own + workers, interpreter_seconds=max(0.0, interpreter.seconds - own), peak_memory=machine.peak_memory(),
        cores=machine.cores(), statistics=found.as_dict(), bottleneck={**asdict(limit), "sentence": limit.sentence},
        kernels=_kernels(before.kernels, found.kernels),
        sharing={**asdict(shared), "others_share": shared.others_share},
        consumer=None if step is None else _beside(step, steps, waits, seconds), timeline=timeline,
    )  # fmt: skip


def _kernels(before: Any, after: Any) -> dict[str, Any]:
    return {
        "before": before.compiled + len(before.after_build), "seconds": before.compiled_seconds + before.after_build_seconds,
        "during": list(after.after_build[len(before.after_build) :]),
    }  # fmt: skip


def _loop(
    run: _Run, iterations: int, step: Consumer | None, start: float, progress: Progress
) -> tuple[list[tuple[float, int]], list[float], list[float], float]:
    """The measured part: arrival times of batches, durations of training steps, waits for batches, and the steps' processor time."""
    timeline: list[tuple[float, int]] = []
    steps: list[float] = []
    waits: list[float] = []
    own = 0.0
    samples = 0
    for done in range(1, iterations + 1):
        asked = time.perf_counter()
        outputs = run.batch()
        came = time.perf_counter()
        count = len(outputs[0]) if outputs else 0
        waits.append(came - asked)
        samples += count
        timeline.append((came - start, count))
        if step is not None:
            before = time.thread_time()
            steps.append(step.run(outputs))
            if done == iterations:
                step.finish()
            own += time.thread_time() - before
        progress(done, samples / (came - start))
    return timeline, steps, waits, own


class _Run:
    """Requests batches, also across the ends of epochs."""

    def __init__(self, pipeline: Pipeline):
        self._pipeline = pipeline

    def batch(self) -> Sequence[TensorListCPU | TensorListGPU]:
        """The outputs of the next iteration."""
        outputs: Sequence[Any]
        try:
            outputs = self._pipeline.run()
        except StopIteration:
            self._pipeline.reset()
            outputs = self._pipeline.run()
        return outputs


def _rates(timeline: list[tuple[float, int]]) -> list[float]:
    """Samples per second in up to 20 parts of equal numbers of iterations."""
    size = max(1, len(timeline) // _PARTS)
    rates = []
    since = 0.0
    for k in range(size - 1, len(timeline), size):
        samples = sum(count for _, count in timeline[k - size + 1 : k + 1])
        rates.append(samples / max(1e-9, timeline[k][0] - since))
        since = timeline[k][0]
    return rates


def _beside(step: Consumer, steps: list[float], waits: list[float], seconds: float) -> dict[str, object]:
    stalls = [wait for wait in waits if wait > _STALL]
    # A user's step may return before its work on a GPU is done, so the time of whole iterations is taken. A simulated step is timed alone.
    beside = statistics.median(steps) if step.simulated else seconds / len(steps)
    return {
        "step": step.name,
        "simulated": step.simulated,
        "step_alone_ms": step.alone * 1e3,
        "step_beside_ms": beside * 1e3,
        "slowdown": beside / step.alone - 1 if step.alone else 0.0,
        "stalls": len(stalls),
        "stall_seconds": sum(stalls),
        "stall_share": sum(stalls) / seconds,
    }
