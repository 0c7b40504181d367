"""The work of an engine: requests to a :class:`Maker`, answers to the training process. All of it runs on the loop's thread."""

from __future__ import annotations

import functools
import itertools
import logging
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ...batch import Batch
from ...device.buffers import BufferPool
from ...runtime.order.loop import shared_loop
from ...runtime.order.record import Record
from ...runtime.work.segments import BuiltOperator
from ..wire import channel as channels
from ..wire.blocks import ForeignBlocks, OwnBlocks
from ..wire.encoding import Frame, Packer, unpack
from ..wire.failures import packed
from ..wire.program import Program
from .maker import Maker
from .source_calls import SourceCalls

log = logging.getLogger("asyncdali")

STATUS = struct.Struct("<qqqq")
"""The engine's activity: the iteration (-1: none), the kind (1: planning an operator, 2: making pixels of a segment, 3: making pixels of
an operator), the operator's number, and the sample that a user's function is called for (-1: none).

The status is in a page of shared memory. The training process can read the page after the engine's death, too."""

_SAMPLE, _SAMPLE_AT = struct.Struct("<q"), 24


class EngineServer:
    """Builds the part of a program before the cut, and answers requests. `ended` is called when the training process is gone."""

    def __init__(self, program: Program, channel: socket.socket, status: Any, ended: Callable[[], None]):
        self._channel, self._status, self._ended = channel, status, ended
        self._lent: dict[int, Any] = {}
        self._leases = itertools.count(1)
        self._announced: set[int] = set()
        self._foreign = ForeignBlocks()
        self._blocks = OwnBlocks()
        self._maker = Maker(
            program, BufferPool(self._blocks.make), self._note, sources=bool(program.options.engine_sources), progress=self._progress
        )
        executor = self._maker.executor
        self._packer = Packer(self._blocks, executor.pool.allocate, self._lend)
        self._sources = SourceCalls(
            self._maker.cut, int(program.options.batch_size), executor.pool, status, lambda header: self._answer(header, Frame()),
            self._guarded,
        )  # fmt: skip

    def serve(self) -> None:
        """Report that the engine is ready, and answer requests from now on."""
        self._channel.setblocking(False)
        loop = shared_loop()
        self._send(channels.message({"ready": os.getpid(), "is": self._maker.description}))
        loop.call(loop.loop.add_reader, self._channel.fileno(), self._guarded, self._readable)

    # --- requests

    def _guarded(self, function: Callable[..., None], *args: object) -> None:
        """Call a method of this class. A bug ends the engine: the training process detects the end, and does not wait forever."""
        try:
            function(*args)
        except BaseException:  # an exit, too: it would end the thread of the loop, and no thread would answer
            log.exception("unexpected error in an engine")
            self._ended()

    def _readable(self) -> None:
        try:
            data, descriptors = channels.receive(self._channel)
        except BlockingIOError:
            return
        if not data:
            self._ended()
            return
        header, body = channels.parsed(data)
        for number, descriptor in zip(header.get("new", ()), descriptors):
            self._foreign.add(number, descriptor)
        self._foreign.drop(header.get("gone", []))
        for number in header.get("back", ()):
            self._lent.pop(number, None)
        if "large" in header:
            body = self._foreign.bytes(header["large"])
        if "unneeded" in header:
            self._sources.forget(header["unneeded"])
        if "ask" in header:
            self._sources.ask(header["ask"], header["source"], header["position"])
        elif header.get("sources"):
            self._sources.collect(header["sources"], functools.partial(self._begin, header, body))
        elif "k" in header:
            self._begin(header, body)
        elif "statistics" in header:
            self._answer({"statistics": {**self._maker.statistics(), "lent": len(self._lent)}}, Frame())

    def _begin(
        self, header: dict[str, Any], body: memoryview, pulled: dict[str, Batch] | None = None, error: Exception | None = None
    ) -> None:
        """Queue an iteration. `pulled` are the batches of the sources that this engine calls, or an `error` of one of them."""
        self._maker.begin(header, lambda entry: unpack(entry, body, self._foreign, None), self._finished, self._guarded, pulled, error)

    # --- answers

    def _finished(self, header: dict[str, object], batches: list[Batch]) -> None:
        frame = Frame()
        try:
            if batches:
                header["out"] = [self._packer.pack(batch, frame) for batch in batches]
        except Exception as error:  # no shared memory left
            header.pop("out", None)
            header["error"], frame = packed(error), Frame()
        self._answer(header, frame)

    def _answer(self, header: dict[str, Any], frame: Frame) -> None:
        """Send an answer. A frame that is too large for a message goes through a block."""
        gone = self._blocks.take_gone()
        self._announced.difference_update(gone)
        text, body = header, frame.joined()
        if len(body) + 4 * len(str(header)) > channels.LARGEST // 2:
            inner = channels.message(header, body)
            if len(inner) > channels.LARGEST // 2:
                key = {"a": header["a"]} if "a" in header else {}
                text, body = {"large": self._packer.place(inner), **key}, b""
        new = {number: descriptor for number, descriptor in self._packer.used.items() if number not in self._announced}
        self._packer.used.clear()
        self._announced.update(new)
        if new:
            text = {**text, "new": list(new)}
        if gone:
            text = {**text, "gone": gone}
        self._send(channels.message(text, body), list(new.values()))

    def _send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        try:
            try:
                channels.send(self._channel, data, list(descriptors))
            except BlockingIOError:  # the training process has not read for a long time; the engine has nothing else to do
                self._channel.setblocking(True)
                channels.send(self._channel, data, list(descriptors))
                self._channel.setblocking(False)
        except OSError:
            self._ended()

    def _lend(self, owner: object) -> int:
        number = next(self._leases)
        self._lent[number] = owner
        return number

    # --- status page

    def _progress(self, record: Record, what: Any) -> None:
        """Write the next activity to the status page, where the training process finds it when this process dies."""
        if isinstance(what, tuple):
            STATUS.pack_into(self._status, 0, record.number, 3, self._maker.numbers[what[1].planned.spec.name], -1)
        elif isinstance(what, BuiltOperator):
            STATUS.pack_into(self._status, 0, record.number, 1, self._maker.numbers[what.planned.spec.name], -1)
        else:
            STATUS.pack_into(self._status, 0, record.number, 2, self._maker.numbers[what.operators[0].planned.spec.name], -1)

    def _note(self, sample: int) -> None:
        """Note the sample that a user's function gets next."""
        _SAMPLE.pack_into(self._status, _SAMPLE_AT, sample)
