"""The server: a thread of the main process that feeds the pipeline with the batches of the workers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ....feeding import fed_inputs, feed_and_launch
from ...convert import tensor_of
from .references import OutputBatchReference, Proxy, Run

_STOP = None


class DALIServer:
    """Runs a pipeline on what its :attr:`proxy` is called with, in the workers of a :class:`DataLoader` or here.

    The pipeline's inputs are its external sources without a `source`; `prefetch_queue_depth` batches are worked on at once.
    With `deterministic` batches are worked on in the order in which the loader asks for them, so that random operators give
    the same results in every run; otherwise in the order of their arrival.

    Use it in a `with` statement. ValueError for a pipeline without such inputs.
    """

    def __init__(self, pipeline: Any, deterministic: bool = False):
        self.pipeline, self.deterministic = pipeline, deterministic
        pipeline.build()
        self._inputs = fed_inputs(pipeline)
        if not self._inputs:
            raise ValueError("the pipeline has no inputs to be fed: define external sources without a `source`, with names")
        self._queue = torch.multiprocessing.get_context("fork").Queue()
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._arrived: dict[Run, list[Any]] = {}  # data that the pipeline has not got yet
        self._order: list[Run] = []  # of their arrival, or of the requests
        self._running: list[Run] = []  # in flight in the pipeline, in order
        self._results: dict[Run, Any] = {}  # outputs, or the error
        self._unwanted: set[Run] = set()
        self._gone: set[int] = set()  # processes whose batches nobody will ask for
        self._stopped = False

    @property
    def proxy(self) -> Proxy:
        """What a data set calls with a sample's data."""
        return Proxy(self._inputs, self.pipeline.num_outputs, self._queue)

    def __enter__(self) -> DALIServer:
        self.start_thread()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_thread()

    def start_thread(self) -> None:
        """Start the server; `with` does it."""
        if self._thread is not None:
            raise RuntimeError("the server is running already")
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name="asyncdali-proxy-server", daemon=True)
        self._thread.start()

    def stop_thread(self) -> None:
        """Stop the server; batches that were not asked for are dropped."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._queue.put(_STOP)
        thread.join()

    # --- the thread

    def _serve(self) -> None:
        """Take the workers' data out of the queue, so that they never wait."""
        while True:
            item = self._queue.get()
            if item is _STOP:
                return
            run, columns = item
            with self._changed:
                if self._drops(run):
                    continue
                self._arrived[run] = columns
                if not self.deterministic:
                    self._order.append(run)
                    self._feed()
                self._changed.notify_all()

    def _feed(self) -> None:
        """Give the pipeline what has arrived, in order, as far as its queue is deep."""
        while self._order and self._order[0] in self._arrived and len(self._running) < max(1, self.pipeline._options.depth):
            run = self._order.pop(0)
            try:
                feed_and_launch(self.pipeline, dict(zip(self._inputs, self._arrived.pop(run), strict=True)))
            except Exception as error:
                self._results[run] = error
                continue
            self._running.append(run)

    # --- the consumer's side

    def produce_data(self, obj: Any) -> Any:
        """`obj` (nested dicts, lists and tuples) with tensors in place of references, waiting for the pipeline.

        Raises the pipeline's error if the run failed, RuntimeError if the server is not running.
        """
        outputs: dict[Run, tuple[torch.Tensor, ...]] = {}
        for run in _runs(obj):
            if run not in outputs:
                outputs[run] = self._result(run)
        return _resolved(obj, outputs)

    def request(self, obj: Any) -> None:
        """The consumer will want `obj` next: with `deterministic`, the order of the runs."""
        if self.deterministic:
            with self._changed:
                for run in _runs(obj):
                    if run not in self._order and run not in self._running and run not in self._results:
                        self._order.append(run)
                self._feed()

    def forget(self, obj: Any, processes: Sequence[int]) -> None:
        """Nobody will ask for `obj`, nor for anything else that these worker processes have made."""
        with self._changed:
            self._unwanted.update(_runs(obj))
            self._gone.update(processes)
            for kept in (self._arrived, self._results):
                for run in [run for run in kept if self._drops(run)]:
                    del kept[run]
            self._order = [run for run in self._order if not self._drops(run)]

    def _drops(self, run: Run) -> bool:
        return run in self._unwanted or run[0] in self._gone

    def _result(self, run: Run) -> tuple[torch.Tensor, ...]:
        with self._changed:
            while run not in self._results:
                if self._stopped or self._thread is None:
                    raise RuntimeError("the DALIServer is not running: iterate inside of its `with` block")
                if self._running:
                    self._fetch()
                else:
                    self._changed.wait()
                self._feed()
            result = self._results.pop(run)
        if isinstance(result, BaseException):
            raise result
        return tuple(tensor_of(output) for output in result)

    def _fetch(self) -> None:
        """Wait for the oldest run."""
        run = self._running[0]
        try:
            result: Any = self.pipeline._built().fetch()
        except Exception as error:
            result = error
        self._running.pop(0)
        if self._drops(run):
            self._unwanted.discard(run)
        else:
            self._results[run] = result


def _runs(obj: Any) -> Any:
    if isinstance(obj, OutputBatchReference):
        yield obj.run
    elif isinstance(obj, Mapping):
        for value in obj.values():
            yield from _runs(value)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            yield from _runs(value)


def _resolved(obj: Any, outputs: dict[Run, tuple[torch.Tensor, ...]]) -> Any:
    if isinstance(obj, OutputBatchReference):
        return outputs[obj.run][obj.index]
    if isinstance(obj, Mapping):
        return {key: _resolved(value, outputs) for key, value in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*(_resolved(value, outputs) for value in obj))
    if isinstance(obj, (list, tuple)):
        return type(obj)(_resolved(value, outputs) for value in obj)
    return obj


__all__ = ["DALIServer"]
