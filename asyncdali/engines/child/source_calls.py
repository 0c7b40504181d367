"""Calls of sources in an engine. A source that needs nothing but a position can be called in any process (docs/engines.md).

The training process asks for the batch of a position ahead of need. The engine keeps the batch, and answers with its number of samples,
type and layout. The request for the iteration then names the batch. An engine that does not have the batch calls the source again.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import Any

import numpy as np
from asyncdali_workers.exceptions import text_of

from ...batch import Batch
from ...device.buffers import BufferPool
from ...device.threads import CallThread
from ...runtime.order.loop import shared_loop
from ...sources.group import Group
from ...sources.ports import Port
from ...sources.pullers import DirectPuller
from ...types import DALIDataType
from ..cut import Cut
from ..wire.failures import packed

SOURCE_STATUS = struct.Struct("<qqq")
"""The source's number, its iteration, and the sample that the source is called for (-1: none). It follows ``STATUS`` in the page."""

SOURCE_STATUS_AT = 64
_IDLE = -1, -1, -1


class SourceCalls:
    """The sources that an engine calls, one call after another on a thread of its own.

    All methods run on the loop's thread. `answer` sends a header. `guarded` calls a function, and ends the engine if the function fails.
    """

    def __init__(
        self, cut: Cut, batch_size: int, pool: BufferPool, page: Any, answer: Callable[[dict[str, Any]], None],
        guarded: Callable[..., None],
    ):  # fmt: skip
        self._page, self._answer, self._guarded = page, answer, guarded
        self._pullers = [self._puller(cut, group, batch_size, pool) for group in cut.groups]
        self._held: dict[int, Any] = {}
        self._waiting: dict[int, list[Callable[[Any], None]]] = {}
        self._thread = CallThread("asyncdali-engine-sources")
        SOURCE_STATUS.pack_into(page, SOURCE_STATUS_AT, *_IDLE)

    def _puller(self, cut: Cut, group: Group, batch_size: int, pool: BufferPool) -> DirectPuller:
        mine = [planned for planned in cut.before if planned.attachment is group]
        ports = {planned.spec.name: Port(planned, batch_size, pool.allocate) for planned in mine}
        if not group.batch:
            group = dataclasses.replace(group, callback=self._noting(group.callback))
        return DirectPuller(group, ports, batch_size)

    def _noting(self, callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Note each sample before the source is called for it: the training process reads the page after the engine's death."""
        page, note, at = self._page, struct.Struct("<q").pack_into, SOURCE_STATUS_AT + 16

        def call(info: Any) -> Any:
            note(page, at, info.idx_in_batch)
            return callback(info)

        return call

    def ask(self, token: int, source: int, position: list[int]) -> None:
        """Make the batch of a position (iteration, epoch, iteration of the pipeline), keep the batch, and describe it."""
        began = now()

        def made(result: Any) -> None:
            header: dict[str, Any] = {"asked": token, "took": now() - began}
            if isinstance(result, StopIteration):
                header["end"] = 1
            elif isinstance(result, Exception):
                header["error"] = packed(result)
            else:
                self._held[token] = result
                header["nodes"] = {name: [len(batch), int(batch.dtype), batch.ndim, batch.layout] for name, batch in result.items()}
            self._answer(header)

        self._call(token, source, position, made)

    def collect(self, wanted: list[Any], then: Callable[[dict[str, Batch], Exception | None], None]) -> None:
        """Call `then` with the batches of a request ([token, source, position, fill] each), by node, and an error."""
        found: dict[str, Batch] = {}
        error: Exception | None = None
        left = len(wanted)

        def made(fill: dict[str, list[Any]], result: Any) -> None:
            nonlocal error, left
            left -= 1
            if isinstance(result, StopIteration):
                result = RuntimeError("a source ended at a position for which it has returned a batch before")
            if isinstance(result, Exception):
                error = result if error is None else error
            else:
                found.update({name: _filled(batch, fill.get(name)) for name, batch in result.items()})
            if not left:
                then(found, error)

        for token, source, position, fill in wanted:
            held = self._held.get(token)
            if held is not None:
                made(fill, held)
            else:
                self._call(token, source, position, functools.partial(made, fill))

    def forget(self, tokens: list[int]) -> None:
        """Drop batches that the training process does not need any more."""
        for token in tokens:
            self._held.pop(token, None)

    def _call(self, token: int, source: int, position: list[int], then: Callable[[Any], None]) -> None:
        if token in self._waiting:
            self._waiting[token].append(then)
            return
        self._waiting[token] = [then]
        self._thread.submit(lambda: shared_loop().call(self._guarded, self._made, token, self._batches(source, *position)))

    def _made(self, token: int, result: object) -> None:
        for then in self._waiting.pop(token):
            then(result)

    def _batches(self, source: int, iteration: int, epoch: int, index: int) -> Any:
        """Runs on the thread of the sources. Returns the batches by node, or the exception."""
        puller = self._pullers[source]
        SOURCE_STATUS.pack_into(self._page, SOURCE_STATUS_AT, source, iteration, -1)
        try:
            puller.seek(iteration, epoch)
            puller.index = index
            return puller.pull()
        except Exception as error:
            return error
        except BaseException as error:  # SystemExit, KeyboardInterrupt of the user's code: as an error of the iteration
            return RuntimeError(f"{type(error).__name__}: {text_of(error)}")
        finally:
            puller.drop()
            SOURCE_STATUS.pack_into(self._page, SOURCE_STATUS_AT, *_IDLE)


def _filled(batch: Batch, fill: list[Any] | None) -> Batch:
    """A batch without samples gets the type, rank and layout that the training process knows from the batches before."""
    if fill is not None:
        dtype, ndim, batch.layout = fill
        batch.dtype, batch.shapes = DALIDataType(dtype), np.empty((0, ndim), np.int64)
    return batch
