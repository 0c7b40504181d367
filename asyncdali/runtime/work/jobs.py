"""Jobs: work on the samples of a batch that several threads share, each taking the next sample."""

from __future__ import annotations

import enum
import functools
import itertools
import threading
import time
from collections.abc import Callable, Generator, Sequence
from time import perf_counter_ns as now
from typing import NamedTuple, TypeAlias

import numpy as np

from ...compiled.addresses import address_of, clear
from ...compiled.job_tables import FLAGS, JOB, OWN_TIMES, TIMES
from ...device.base import Event
from ...device.joint import Joint
from ...device.threads import WorkerState, WorkerThreads
from ...errors import message_of
from ...operators.base import PythonJob, SampleError, Step
from .built import Built

ERROR_TEXT_BYTES = 192
_TEXT = ERROR_TEXT_BYTES // 8


class Timed(enum.IntEnum):
    """Whether a job measures its time. Processor time costs two system calls per thread; the other times cost almost nothing."""

    NO = 0
    YES = 1
    PROCESSOR = 2


class JobTimes(NamedTuple):
    """The times of a job, in nanoseconds (see :mod:`time`'s ``perf_counter_ns``).

    Attributes:
        busy: sum over the threads.
        begun: when the first sample was taken.
        processor: processor time of the threads; -1 if it was not measured.
        slowest: processor time of the slowest sample; 0 if unknown.
        sample: the number of the slowest sample.
        steps: time of each step.
    """

    busy: int
    begun: int
    processor: int
    slowest: int
    sample: int
    steps: Sequence[int]


_word = JOB.word
_SCRATCH = _word.needs_scratch_bytes
_ADDRESSES = _word.flags, _word.functions, _word.contexts, _word.slot_arrays, _word.slot_offsets, _word.status, _word.texts
_STOP, _FAILED = JOB.words + FLAGS.word.stop, JOB.words + FLAGS.word.failed
_NO_FLAGS = FLAGS.entries(next=0, stop=0, failed=0)
_NO_TIMES = {timed: TIMES.entries(busy=0, begun=0, processor=0, with_processor=timed is Timed.PROCESSOR, slowest=0) for timed in Timed}


class _Blank(NamedTuple):
    """The block of a job of compiled samples before it gets its steps, up to the statuses.

    words      a word of an address is the offset from the beginning of the block;  moving: 1 for these words, else 0
    places     the words of functions, contexts, slot arrays, times, statuses and texts
    own_times  number of words that a thread needs for its times
    """

    words: np.ndarray
    moving: np.ndarray
    places: tuple[int, int, int, int, int, int]
    own_times: int


@functools.lru_cache(256)
def _blank(count: int, steps: int, slots: int, timed: Timed) -> _Blank:
    """The blank for so many samples, steps and slots. A pipeline's jobs have the same numbers in every iteration."""
    functions = JOB.words + FLAGS.words
    contexts = functions + steps
    slot_arrays = contexts + steps
    offsets = slot_arrays + slots
    times = offsets + slots
    status = times + (TIMES.words + steps if timed else 0)
    texts = status + count
    own_times = OWN_TIMES.words + steps if timed else 0
    table = JOB.entries(
        samples=count, flags=JOB.size, steps=steps, functions=8 * functions, contexts=8 * contexts, slots=slots,
        slot_arrays=8 * slot_arrays, slot_offsets=8 * offsets, status=8 * status, texts=8 * texts, text_bytes=ERROR_TEXT_BYTES,
        times=8 * times if timed else 0, needs_scratch_bytes=0, needs_times_words=own_times, crew_next=0, crew_left=0, crew_active=0,
        crew_over=0, crew_waits=0, crew_report=0, crew_joint=0, crew_call=0,
    )  # fmt: skip
    words, moving = np.zeros((2, status), np.int64)
    words[:functions] = [*table, *_NO_FLAGS]
    if timed:
        words[times : times + TIMES.words] = _NO_TIMES[timed]
    moving[[*_ADDRESSES, *([_word.times] if timed else [])]] = 1
    return _Blank(words, moving, (functions, contexts, slot_arrays, times, status, texts), own_times)


def _nothing() -> None:
    """The end of a job that no thread waits for."""


class Job:
    """Shared by the threads that work on it. `finished` runs once, on the thread that leaves last."""

    scratch_bytes = 0
    brief = False
    """Whether the job is too short to wake the workers. The planning thread then does all of it."""
    is_pixels = False
    """Whether the job computes pixels, which is the last work of a segment."""

    # Defaults of the class: a job is made several times per batch, and every attribute costs time.
    on_thread: Callable[[int, int], None] | None = None
    """Called by each participating thread with its begin and end (ns). For traces."""
    finished: Callable[[], None] = staticmethod(_nothing)
    _active = 0
    _exhausted = False
    _failure: BaseException | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def work(self, thread: WorkerState) -> None:
        """Take part until no sample is left. Returns immediately if the job is over."""
        with self._lock:
            if self._exhausted:
                return
            self._active += 1
        began = now() if self.on_thread is not None else 0
        try:
            self._run(thread)
        except BaseException as error:  # for example no memory for scratch; the iteration must end in any case
            self._failure = error
        finally:
            if self.on_thread is not None:
                self.on_thread(began, now())
            with self._lock:
                self._exhausted = True  # a thread leaves only when no sample is left
                self._active -= 1
                last = self._active == 0
        if last:
            self._over()

    def work_alone(self, thread: WorkerState) -> None:
        """Do all of it on a thread that has not shared the job. `finished` is not called. Raises errors that belong to no sample."""
        if self.on_thread is None:
            self._run(thread)
            return
        began = now()
        try:
            self._run(thread)
        finally:
            self.on_thread(began, now())

    def _over(self) -> None:
        """The calling thread was the last to take part."""
        self.finished()

    def _run(self, thread: WorkerState) -> None:
        raise TypeError("abstract")

    def times(self) -> JobTimes | None:
        """The times of the finished job; None unless it was made with `timed`."""
        return None

    def stop(self) -> None:
        """Take no further sample, because the pipeline is being closed."""

    def raise_error(self) -> None:
        """Raise the first sample's error, if any. Call it once: a job that kept the error would keep the frames of its traceback."""
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure


Jobs: TypeAlias = Generator[Job, None, None]
"""The jobs of a segment in one iteration, one after another. An error of a job is raised in the generator."""


@functools.cache
def _driver() -> Callable[[int, int], int]:
    """Compiled code that takes part in a job. It needs Numba, so it is imported late."""
    from ...compiled.driver import run_job

    return run_job.entry


class CompiledSamples(Job):
    """Compiled steps over a range of samples. Each thread enters the interpreter once."""

    crew: WorkerThreads | None = None
    joint: Joint | None = None
    _keep: object = None

    def __init__(
        self,
        count: int,
        steps: Sequence[tuple[Built, Step]],
        slots: Sequence[tuple[int, int]] = (),
        own_scratch: int = 0,
        timed: Timed = Timed.NO,
    ):
        """`steps` are (who, step); `slots` are (address of an int64[count] array of addresses, offset in the thread's scratch).

        `own_scratch` bytes at the start of the scratch belong to the slots; each step's own scratch follows.
        """
        super().__init__()
        self.count = count
        self.owners = [who for who, _ in steps]
        self.steps = [step for _, step in steps]
        extra = 0
        for step in self.steps:
            extra = max(extra, step.scratch_bytes)
            if step.scratch_bytes:
                step.place_scratch(own_scratch)
        self.scratch_bytes = own_scratch + extra
        # One allocation for all that the driver reads and writes: this runs several times per batch, and every array costs time.
        blank = _blank(count, len(steps), len(slots), timed)
        self._own_times, self._places = blank.own_times, blank.places
        functions, _, slot_arrays, times, status, texts = blank.places
        self._block = block = np.empty(texts + count * _TEXT, np.int64)
        self._address = at = address_of(block)
        np.multiply(blank.moving, at, block[:status])
        block[:status] += blank.words
        block[_SCRATCH] = self.scratch_bytes
        block[functions:slot_arrays] = [*[step.function for step in self.steps], *[address_of(step.context) for step in self.steps]]
        if slots:
            block[slot_arrays:times] = [*[address for address, _ in slots], *[offset for _, offset in slots]]
        clear(block, status, texts)
        self._texts_at = texts

    @property
    def texts_words(self) -> int:
        """Words of the error texts, at the end of its block."""
        return self.count * _TEXT

    def movable(self, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
        """The job as words to be copied, for :meth:`moved`: its own table; this table with `tables` behind it; (word, 0) for each word
        that is an offset in the block.

        The contexts of the steps lie in `tables`. The addresses of slots are offsets in `tables`.
        """
        _, contexts, slot_arrays, times, status, texts = self._places
        head, begin = self._block[:texts].copy(), 8 * texts
        own = [*_ADDRESSES, *([_word.times] if times < status else [])]
        head[own] -= self._address
        head[_word.texts] += tables.nbytes
        head[contexts:slot_arrays] += begin - address_of(tables)
        arrays = range(slot_arrays, slot_arrays + int(head[_word.slots]))
        head[arrays] += begin
        moving = [*own, *range(contexts, slot_arrays), *arrays]
        return head, np.concatenate([head, tables]), [(k, 0) for k in moving]

    def moved(self, block: np.ndarray, address: int, words: int, keep: object) -> CompiledSamples:
        """The same job in another block at `address`: a copy of :meth:`movable`, whose `words` addresses are final. The error texts
        follow."""
        job: CompiledSamples = CompiledSamples.__new__(CompiledSamples)
        Job.__init__(job)
        job._places = self._places
        job.count, job.owners, job.steps, job.scratch_bytes = self.count, self.owners, self.steps, self.scratch_bytes
        job._own_times, job._keep = self._own_times, keep
        job._block, job._address, job._texts_at = block, address, words
        return job

    @property
    def address(self) -> int:
        """Address of the JOB table, for threads without the interpreter. 0: Python traces the work of each thread."""
        return self._address if self.on_thread is None else 0

    def work(self, thread: WorkerState) -> None:
        if self.crew is None:
            super().work(thread)
            return
        try:
            record = thread.record_for(self.scratch_bytes, self._own_times)
        except BaseException as error:
            self._fail(error)
            record = thread.record_for(0)  # no sample is left
        if self.crew.take_part(self, record):
            self._over()

    def join(self, joint: Joint) -> None:
        """Report this job together with other jobs. Called before the job is submitted."""
        self.joint, self._block[JOB.word.crew_joint] = joint, joint.address

    def report_to(self, crew: int) -> None:
        """Called before the job is submitted: another crew reports its end."""
        self._block[JOB.word.crew_report] = crew

    def _over(self) -> None:
        (self.finished if self.joint is None else self.joint.leave)()

    def grow(self, thread: WorkerState) -> None:
        """Give a thread the memory that it needs to take part. If there is none, the job fails."""
        try:
            thread.record_for(self.scratch_bytes, self._own_times)
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.stop()

    def _run(self, thread: WorkerState) -> None:
        _driver()(self._address, thread.record_for(self.scratch_bytes, self._own_times))

    def times(self) -> JobTimes | None:
        _, _, _, times, status, _ = self._places
        if times == status:
            return None
        values, word = self._block[times:status].tolist(), TIMES.word
        processor = values[word.processor] if values[word.with_processor] else -1
        slowest = values[word.slowest]
        return JobTimes(values[word.busy], values[word.begun], processor, slowest >> 20, slowest & 0xFFFFF, values[TIMES.words :])

    def stop(self) -> None:
        self._block[_STOP] = 1

    def raise_error(self) -> None:
        """SampleError of the first failed sample. Its ``owner`` attribute is the owner of the failed step."""
        super().raise_error()
        if not self._block[_FAILED]:
            return
        _, _, _, _, begin, end = self._places
        statuses = self._block[begin:end]
        failed = np.flatnonzero(statuses)
        sample = int(failed[0])
        value = int(statuses[sample])
        index, code = (value >> 32) - 1, value & 0xFFFFFFFF
        begin = self._texts_at + _TEXT * sample
        text = self._block[begin : begin + _TEXT].tobytes().split(b"\0", 1)[0].decode("utf-8", "replace")
        message = self.steps[index].explain(code, text, sample)
        if len(failed) > 1:
            message += f" ({len(failed) - 1} more samples of this batch failed)"
        error = SampleError(sample, message, self.owners[index])
        error.others = tuple(failed[1:].tolist())
        raise error


class Waiting(Job):
    """A job that only waits for a device. It does not occupy a worker thread."""

    def __init__(self, event: Event):
        super().__init__()
        self._event = event

    def begin(self, submit: Callable[[Callable[[WorkerState], None]], object]) -> None:
        """`submit` calls the waiting thread back when little is left to wait for."""

        def over() -> None:
            if self._event.is_over():
                self.finished()
            else:
                submit(self.work)

        self._event.when_done(over)

    def _run(self, thread: WorkerState) -> None:
        self._event.wait()


class PythonSamples(Job):
    """Python work per sample: one entry into the interpreter per sample."""

    def __init__(self, job: PythonJob, timed: Timed = Timed.NO):
        super().__init__()
        self._job = job
        self._timed = timed
        self._spans: list[tuple[int, int, int]] = []  # per thread: begin, end, processor time
        self._next = itertools.count()
        self._stopped = False
        self._errors: list[tuple[int, BaseException]] = []

    def _run(self, thread: WorkerState) -> None:
        if not self._timed:
            self._take_samples()
            return
        processor = time.thread_time_ns() if self._timed is Timed.PROCESSOR else 0
        began = now()
        self._take_samples()
        ended = now()
        self._spans.append((began, ended, time.thread_time_ns() - processor if self._timed is Timed.PROCESSOR else 0))

    def times(self) -> JobTimes | None:
        if not self._timed or not self._spans:
            return None
        busy = sum(ended - began for began, ended, _ in self._spans)
        processor = sum(used for _, _, used in self._spans) if self._timed is Timed.PROCESSOR else -1
        return JobTimes(busy, min(began for began, _, _ in self._spans), processor, 0, 0, ())

    def _take_samples(self) -> None:
        samples = self._job.samples
        while not self._stopped:
            k = next(self._next)
            if k >= len(samples):
                break
            try:
                self._job.work(samples[k])
            except BaseException as error:  # raise_error reports it with its sample
                self._errors.append((samples[k], error))

    def stop(self) -> None:
        self._stopped = True

    def raise_error(self) -> None:
        super().raise_error()
        errors, self._errors = self._errors, []
        if errors:
            sample, error = min(errors, key=lambda item: item[0])
            try:
                if isinstance(error, SampleError) or not isinstance(error, Exception):
                    raise error
                raise SampleError(sample, message_of(error) or type(error).__name__) from error
            finally:
                del error, errors
