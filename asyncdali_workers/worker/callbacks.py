"""Runs tasks: calls the source's callable and writes its results."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..info import BatchInfo, SampleInfo
from ..shared.control import SAMPLE, SINCE, Block
from ..shared.records import Task
from ..shared.schema import Expected
from ..source import Source
from .accept import Refused, batch_samples, components
from .streams import SourceStream
from .writing import LARGE, Arena, SliceWriter

Written = tuple[int, int, int, int, int, int]
"""Samples, offset and size of the table, bytes, bytes in the area, pulls."""


class Failure(Exception):
    """The error that ended a task, and the sample that it belongs to."""

    def __init__(self, error: BaseException, sample: int, where: str):
        super().__init__()
        self.error, self.sample, self.where = error, sample, where


class Runner:
    """Runs the tasks of one source in a worker."""

    def __init__(self, source: Source, arena: Arena, claim: Block, clock: Callable[[], int] | None):
        self.source = source
        self.arena = arena
        self.claim = claim
        self.clock = clock  # None: there is no time limit for callables
        self._pid = os.getpid()
        self.outputs = 1 if source.num_outputs is None else source.num_outputs

    def run(self, task: Task, schema: list[Expected | None] | None) -> Written:
        raise NotImplementedError

    def pulls(self) -> int:
        """Number of batches taken from a stream so far."""
        return 0

    def _writer(self, task: Task, schema: list[Expected | None] | None) -> SliceWriter:
        return SliceWriter(self.arena, self.claim, task, schema, self.outputs)

    def _check_identity(self) -> None:
        """A callable has forked and its child returned here. The child is no worker and must not write."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _begin(self) -> None:
        if self.clock is not None:
            self.claim[SINCE] = self.clock()


class SampleRunner(Runner):
    """``callback(SampleInfo)`` for each sample of a slice."""

    def run(self, task: Task, schema: list[Expected | None] | None) -> Written:
        writer = self._writer(task, schema)
        first = self._call(task, task.first)
        self._check_identity()
        try:
            large = self._is_large(first)
        except Exception:
            large = False  # the writer meets the same error and reports it
        if large:
            self._one_by_one(task, first, writer)
        else:
            self._all_at_once(task, first, writer)
        table, table_size, size, needed = writer.finish(task.count)
        return task.count, table, table_size, size, needed, 0

    def _call(self, task: Task, index: int) -> Any:
        """The first sample of a slice, with its time recorded for the time limit."""
        self.claim[SAMPLE] = index
        self._begin()
        info = SampleInfo(task.iteration * self.source.batch_size + index, index, task.iteration, task.epoch)
        try:
            return self.source.callback(info)
        except BaseException as error:
            raise self._failure(error, task, index) from None

    def _is_large(self, result: object) -> bool:
        parts = [result] if self.source.num_outputs is None else components(result, self.outputs)
        return any(map(is_large, parts))

    def _all_at_once(self, task: Task, first: object, writer: SliceWriter) -> None:
        """Small samples: a tight loop over the callable, then one write per output."""
        results = [first]
        append, callback, claim = results.append, self.source.callback, self.claim
        iteration, epoch = task.iteration, task.epoch
        base = iteration * self.source.batch_size
        clock = self.clock
        index = task.first
        try:
            for index in range(task.first + 1, task.first + task.count):
                claim[SAMPLE] = index
                if clock is not None:
                    claim[SINCE] = clock()
                append(callback(SampleInfo(base + index, index, iteration, epoch)))
        except BaseException as error:
            raise self._failure(error, task, index) from None
        self._check_identity()
        self._write_all(task, results, writer)

    def _write_all(self, task: Task, results: list[object], writer: SliceWriter) -> None:
        if self.source.num_outputs is None:
            columns: list[Any] = [results]
        elif self._are_plain_tuples(results):
            columns = list(zip(*results))
        else:
            rows = []
            for index, result in enumerate(results):
                try:
                    rows.append(components(result, self.outputs))
                except Exception as error:
                    raise self._failure(error, task, task.first + index) from None
            columns = list(zip(*rows))
        for output, column in zip(writer.outputs, columns):
            try:
                output.add_all(list(column) if type(column) is tuple else column)
            except Exception as error:
                sample = getattr(error, "sample", None)
                sample = task.first if sample is None else sample
                raise self._failure(error, task, sample, output.number) from None

    def _are_plain_tuples(self, results: list[Any]) -> bool:
        return set(map(type, results)) <= {tuple, list} and min(map(len, results)) >= self.outputs

    def _one_by_one(self, task: Task, result: object, writer: SliceWriter) -> None:
        """Large samples: each is copied while it is in the cache."""
        single = self.source.num_outputs is None
        outputs = writer.outputs
        for number in range(task.count):
            if number:
                result = self._call(task, task.first + number)
                self._check_identity()
            try:
                if single:
                    outputs[0].add(number, result)
                else:
                    for output, part in zip(outputs, components(result, self.outputs)):
                        output.add(number, part)
            except Exception as error:
                raise self._failure(error, task, task.first + number) from None

    def _failure(self, error: BaseException, task: Task, sample: int, output: int | None = None) -> Failure:
        component = f", output {output}" if output and isinstance(error, Refused) else ""
        where = f"sample {sample} of iteration {task.iteration}, epoch {task.epoch}{component}"
        return Failure(error, sample, where)


def is_large(sample: object) -> bool:
    """Whether a sample is large enough to be copied on its own.

    Callables may return anything; a class has an `nbytes` that is no number.
    """
    size = len(sample) if isinstance(sample, bytes) else getattr(sample, "nbytes", 0)
    return isinstance(size, int) and size >= LARGE


class BatchRunner(Runner):
    """``callback(iteration)`` or ``callback(BatchInfo)`` for a batch."""

    def _result(self, task: Task) -> object:
        self._begin()
        position = BatchInfo(task.iteration, task.epoch) if self.source.batch_info else task.iteration
        return self.source.callback(position)

    def run(self, task: Task, schema: list[Expected | None] | None) -> Written:
        try:
            result = self._result(task)
            self._check_identity()
            return self._write(result, task, schema)
        except BaseException as error:
            sample = error.sample if isinstance(error, Refused) and error.sample is not None else 0
            raise Failure(error, sample, self._where(task, error)) from None

    def _where(self, task: Task, error: BaseException) -> str:
        sample = f"sample {error.sample} of " if isinstance(error, Refused) and error.sample is not None else ""
        return f"{sample}batch {task.iteration}, epoch {task.epoch}"

    def _write(self, result: object, task: Task, schema: list[Expected | None] | None) -> Written:
        parts = [batch_samples(part) for part in components(result, self.source.num_outputs)]
        count = len(parts[0])
        self._check_count(parts)
        writer = self._writer(task._replace(count=count), schema)
        for output, part in zip(writer.outputs, parts):
            if isinstance(part, list):
                self._write_list(output, part)
            else:
                output.add_whole(part)
        table, table_size, size, needed = writer.finish(count, self._extra())
        return count, table, table_size, size, needed, self.pulls()

    def _check_count(self, parts: list[Any]) -> None:
        counts = [len(part) for part in parts]
        if max(counts) > self.source.batch_size:
            raise ValueError(f"the batch has {max(counts)} samples; at most {self.source.batch_size} (batch_size) are allowed")
        if len(set(counts)) > 1:
            raise ValueError(f"the components of a batch must have equally many samples; these have {', '.join(map(str, counts))}")

    def _write_list(self, output: Any, samples: list[Any]) -> None:
        if not samples or not is_large(samples[0]):
            output.add_all(samples)
            return
        for index, sample in enumerate(samples):
            try:
                output.add(index, sample)
            except Refused as error:
                error.sample = index if error.sample is None else error.sample
                raise

    def _extra(self) -> bytes:
        return b""


class StreamRunner(BatchRunner):
    """The next batch of a stream."""

    def __init__(self, source: Source, arena: Arena, claim: Block, clock: Callable[[], int] | None, block: Block):
        super().__init__(source, arena, claim, clock)
        self.stream = SourceStream(source, block, arena)

    def _result(self, task: Task) -> object:
        self.claim[SINCE] = 0  # repeating earlier requests has no time limit
        self.stream.prepare()
        self._begin()
        return self.stream.pull(task.epoch)

    def _extra(self) -> bytes:
        return self.stream.snapshot()

    def pulls(self) -> int:
        return self.stream.pulls

