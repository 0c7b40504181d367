"""The server. It feeds the pipeline with the workers' batches and puts the outputs into these batches."""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from .....errors import set_aside
from .....pipeline.front import core_of
from ....feeding import fed_inputs, feed_and_launch
from ...convert import tensor_of
from .references import OutputBatchReference, Proxy, Run, with_items


class DALIServer:
    """Runs a pipeline on the arguments of its :attr:`proxy`, which is called in the workers of a :class:`DataLoader` or in this process.

    The pipeline's inputs are its external sources without a `source`. Up to `prefetch_queue_depth` batches are in flight. Batches are
    processed in the order of the requests, so random operators give the same results in every run. `deterministic` asks for this order,
    which is always kept and costs nothing here.

    Use the server in a `with` statement, or let a :class:`DataLoader` start it. TypeError for an object that is not a pipeline, ValueError
    for a pipeline without such inputs.
    """

    def __init__(self, pipeline: object, deterministic: bool = False):
        from .....pipeline import Pipeline

        if not isinstance(pipeline, Pipeline):
            raise TypeError(f"a DALIServer runs a pipeline, got {type(pipeline).__name__}")
        self.pipeline, self.deterministic = pipeline, deterministic
        pipeline.build()
        self._inputs = fed_inputs(pipeline)
        if not self._inputs:
            raise ValueError("the pipeline has no inputs to be fed: define external sources without a `source`, with names")
        self._outputs = pipeline.num_outputs  # a forked worker must not ask the pipeline
        self._serves, self._starts = False, 0
        self._lock = threading.RLock()
        self._waiting: deque[Run] = deque()  # requested, but not yet in the pipeline
        self._running: deque[Run] = deque()  # in flight in the pipeline

    @property
    def proxy(self) -> Proxy:
        """The function that a data set calls with a sample's data. Workers may ask for it, too."""
        return Proxy(self._inputs, self._outputs)

    @property
    def serves(self) -> bool:
        """Whether the server processes batches."""
        return self._serves

    def __enter__(self) -> DALIServer:
        self.start_thread()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_thread()

    def start_thread(self) -> None:
        """Begin to serve; `with` does it. The server has no thread: the pipeline uses its own threads, and the name is DALI's."""
        if self._serves:
            raise RuntimeError("the server is running already")
        self._serves, self._starts = True, self._starts + 1

    def start_for_loader(self) -> Callable[[], None]:
        """Begin to serve. Returns a function that stops the server, unless it was stopped and started again since."""
        self.start_thread()
        started = self._starts

        def stop() -> None:
            if self._serves and self._starts == started:
                self.stop_thread()

        return stop

    def stop_thread(self) -> None:
        """Stop serving. Batches that were not requested are dropped."""
        self._serves = False
        with self._lock:
            self._forget([*self._waiting, *self._running])

    # --- the consumer's side

    def produce_data(self, obj: object) -> Any:
        """`obj` (nested dicts, lists and tuples) with references replaced by tensors. Waits for the pipeline.

        Raises the pipeline's error if the run failed, RuntimeError if the server is not running.
        """
        for run in _runs(obj):
            self._finish(run)
        return _resolved(obj)

    def request(self, obj: object) -> None:
        """Announce that the consumer needs `obj` next, so the pipeline may process it. RuntimeError if the server is not running."""
        with self._lock:
            self._check_serving()
            for run in _runs(obj):
                run.wanted = True
                if run.outcome is None and run not in self._waiting and run not in self._running:
                    self._waiting.append(run)
            self._feed()

    def forget(self, obj: object) -> None:
        """Announce that `obj` is not needed."""
        with self._lock:
            self._forget(list(_runs(obj)))

    def _forget(self, runs: list[Run]) -> None:
        for run in runs:
            run.wanted, run.outcome = False, None
            if run in self._waiting:
                self._waiting.remove(run)

    def _check_serving(self) -> None:
        if not self._serves:
            raise RuntimeError("the DALIServer is not running: use it in a `with` block, or call start_thread()")

    def _finish(self, run: Run) -> None:
        """Wait until the run has an outcome. Raises the outcome if it is an error."""
        if run.outcome is None:
            self.request(OutputBatchReference(run, 0))
        with self._lock:
            while run.outcome is None:
                self._check_serving()
                self._fetch()
                self._feed()
        if isinstance(run.outcome, Exception):
            raise _again(run.outcome)

    # --- the pipeline

    def _feed(self) -> None:
        """Feed the pipeline waiting runs, in order, up to the depth of its queue."""
        while self._waiting and len(self._running) < max(1, core_of(self.pipeline).options.depth):
            run = self._waiting[0]
            try:
                run.record = feed_and_launch(self.pipeline, dict(zip(self._inputs, run.columns, strict=True)))
                if run.record is None:
                    error = core_of(self.pipeline).built().producer.take_failure()
                    raise RuntimeError("a source of the pipeline's own has ended") if error is None else error
                self._running.append(run)
            except Exception as error:
                run.outcome = set_aside(error)
            self._waiting.popleft()

    def _fetch(self) -> None:
        """Wait for the oldest run. Runs are matched by iteration, not counted, because an interrupt (Ctrl-C) may have lost an outcome."""
        if not self._running:
            return
        session, run = core_of(self.pipeline).built(), self._running[0]
        if run.record not in session.in_flight:
            self._running.popleft()
            if run.outcome is None and run.wanted:
                self._waiting.appendleft(run)
            return
        mine = session.in_flight[0] is run.record
        try:
            outcome: Any = tuple(map(tensor_of, session.delivery.fetch()))
        except Exception as error:
            outcome = set_aside(error)
        if mine:
            if run.wanted:
                run.outcome = outcome
            self._running.popleft()


def _again(error: Exception) -> Exception:
    """A copy of a run's error for one caller. The run keeps the original, which must not refer to the caller's frames."""
    try:
        made = copy.copy(error)
    except Exception:  # the constructor does not take the error's `args`
        return error
    made.__cause__ = error.__cause__
    return made


def _runs(obj: object) -> Any:
    if isinstance(obj, OutputBatchReference):
        yield obj.run
    elif isinstance(obj, Mapping):
        for value in obj.values():
            yield from _runs(value)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            yield from _runs(value)


def _resolved(obj: object) -> Any:
    if isinstance(obj, OutputBatchReference):
        assert isinstance(obj.run.outcome, tuple)
        return obj.run.outcome[obj.index]
    return with_items(obj, _resolved)


__all__ = ["DALIServer"]
