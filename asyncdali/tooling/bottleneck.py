"""Finds the bottleneck of a pipeline from its statistics alone, and says what to change.

The bottleneck is the part that is busy nearly all the time while other parts wait for it. The candidates are tested in this order: the
sources that the consumer waits for, the consumer, users' Python, the worker threads, single samples, planning, the depth of the queue.
All figures are shares of the elapsed time, so a slow machine gives the same answer as a fast one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .sharing import CONSUMER, STAGES, WORKERS, Sharing

_ALL = 0.85
"""A program with this share of all processors uses them all: the rest is lost in switching."""

BUSY = 0.7
"""A part that works for this share of the time is a bottleneck: waking up and handing over take the rest of the time."""
_BUSY_SHARED = 0.5
"""The same on processors that other programs use: waking up and handing over wait for a processor, too."""
_FEW = 0.1
"""Other programs with a smaller share of the processor time that the pipeline wants do not matter."""
WAITS = 0.08
"""A consumer that waits for a smaller share of the time is not delayed."""
_COMPUTES = 0.25
"""From this share of processor time in the elapsed time, a part computes rather than waits. Sleeping takes almost no processor time. On a
shared machine, computing gets less of a processor: the time in which a thread waited for one counts as computing, too."""
_SHARED = 0.25
"""If other programs have this share of the processor time that the pipeline wants, they are named as the limit of busy threads."""


@dataclass(frozen=True)
class Bottleneck:
    """The limit of the throughput.

    Attributes:
        kind: one of "consumer", "source", "engines", "interpreter", "workers", "python_function", "storage", "threads", "oversubscribed",
            "sample", "planning", "queue", "machine", "unclear", "idle".
        what: the operator, source or sample, or "".
        share: share of the elapsed time that is spent there, 0..1.
        finding: the observation. advice: what to change.
    """

    kind: str
    what: str
    share: float
    finding: str
    advice: str

    @property
    def sentence(self) -> str:
        """Finding and advice in one text."""
        return f"{self.finding}: {self.advice}"


def find(statistics: Any, cores: int, sharing: Sharing | None = None) -> Bottleneck:
    """The bottleneck in `statistics` (``Pipeline.statistics()``, or the difference of two), on a machine with this number of cores.

    `sharing` says how much of the processors other programs took in that time; None: unknown.
    """
    if not statistics.consumer.iterations or statistics.elapsed_seconds <= 0:
        return Bottleneck("idle", "", 0.0, "no batch was delivered", "run the pipeline first")
    case = _Case(statistics, cores, sharing)
    looks: tuple[Callable[[_Case], Bottleneck | None], ...] = (
        _sources, _consumer, _engines, _python, _others, _oversubscribed, _storage, _threads, _sample, _planning, _queue, _machine,
    )  # fmt: skip
    for look in looks:
        found = look(case)
        if found is not None:
            return found
    return _unclear(case)


class _Case:
    """The statistics, and shares that several tests need."""

    def __init__(self, statistics: Any, cores: int, sharing: Sharing | None = None):
        self.statistics = statistics
        self.sharing = sharing
        self.cores = cores
        self.elapsed = statistics.elapsed_seconds
        self.waits = statistics.consumer.wait_seconds / self.elapsed
        self.asks = sum(source.wait_seconds for source in statistics.sources) / self.elapsed
        self.asks_ahead = sum(source.wait_seconds for source in statistics.sources if source.kind in ("awaited", "parallel")) / self.elapsed
        """The consumer waits in this share of the time, too: for sources that make their batches ahead, elsewhere."""
        self.threads = statistics.threads
        self.thread_share = self.threads.busy_seconds / (self.elapsed * self.threads.count)

    def share(self, seconds: float) -> float:
        result: float = seconds / self.elapsed
        return result

    def computes(self, processor: float, whole: float, group: str) -> float:
        """The part of a time `whole` in which a group of threads computed, or had work for a processor and did not get one."""
        stretch = 1.0 if self.sharing is None else self.sharing.stretch.get(group, 1.0)
        return min(1.0, _ratio(processor * stretch, whole))

    @property
    def others(self) -> float:
        """The share of the wanted processor time that other programs have."""
        return 0.0 if self.sharing is None else self.sharing.others_share

    @property
    def busy(self) -> float:
        """The share of the time from which a part is a bottleneck."""
        return _BUSY_SHARED if self.others >= _SHARED else BUSY

    @property
    def uses_all(self) -> bool:
        """Whether this program alone has nearly all processors, and more of its work would wait for one."""
        return self.sharing is not None and self.sharing.own_seconds > _ALL * self.elapsed * self.cores

    @property
    def is_counted(self) -> bool:
        """Whether the system counts the delays of threads."""
        return self.sharing is not None and not self.sharing.is_estimated

    def all_in_use(self) -> str:
        """The advice for busy threads on as many processors."""
        if self.others >= _SHARED:
            return _quiet(self)
        return f"every core is in use ({self.cores}), so less work per sample (smaller images, fewer steps) or more cores"

    def threads_are(self) -> str:
        """How busy the worker threads are, here and in engines."""
        engines = self.statistics.engines
        if not engines:
            return f"the worker threads are busy {percent(self.thread_share)}"
        share = self.share(sum(item.pixels_seconds for item in engines)) / (self.threads.count * len(engines))
        here = f", those of this process {percent(self.thread_share)}" if self.threads.busy_seconds else ""
        return f"the worker threads of {_plural(len(engines), 'engine')} are busy {percent(share)}{here}"


def percent(share: float) -> str:
    """0.71 -> "71 %"."""
    return f"{100 * share:.0f} %"


def _plural(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}{'es' if what.endswith('h') else 's'}"


def _workers_are(count: int) -> str:
    return f"{_plural(count, 'worker')} {'is' if count == 1 else 'are'}"


def _all(count: int) -> str:
    return {1: "the only thread is", 2: "both threads are"}.get(count, f"all {count} threads are")


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


# ----------------------------------------------------------------------------- one test per function; None: this is not the bottleneck


def _sources(case: _Case) -> Bottleneck | None:
    """The call of a source takes the time."""
    if max(case.waits, WAITS if case.asks_ahead > WAITS else 0.25) > case.asks:
        return None
    source = max(case.statistics.sources, key=lambda item: item.wait_seconds)
    share = case.share(source.wait_seconds)
    taken = f"the source {source.name!r} takes {percent(share)} of the time"
    if source.kind == "parallel":
        return _workers(case, source, share)
    if source.kind == "awaited":
        return Bottleneck(
            "source", source.name, share, f"{taken}, awaited, with {_plural(source.prefetch, 'batch')} asked for ahead",
            "ask for more at a time: external_source(prefetch_queue_depth=..., max_concurrency=...)",
        )  # fmt: skip
    if source.kind == "engines":
        return Bottleneck(
            "source", source.name, share, f"{taken}, called in {_plural(len(case.statistics.engines), 'engine')}",
            "more engines, if there are cores for them: engines=...",
        )  # fmt: skip
    if case.computes(source.processor_seconds, source.wait_seconds, CONSUMER) > _COMPUTES:
        return Bottleneck(
            "interpreter", source.name, share, f"{taken} and computes in the calling thread, holding the interpreter",
            "more threads cannot help; run it in worker processes: external_source(parallel=True, batch=False) with a callable, and "
            "py_num_workers",
        )  # fmt: skip
    return Bottleneck(
        "source", source.name, share, f"{taken}, mostly waiting, and nothing else happens in the calling thread",
        "make it an `async def` callable, or run it ahead in worker processes: external_source(parallel=True), py_num_workers",
    )  # fmt: skip


def _workers(case: _Case, source: Any, share: float) -> Bottleneck:
    workers = case.statistics.workers
    used = case.share(workers.busy_seconds) / max(1, workers.count)
    waits = f"the pipeline waits {percent(share)} of the time for the parallel source {source.name!r}"
    if used > BUSY:
        found = f"{waits} and its {_workers_are(workers.count)} busy {percent(used)}"
        if case.uses_all:
            return Bottleneck("workers", source.name, share, found, f"{case.all_in_use()}; NumPy in place of loops in the source")
        return Bottleneck("workers", source.name, share, found, f"more workers: py_num_workers={2 * workers.count}")
    return Bottleneck(
        "source", source.name, share, f"{waits} while its {_workers_are(workers.count)} busy only {percent(used)}",
        "ask for more batches ahead: external_source(prefetch_queue_depth=...); one worker runs a stream (iterator), all workers run "
        "a callable",
    )  # fmt: skip


def _consumer(case: _Case) -> Bottleneck | None:
    """The pipeline waits for the consumer."""
    waits = case.waits + case.asks_ahead
    if waits > WAITS or case.asks > 0.25:
        return None
    away = case.share(case.statistics.consumer.away_seconds)
    called = case.asks - case.asks_ahead
    calls = f", calls sources {percent(called)}," if called > WAITS else ""
    return Bottleneck(
        "consumer", "", away, f"the consumer takes {percent(away)} of the time for itself{calls} and waits for batches {percent(waits)}",
        f"the pipeline keeps up; make the training step faster ({case.threads_are()})",
    )  # fmt: skip


def _engines(case: _Case) -> Bottleneck | None:
    """Engines are busy. The operators behind the cut are tested after the engines."""
    engines = case.statistics.engines
    if not engines:
        return None
    threads = case.threads.count
    planning = [case.share(item.planning_seconds) for item in engines]
    pixels = [case.share(item.pixels_seconds) / threads for item in engines]
    busiest = max(range(len(engines)), key=lambda k: max(planning[k], pixels[k]))
    share = max(planning[busiest], pixels[busiest])
    if share < BUSY:
        return None
    work = max(case.statistics.operators, key=lambda item: item.busy_seconds)
    if planning[busiest] >= pixels[busiest]:
        others = sum(planning) / len(planning)
        more = f"more engines: engines={len(engines) + 1}" + (
            "" if case.statistics.queue.depth > len(engines) else f" with prefetch_queue_depth={len(engines) + 2}"
        )
        if others < BUSY:
            more = f"a deeper queue lets the other engines work: prefetch_queue_depth={len(engines) + 2}"
        return Bottleneck(
            "engines", f"engine {engines[busiest].index}", min(1.0, share),
            f"engine {engines[busiest].index} planned {percent(min(1.0, share))} of the time, most of it {work.operator} {work.name!r}",
            more,
        )  # fmt: skip
    spare = case.cores - threads * len(engines)
    advice = (
        f"more threads in each (num_threads={threads + max(1, spare // len(engines))}) or more engines" if spare > 0
        else case.all_in_use()
    )  # fmt: skip
    return Bottleneck(
        "engines", f"engine {engines[busiest].index}", min(1.0, share),
        f"the worker threads of engine {engines[busiest].index} are busy {percent(min(1.0, share))} of the time, most of it with "
        f"{work.operator} {work.name!r}", advice,
    )  # fmt: skip


def _calls_python(name: str) -> bool:
    """Whether an operator calls the user's Python while it is planned. Sources are asked elsewhere."""
    from ..operators import REGISTRY
    from ..operators.base import Role

    operator = REGISTRY.get(name)
    return operator is not None and operator.schema.calls_python and operator.schema.role is not Role.INPUT


def _python(case: _Case) -> Bottleneck | None:
    """A Python function in the graph takes the time: only one call runs at a time."""
    functions = [item for item in case.statistics.operators if _calls_python(item.operator)]
    if not functions:
        return None
    function = max(functions, key=lambda item: item.planning_seconds)
    share = case.share(function.planning_seconds)
    if share < case.busy:
        return None
    segment = next(item for item in case.statistics.segments if function.name in item.operators)
    computes = case.computes(segment.planning_processor_seconds, segment.planning_seconds, STAGES) > _COMPUTES
    how = "computes in Python, holding the interpreter" if computes else "waits"
    better = (
        "write it with operators or numba_function, or move it into a parallel external_source" if computes
        else "move it into an external_source that is parallel=True or `async def`"
    )  # fmt: skip
    return Bottleneck(
        "python_function", function.name, share,
        f"{function.operator} {function.name!r} is called one at a time, {how}, and takes {percent(share)} of the time",
        f"{better}; batch_processing=True calls it once per batch",
    )  # fmt: skip


def _quiet(case: _Case) -> str:
    return (
        "measure again while they rest, or give the pipeline processors of its own (taskset, the container's quota); look at `top`, and at "
        f"the threads of other libraries (asyncdali doctor): {_plural(case.cores, 'core')} may be used"
    )


def _others(case: _Case) -> Bottleneck | None:
    """The threads have work, but other programs have the processors."""
    if case.others < _SHARED or case.thread_share < case.busy or _top_waits(case):
        return None
    return Bottleneck(
        "machine", "", case.others,
        f"other programs have {percent(case.others)} of the processor time that the pipeline asks for, and {_all(case.threads.count)} busy "
        f"({percent(case.thread_share)}), partly waiting for a processor",
        _quiet(case),
    )  # fmt: skip


def _oversubscribed(case: _Case) -> Bottleneck | None:
    """There are more threads than processors, and threads wait for a processor."""
    threads = case.threads
    gets = _ratio(threads.processor_seconds, threads.busy_seconds)
    at_once = threads.busy_seconds / case.elapsed
    if threads.count <= case.cores or at_once < 1.2 * case.cores or gets > 0.85 or _top_waits(case):
        return None
    return Bottleneck(
        "oversubscribed", "", case.thread_share,
        f"{threads.count} worker threads share {_plural(case.cores, 'core')}: of the time they work they have a processor {percent(gets)}",
        f"num_threads={case.cores}: the same throughput with less memory and shorter waits for the training loop",
    )  # fmt: skip


def _top_waits(case: _Case) -> bool:
    """Whether the threads mostly read: then they do not wait for processors."""
    reader = _reader(case)
    return reader is not None and reader.prepare_seconds > 0.5 * case.threads.busy_seconds


def _reader(case: _Case) -> Any:
    readers = [item for item in case.statistics.operators if item.prepare_seconds > 0]
    return max(readers, key=lambda item: item.prepare_seconds) if readers else None


def _storage(case: _Case) -> Bottleneck | None:
    """A reader's threads wait for the disk."""
    reader = _reader(case)
    if reader is None:
        return None
    share = min(1.0, case.share(reader.prepare_seconds) / case.threads.count)  # the stage thread helps the worker threads
    works = case.computes(reader.prepare_processor_seconds, reader.prepare_seconds, WORKERS)
    if share < 0.45 or works > _COMPUTES:
        return None
    return Bottleneck(
        "storage", reader.name, share,
        f"{reader.operator} {reader.name!r} waits for storage: {percent(share)} of the worker threads' time, of which the processor works "
        f"{percent(works)}",
        "faster or nearer storage, large container files (TFRecord, WebDataset) instead of many small ones, or more reads at a time: "
        f"num_threads={2 * case.threads.count}",
    )  # fmt: skip


def _threads(case: _Case) -> Bottleneck | None:
    """The worker threads are busy."""
    if case.thread_share < BUSY:
        return None
    work = {item.name: item for item in case.statistics.operators}
    top = max(work.values(), key=lambda item: item.steps_seconds + item.prepare_seconds)
    pixels = sum(item.steps_seconds for item in work.values())
    count = case.threads.count
    if top.prepare_seconds > top.steps_seconds:
        part = f"{top.operator} takes {percent(_ratio(top.prepare_seconds, case.threads.busy_seconds))} of the worker threads' time"
    else:
        part = f"{top.operator} is {percent(_ratio(top.steps_seconds, pixels))} of the pixels phase"
    spare = case.cores - count
    decoder = top.operator.startswith("decoders.") and top.backend == "cpu"
    ways = [f"more threads (num_threads={case.cores}: {_plural(spare, 'core')} to spare)"] if spare > 0 else []
    ways += ['device="mixed" on a machine with a GPU'] if decoder else []
    lanes = top.settings or {}
    if "multiprocessors" in lanes and not lanes["engines"] and not lanes["multiprocessors"]:
        ways.append("the GPU's JPEG engines, which take from a training step (decoder=\"shared\")")
    if not spare > 0:
        ways.insert(0, case.all_in_use())
    return Bottleneck(
        "threads", top.name, case.thread_share, f"{part} and {_all(count)} busy ({percent(case.thread_share)})", " or ".join(ways)
    )


def _sample(case: _Case) -> Bottleneck | None:
    """One sample delays the batch while other threads are idle."""
    segment = max(case.statistics.segments, key=lambda item: item.slowest_sample_seconds)
    works, most = segment.pixels_processor_seconds, segment.slowest_sample_seconds
    share = case.share(segment.pixels_seconds)
    if segment.samples < 2 * segment.batches or share < 0.4 or most < 0.4 * works:
        return None
    slowest = most / segment.batches
    others = max(0.0, works - most) / (segment.samples - segment.batches)
    if slowest < 4 * others:
        return None
    where = ""
    if segment.slowest_sample is not None:
        _, iteration, sample, file = segment.slowest_sample
        where = f", the slowest of all was sample {sample} of iteration {iteration}{f' ({file})' if file else ''}"
    return Bottleneck(
        "sample", f"segment {segment.index}", min(1.0, share),
        f"the slowest sample of each batch takes {slowest * 1e3:.3g} ms, the others {others * 1e3:.3g} ms{where}, and the other threads "
        "run out of work",
        f"let other batches continue: prefetch_queue_depth={case.statistics.queue.depth + 2}; or make these samples smaller, or the "
        "batches larger",
    )  # fmt: skip


def _planning(case: _Case) -> Bottleneck | None:
    """Planning (the decisions for whole batches) takes the time."""
    segment = max(case.statistics.segments, key=lambda item: item.planning_seconds)
    share = case.share(segment.planning_seconds)
    if share < BUSY:
        return None
    names = set(segment.operators)
    top = max((item for item in case.statistics.operators if item.name in names), key=lambda item: item.planning_seconds)
    works = case.computes(segment.planning_processor_seconds, segment.planning_seconds, STAGES)
    if works < _COMPUTES:
        return Bottleneck(
            "interpreter", top.name, share,
            f"planning batches takes {percent(share)} of the time, {percent(1 - works)} of which it waits for the interpreter, which other "
            "Python threads hold",
            "less Python beside the pipeline, or larger batches (planning is per batch); a larger prefetch_queue_depth lets more "
            "iterations wait at the same time (9 to 12 on a GPU, better with engines=1); sys.setswitchinterval(0.001) shortens each "
            "wait from 5 ms to 1 ms, and costs the other threads about a quarter of their speed (docs/gpu.md)",
        )  # fmt: skip
    return Bottleneck(
        "planning", top.name, share,
        f"planning batches takes {percent(share)} of the time, most of it {top.operator} {top.name!r}; the worker threads are busy "
        f"{percent(case.thread_share)}",
        "larger batches: planning is per batch, not per sample",
    )  # fmt: skip


def _queue(case: _Case) -> Bottleneck | None:
    """The pipeline waits for the consumer and the consumer for the pipeline, because the queue is short."""
    unasked = case.share(max((item.wait_output_seconds for item in case.statistics.segments), default=0.0))
    share = min(unasked, 1 - case.thread_share)  # planned iterations may be computed during that time
    if share < 0.15:
        return None
    depth = case.statistics.queue.depth
    return Bottleneck(
        "queue", "", share,
        f"the pipeline and its consumer wait for each other in turns, {percent(share)} and {percent(case.waits)} of the time, with "
        f"{_plural(depth, 'iteration')} in flight",
        f"a deeper queue: prefetch_queue_depth={depth + 1 if depth > 1 else 2} or more (and exec_pipelined=True)",
    )  # fmt: skip


def _machine(case: _Case) -> Bottleneck | None:
    """The threads have work, and do not get a processor for it."""
    gets = _ratio(case.threads.processor_seconds, case.threads.busy_seconds)
    if case.thread_share < 0.3 or gets > 0.6:
        return None
    return Bottleneck(
        "machine", "", case.thread_share,
        f"the worker threads work {percent(case.thread_share)} of the time and have a processor for {percent(gets)} of that, with no more "
        f"threads ({case.threads.count}) than cores ({case.cores})",
        "no other program delays them: look at the container's quota and at the memory (asyncdali doctor), or make a trace (asyncdali "
        "bench --trace)" if case.others < _FEW and case.is_counted
        else "something else uses the processors: look at `top`, the container's quota, and the threads of other libraries (asyncdali "
        "doctor)",
    )  # fmt: skip


def _unclear(case: _Case) -> Bottleneck:
    busiest = max(case.statistics.operators, key=lambda item: item.busy_seconds)
    return Bottleneck(
        "unclear", busiest.name, case.waits,
        f"the consumer waits {percent(case.waits)} of the time, and no part is busy all the time; most work is {busiest.operator} "
        f"({percent(case.share(busiest.busy_seconds))}), {case.threads_are()}",
        "make a trace (asyncdali bench --trace): it shows which part waits for which",
    )  # fmt: skip
