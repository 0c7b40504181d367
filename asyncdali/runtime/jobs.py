"""Jobs: work on the samples of a batch that several threads share, each taking the next sample."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiled.memory import address_of
from ..device.threads import WorkerState
from ..operators.base import PythonJob, SampleError, Step

ERROR_TEXT_BYTES = 192
_TEXT = ERROR_TEXT_BYTES // 8
_TABLE, _FLAGS = 12, 3  # entries of the job table and flags behind it, see `compiled.driver`


class Job:
    """Shared by the threads that work on it; `finished` runs once, on the thread that leaves last."""

    scratch_bytes = 0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = 0
        self._exhausted = False
        self._failure: BaseException | None = None
        self.finished: Callable[[], None] = lambda: None

    def work(self, thread: WorkerState) -> None:
        """Take part until no sample is left. Returns at once if the job is over."""
        with self._lock:
            if self._exhausted:
                return
            self._active += 1
        try:
            self._run(thread)
        except BaseException as error:  # no memory for scratch, say; the iteration must end whatever happens
            self._failure = error
        finally:
            with self._lock:
                self._exhausted = True  # a thread leaves only when there is nothing left to take
                self._active -= 1
                last = self._active == 0
        if last:
            self.finished()

    def _run(self, thread: WorkerState) -> None:
        raise TypeError("abstract")

    def stop(self) -> None:
        """Take no further sample (the pipeline is being closed)."""

    def raise_error(self) -> None:
        """Raise the first sample's error, if any."""
        if self._failure is not None:
            raise self._failure


class CompiledSamples(Job):
    """Compiled steps over a range of samples; one entry into the interpreter per thread."""

    def __init__(self, count: int, steps: Sequence[tuple[Any, Step]], slots: Sequence[tuple[int, int]] = (), own_scratch: int = 0):
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
        # One block of memory for all that the driver reads and writes: this runs several times a batch, and every array takes its time.
        functions = _TABLE + _FLAGS
        contexts = functions + len(steps)
        slot_arrays = contexts + len(steps)
        offsets = slot_arrays + len(slots)
        status = offsets + len(slots)
        texts = status + count
        self._block = block = np.empty(texts + count * _TEXT, np.int64)
        at = self._address = address_of(block)
        block[:status] = [
            count, at + 8 * _TABLE, len(steps), at + 8 * functions, at + 8 * contexts, len(slots), at + 8 * slot_arrays, at + 8 * offsets,
            at + 8 * status, at + 8 * texts, ERROR_TEXT_BYTES, at + 8 * (_TABLE + 1), *[0] * _FLAGS,
            *[step.function for step in self.steps], *[address_of(step.context) for step in self.steps],
            *[address for address, _ in slots], *[offset for _, offset in slots],
        ]  # fmt: skip
        block[status:texts] = 0
        block[texts::_TEXT] = 0  # texts are empty
        self._flags = block[_TABLE:functions]  # next sample, stop, failed
        self._status = block[status:texts]
        self._texts = block[texts:].view(np.uint8).reshape(count, ERROR_TEXT_BYTES)

    def _run(self, thread: WorkerState) -> None:
        from ..compiled.driver import run_job

        run_job(self._address, thread.record_for(self.scratch_bytes))

    def stop(self) -> None:
        self._flags[1] = 1

    def raise_error(self) -> None:
        """SampleError of the first failed sample; its ``owner`` attribute is who the failed step belongs to."""
        super().raise_error()
        if not self._flags[2]:
            return
        failed = np.flatnonzero(self._status)
        sample = int(failed[0])
        value = int(self._status[sample])
        index, code = (value >> 32) - 1, value & 0xFFFFFFFF
        text = bytes(self._texts[sample]).split(b"\0", 1)[0].decode("utf-8", "replace")
        message = self.steps[index].explain(code, text, sample)
        if len(failed) > 1:
            message += f" ({len(failed) - 1} more samples of this batch failed)"
        error = SampleError(sample, message)
        error.owner = self.owners[index]  # type: ignore[attr-defined]
        raise error


class PythonSamples(Job):
    """Python work per sample; it counts as what it is: one entry into the interpreter per sample."""

    def __init__(self, job: PythonJob):
        super().__init__()
        self._job = job
        self._next = itertools.count()
        self._stopped = False
        self._errors: list[tuple[int, BaseException]] = []

    def _run(self, thread: WorkerState) -> None:
        samples = self._job.samples
        while not self._stopped:
            k = next(self._next)
            if k >= len(samples):
                break
            try:
                self._job.work(samples[k])
            except BaseException as error:  # reported by raise_error, with its sample
                self._errors.append((samples[k], error))

    def stop(self) -> None:
        self._stopped = True

    def raise_error(self) -> None:
        super().raise_error()
        if self._errors:
            sample, error = min(self._errors, key=lambda item: item[0])
            if isinstance(error, SampleError) or not isinstance(error, Exception):
                raise error
            raise SampleError(sample, str(error) or type(error).__name__) from error

