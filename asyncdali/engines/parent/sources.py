"""Sources that engines call, in the training process: the puller, and the stand-ins for batches that lie in an engine."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ...batch import Batch
from ...errors import PipelineClosed
from ...sources.group import Group
from ...sources.ports import Port
from ...sources.prefetch import AheadPuller
from ...types import DALIDataType
from ..wire.blocks import Lease

AHEAD = 2
"""Calls in flight per engine: the engine's thread finds the next call when one is done."""

_tokens = itertools.count(1)


class Call:
    """One call of a source in an engine: the position, and the answer."""

    def __init__(self, source: int, iteration: int, epoch: int, index: int):
        self.token = next(_tokens)
        self.source, self.iteration, self.epoch, self.index = source, iteration, epoch, index
        self.sent = 0.0
        self.deaths = 0  # engines that ended while they made this call
        self.held: Lease | None = None  # keeps the batch's memory in the engine
        self._nodes: dict[str, list[Any]] | None = None
        self._error: Exception | None = None
        self._finished = False
        # A lock and no Event: Ctrl-C in the Python code of an Event may leave its inner lock held, and the loop would wait forever.
        self._gate = threading.Lock()
        self._gate.acquire()

    @property
    def position(self) -> list[int]:
        """The contents of a request: the source's iteration and epoch, and the pipeline's iteration."""
        return [self.iteration, self.epoch, self.index]

    def hold(self, returned: deque[int]) -> None:
        """Note that the engine has been asked. When nothing needs the batch any more, the token is appended to `returned`."""
        self.held = Lease(None, self.token, returned, 0)

    def answered(self, nodes: dict[str, list[object]]) -> None:
        self._nodes = nodes
        self._finish()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self._finished = True
        with contextlib.suppress(RuntimeError):  # the gate is open already
            self._gate.release()

    def result(self) -> dict[str, list[Any]]:
        """Wait for the answer. Raises the source's error, and StopIteration at its end."""
        while not self._finished:  # a signal between the interpreter's last check and the wait is noticed after a second
            self._gate.acquire(timeout=1.0)
        if self._error is not None:
            raise self._error
        assert self._nodes is not None
        return self._nodes


class BatchElsewhere(Batch):
    """Stands for a batch that an engine holds. Type, rank, layout and number of samples are known here; the shapes are not."""

    __slots__ = ("call",)

    def __init__(self, call: Call, count: int, dtype: int, ndim: int, layout: str):
        super().__init__(np.zeros((count, ndim), np.int64), DALIDataType(dtype), layout)
        self.call = call

    def fill(self) -> list[object] | None:
        """Type and layout of an empty batch (``Port.check``)."""
        return None if len(self) else [int(self.dtype), self.ndim, self.layout]


class EnginePuller(AheadPuller):
    """Requests batches of sources from the engines before the pipeline needs them."""

    kind = "engines"
    elsewhere = stands_in = True

    def __init__(self, group: Group, ports: dict[str, Port], batch_size: int, number: int, ahead: int, call: Callable[[Call], None]):
        """`call` asks an engine; at most `ahead` calls are in flight."""
        super().__init__(group, ports, batch_size)
        self._call, self._number = call, number
        self.ahead = ahead

    def start(self) -> None:
        """Do nothing: only :meth:`pull` knows the pipeline's iteration, so requests begin there."""

    def _ask(self, iteration: int) -> Call:
        assert self.index is not None
        call = Call(self._number, iteration, self.epoch, self.index + iteration - self.iteration)
        self._call(call)
        return call

    def _answer(self, asked: Call) -> dict[str, Batch]:
        return {name: BatchElsewhere(asked, *what) for name, what in asked.result().items()}

    def _cancel(self, asked: Call) -> None:
        asked.failed(PipelineClosed("the pipeline was closed"))
