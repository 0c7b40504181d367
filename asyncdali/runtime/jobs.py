"""Jobs: work on the samples of a batch that several threads share, each taking the next sample."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..device.threads import WorkerState
from ..operators.base import PythonJob, SampleError, Step

ERROR_TEXT_BYTES = 192


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
        self._functions = np.array([step.function for step in self.steps], np.int64)
        self._contexts = np.array([step.context.ctypes.data for step in self.steps], np.int64)
        self._slots = np.array(slots, np.int64).reshape(-1, 2).T.copy()
        self._flags = np.zeros(3, np.int64)  # next sample, stop, failed
        self._status = np.zeros(count, np.int64)
        self._texts = np.zeros((count, ERROR_TEXT_BYTES), np.uint8)
        flags = self._flags.ctypes.data
        slot_arrays = self._slots.ctypes.data
        self._table = np.array(
            [
                count, flags, len(self.steps), self._functions.ctypes.data, self._contexts.ctypes.data,
                len(slots), slot_arrays, slot_arrays + 8 * len(slots),
                self._status.ctypes.data, self._texts.ctypes.data, ERROR_TEXT_BYTES, flags + 8,
            ],
            np.int64,
        )  # fmt: skip
        self._address = self._table.ctypes.data

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

