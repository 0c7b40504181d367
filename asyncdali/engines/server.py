"""The work of an engine. Requests become records of an executor; finished records become answers. All of it runs on the loop's thread."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import os
import socket
import struct
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import Any

from ..batch import Batch
from ..device.buffers import BufferPool
from ..graph.plan import build_plan
from ..runtime.counters import PipelineCounters
from ..runtime.executor import Executor, Record
from ..runtime.loop import shared_loop
from ..runtime.making import Seeds, make_operators
from ..runtime.parts import why_whole
from ..runtime.segments import BuiltOperator, BuiltSegment
from ..types import OperatorConcurrency, StreamPolicy
from . import channel as channels
from .blocks import ForeignBlocks, OwnBlocks
from .cut import make_cut, segments_before
from .encoding import Frame, Packer, unpack
from .failures import packed
from .handshake import description
from .program import Program
from .source_calls import SourceCalls
from .spans import Spans

log = logging.getLogger("asyncdali")

STATUS = struct.Struct("<qqqq")
"""The engine's activity: the iteration (-1: none), the kind (1: planning an operator, 2: making pixels of a segment, 3: making pixels of
an operator), the operator's number, and the sample that a user's function is called for (-1: none).

The status is in a page of shared memory. The training process can read the page after the engine's death, too."""

_SAMPLE, _SAMPLE_AT = struct.Struct("<q"), 24


class EngineServer:
    """Builds the part of a program before the cut, and answers requests. `ended` is called when the training process is gone."""

    def __init__(self, program: Program, channel: socket.socket, status: Any, ended: Callable[[], None]):
        options = program.options
        self._channel, self._status, self._ended = channel, status, ended
        self._count = 0
        self._lent: dict[int, Any] = {}
        self._leases = itertools.count(1)
        self._announced: set[int] = set()
        self._foreign = ForeignBlocks()
        self._blocks = OwnBlocks()
        self._busy = self._made = 0
        self._spans: Spans | None = None
        plan = build_plan(program.outputs, program.instances, program.definition, Seeds(program.seed).entry)
        cut = make_cut(plan, program.cut, bool(options.engine_sources))
        self._why_whole = why_whole(plan)
        self._numbers = {planned.spec.name: k for k, planned in enumerate(plan.operators)}
        self._executor = Executor(
            num_threads=options.num_threads, concurrency=options.concurrency or OperatorConcurrency.BACKEND,
            stream_policy=options.stream_policy or StreamPolicy.PER_BACKEND, affinity=options.affinity(), name="asyncdali-engine",
            pool=BufferPool(self._blocks.make),
        )  # fmt: skip
        self._executor.progress = self._progress
        self._executor.on_loop = True  # requests arrive on the loop's thread
        if options.enable_statistics:
            self._executor.counters = PipelineCounters()
        environment = self._executor.environment(
            int(options.batch_size), int(options.num_threads), options.device_id, bool(options.enable_checkpointing), program.calling,
            options.depth, program.access,
        )  # fmt: skip
        environment = dataclasses.replace(environment, noting=self._note)
        built: list[BuiltOperator] = []
        make_operators(cut.before, environment, built)
        by_id = {id(item.planned): item for item in built}
        segments = [BuiltSegment(item, [by_id[id(planned)] for planned in item.operators]) for item in segments_before(cut)]
        self._stateful = {item.planned.spec.name: item for item in built if item.operator.stateful}
        self._operators = built
        self._inputs = set(cut.inputs)
        self._batch_size = int(options.batch_size)
        self._segments = len(segments)
        self._description = description(plan, options, program.seed, built)
        self._executor.load(segments, cut.crossing, plan.edge_count)
        self._packer = Packer(self._blocks, self._executor.pool.allocate, self._lend)
        self._sources = SourceCalls(
            cut, self._batch_size, self._executor.pool, status, lambda header: self._answer(header, Frame()), self._guarded
        )

    def serve(self) -> None:
        """Report that the engine is ready, and answer requests from now on."""
        self._channel.setblocking(False)
        loop = shared_loop()
        self._send(channels.message({"ready": os.getpid(), "is": self._description}), [])
        loop.call(loop.loop.add_reader, self._channel.fileno(), self._guarded, self._readable)

    # --- requests

    def _guarded(self, function: Callable[..., None], *args: Any) -> None:
        """Call a method of this class. A bug ends the engine: the training process detects the end, and does not wait forever."""
        try:
            function(*args)
        except Exception:
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
            self._begin(header, body, {}, None)
        elif "statistics" in header:
            self._answer({"statistics": self._statistics()}, Frame())

    def _begin(self, header: dict[str, Any], body: memoryview, pulled: dict[str, Batch], error: Exception | None) -> None:
        """Queue an iteration. `pulled` are the batches of the sources that this engine calls, or an `error` of one of them."""
        key = [header["k"], header["g"]]
        try:
            if error is not None:
                raise error
            first, stop = header["slice"]
            samples = header["n"]
            if not 0 <= first <= stop <= samples:
                raise ValueError(f"an iteration of {samples} samples does not have the samples {first} to {stop}")
            if stop - first < samples and self._why_whole:
                raise ValueError(f"no part of an iteration can be made: {self._why_whole}")
            record = self._executor.new_record(self._count, stop - first)
            record.number = header["k"]
            if stop - first < samples:
                record.first, record.whole = first, samples
            positions = header["at"]
            record.given = {name: built.load(positions[name]) for name, built in self._stateful.items()}
            self._trace(header.get("trace"), record)
            record.careful = bool(header.get("probe"))
            offset = first - header["from"]
            record.fed = {name: self._fed(header["fed"][name], body, offset, stop - first) for name in self._inputs}
            record.fed.update({name: batch.part(first, stop) if stop - first < len(batch) else batch for name, batch in pulled.items()})
        except Exception as failure:
            self._answer({"a": key, "error": packed(failure), "took": 0}, Frame())
            return
        self._count += 1
        began = now()
        if header.get("tell"):
            record.on_planned = self._tell(key, record)
        record.on_finished(lambda: self._guarded(self._finished, key, record, began))
        self._executor.submit_here(record)

    def _tell(self, key: list[int], record: Record) -> Callable[[], None]:
        """A callback that sends the numbers of samples by which positions move on, when all segments are planned.

        Then the next iteration can be requested.
        """
        left = [None] * self._segments
        loop = shared_loop()

        def planned() -> None:
            left.pop()
            if not left:
                loop.call(self._guarded, self._answer, {"planned": key, "produced": record.produced}, Frame())

        return planned

    def _trace(self, wanted: Any, record: Record) -> None:
        """Record spans from this iteration on if `wanted`, else stop."""
        counters = self._executor.counters
        if counters is None or (not wanted and counters.recorder is None):
            return
        if not wanted:
            counters.recorder = self._spans = None
            return
        if self._spans is None:
            counters.recorder = self._spans = Spans()
        record.weight = 1
        self._spans.begins(record.index, record.number)

    def _fed(self, entry: Any, body: memoryview, offset: int, count: int) -> Any:
        batch = unpack(entry, body, self._foreign, None)
        return batch if len(batch) == count else batch.part(offset, offset + count)

    # --- answers

    def _finished(self, key: list[int], record: Record, began: int) -> None:
        self._busy += now() - began
        self._made += 1
        header: dict[str, Any] = {"a": key, "took": now() - began}
        if record.produced:
            header["produced"] = record.produced
        frame = Frame()
        try:
            if record.error is not None:
                header["error"] = packed(record.error)
                record.error = None
            elif not record.careful:
                header["out"] = [self._packer.pack(batch, frame) for batch in record.outputs]
        except Exception as error:  # no shared memory left
            header.pop("out", None)
            header["error"], frame = packed(error), Frame()
        record.outputs = []
        if self._spans is not None:
            header["spans"] = self._spans.take()
        self._answer(header, frame)

    def _answer(self, header: dict[str, Any], frame: Frame) -> None:
        """Send an answer. A frame that is too large for a message goes through a block."""
        gone = self._blocks.take_gone()
        self._announced.difference_update(gone)
        text, body = header, frame.joined()
        if len(body) + 4 * len(str(header)) > channels.LARGEST // 2:
            inner = channels.message(header, body)
            if len(inner) > channels.LARGEST // 2:
                text, body = {"large": self._packer.place(inner)}, b""
        new = {number: descriptor for number, descriptor in self._packer.used.items() if number not in self._announced}
        self._packer.used.clear()
        self._announced.update(new)
        if new:
            text = {**text, "new": list(new)}
        if gone:
            text = {**text, "gone": gone}
        self._send(channels.message(text, body), list(new.values()))

    def _send(self, data: bytes, descriptors: list[int]) -> None:
        try:
            try:
                channels.send(self._channel, data, descriptors)
            except BlockingIOError:  # the training process has not read for a long time; the engine has nothing else to do
                self._channel.setblocking(True)
                channels.send(self._channel, data, descriptors)
                self._channel.setblocking(False)
        except OSError:
            self._ended()

    def _lend(self, owner: Any) -> int:
        number = next(self._leases)
        self._lent[number] = owner
        return number

    # --- status page

    def _progress(self, record: Record, what: Any) -> None:
        """Write the next activity to the status page, where the training process finds it when this process dies."""
        if isinstance(what, tuple):
            STATUS.pack_into(self._status, 0, record.number, 3, self._numbers[what[1].planned.spec.name], -1)
        elif isinstance(what, BuiltOperator):
            STATUS.pack_into(self._status, 0, record.number, 1, self._numbers[what.planned.spec.name], -1)
        else:
            STATUS.pack_into(self._status, 0, record.number, 2, self._numbers[what.operators[0].planned.spec.name], -1)

    def _note(self, sample: int) -> None:
        """Note the sample that a user's function gets next."""
        _SAMPLE.pack_into(self._status, _SAMPLE_AT, sample)

    def _statistics(self) -> dict[str, Any]:
        data: dict[str, Any] = {"iterations": self._made, "busy": self._busy, "lent": len(self._lent)}
        data["allocated"] = self._executor.pool.allocated_bytes
        counters = self._executor.counters
        if counters is not None:
            segments = counters.segments
            data["planning"] = sum(segment.planning for segment in segments)
            data["pixels"] = sum(segment.pixels_busy for segment in segments)
            data["planning_processor"] = sum(segment.planning_processor.of(segment.planning) for segment in segments)
            data["operators"] = {
                item.planned.spec.name: [item.planning.of(segment.planning), item.jobs, item.steps, item.jobs_processor.of(item.jobs)]
                for segment in segments
                for item in segment.operators
            }
        return data
