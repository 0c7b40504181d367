"""How much of the processors other programs took while a pipeline was measured.

Linux counts for every thread the time that it was ready to run and had no processor (``/proc/PID/task/TID/schedstat``: nanoseconds on a
processor, nanoseconds in the queue). A program delays itself, too, if it has more threads than processors. So the time that others took is
at most the time of the processors that the program did not use itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import machine

if TYPE_CHECKING:
    from ..pipeline import Pipeline

CONSUMER, WORKERS, STAGES = "consumer", "workers", "stages"
"""Groups of threads: the calling thread, the worker threads, and all others (stage threads, streams, the loop)."""


@dataclass(frozen=True)
class Sharing:
    """The processors during a measurement.

    Attributes:
        own_seconds: processor time of this program: this process, its worker processes and its engines.
        delayed_seconds: how long their threads were ready to run without a processor, summed.
        others_seconds: the part of it that other programs caused.
        stretch: for groups of threads of this process: seconds of work and of waiting for a processor, per second of work.
        is_estimated: the system does not count the delays. They are the time of the worker threads in which they did not compute.
    """

    own_seconds: float
    delayed_seconds: float
    others_seconds: float
    stretch: dict[str, float] = field(default_factory=dict)
    is_estimated: bool = False

    @property
    def others_share(self) -> float:
        """Part of the processor time that this program wanted, and that other programs had instead: 0..1."""
        wanted = self.own_seconds + self.others_seconds
        return self.others_seconds / wanted if wanted else 0.0


Times = dict[tuple[int, int], tuple[int, int]]
"""(process, thread) -> nanoseconds on a processor, and nanoseconds ready to run without one."""


def taken(processes: Iterable[int], proc: Path = machine.PROC) -> Times | None:
    """The times of all threads of these processes. None: the system does not count them."""
    found: Times = {}
    for process in processes:
        for folder in _threads(proc / str(process) / "task"):
            try:
                used, delayed, *_ = map(int, (folder / "schedstat").read_text().split())
            except (OSError, ValueError):  # the thread has just ended, or the kernel has no such counts
                continue
            found[process, int(folder.name)] = used, delayed
    return found if any(used for used, _ in found.values()) else None


def _threads(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.name.isdigit()]
    except OSError:  # the process has ended
        return []


def between(before: Times, after: Times, groups: dict[int, str], seconds: float, cores: int) -> Sharing:
    """The processors between two calls of :func:`taken`. `groups` has the group of threads, by id."""
    own = delayed = 0
    of_groups: dict[str, list[int]] = {}
    for key, (used, waited) in after.items():
        used_before, waited_before = before.get(key, (0, 0))
        used, waited = used - used_before, waited - waited_before
        own, delayed = own + used, delayed + waited
        if key[1] in groups:
            sums = of_groups.setdefault(groups[key[1]], [0, 0])
            sums[0] += used
            sums[1] += waited
    stretch = {name: 1 + waited / used for name, (used, waited) in of_groups.items() if used > 0}
    return Sharing(own / 1e9, delayed / 1e9, _others(own / 1e9, delayed / 1e9, seconds, cores), stretch)


def estimated(own: float, threads: Any, seconds: float, cores: int) -> Sharing:
    """The same without counts of the system, from the statistics of the worker threads. `own`: processor time of this program."""
    delayed = max(0.0, threads.busy_seconds - threads.processor_seconds)
    stretch = {WORKERS: threads.busy_seconds / threads.processor_seconds} if 0 < threads.processor_seconds < threads.busy_seconds else {}
    return Sharing(own, delayed, _others(own, delayed, seconds, cores), stretch, is_estimated=True)


def _others(own: float, delayed: float, seconds: float, cores: int) -> float:
    return max(0.0, min(delayed, cores * seconds - own))


def groups_of_threads() -> dict[int, str]:
    """The group of each thread of this process, by the system's id. The calling thread asks for batches."""
    found = {}
    for thread in threading.enumerate():
        if thread.native_id is not None:
            found[thread.native_id] = WORKERS if "-worker-" in thread.name else STAGES
    found[threading.get_native_id()] = CONSUMER
    return found


def processes_of(pipeline: Pipeline, own: int) -> list[int]:
    """Process `own`, the worker processes and the engines of a pipeline on this machine."""
    workers = [item["pid"] for item in pipeline.worker_statistics().get("workers", ())]
    engines = [item.pid for item in pipeline.statistics().engines if not item.address and item.pid]
    return [own, *workers, *engines]
