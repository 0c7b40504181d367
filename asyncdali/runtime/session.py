"""A built and running pipeline: operators, executor, and the consumer's position."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncdali_workers.exceptions import text_of
from asyncdali_workers.interrupts import raised_by_signal, uninterrupted

from .. import checkpoint as checkpoints
from .._deadlocks import PatientLock, in_main_thread
from ..access import Access
from ..batch import Batch
from ..dali_files import checkpoints as dali_checkpoints
from ..device.host import FUSES_BACKENDS
from ..device.select import choose_gpu, users_device
from ..device.threads import CallThread, kernels_of_threads
from ..errors import CheckpointError, OperatorError, PipelineClosed, place
from ..graph.plan import build_plan, cut_for_gpu, names_for_dali
from ..operators.base import Role
from ..sources.group import Group
from ..sources.ports import Port
from ..sources.pullers import Puller
from ..sources.snapshots import Snapshots
from ..sources.sources import Sources
from ..tensors import TensorListCPU, TensorListGPU
from ..tensors.gpu import stream_handle
from ..tensors.host_memory import HostMemory
from ..tensors.lists import cpu_list, gpu_list, made_by
from ..types import OperatorConcurrency, StreamPolicy
from .blueprint import Blueprint, MakePuller
from .compiling import Compilation
from .counting.counters import PipelineCounters
from .counting.memory_statistics import MemoryStatistics
from .hints import reserve
from .order.executor import Executor, Observers
from .order.lanes import IterationLanes, why_in_order
from .order.moments import NO_CHOICES, Moment
from .order.placement import usual
from .order.producer import EpochPlace, Producer
from .order.record import Record, wait_for_any
from .order.stages import Stages
from .order.turns import Turn, Turns
from .parts import Part, why_whole
from .repairs.repairing import Repairs
from .work.dry_runs import DryRuns
from .work.making import Seeds, check_kernels, make_operators
from .work.output_copies import OutputCopies
from .work.segments import BuiltOperator, BuiltSegment, find_kept_draws

if TYPE_CHECKING:
    from ..readers.base import ReaderOperator
    from ..sources.parallel import Parallel
    from .counting.statistics import Statistics
    from .engine_protocol import Engines

log = logging.getLogger("asyncdali")


class Mark(NamedTuple):
    """The consumer's position: everything in a checkpoint except the graph. Cheap to make and to keep."""

    positions: Mapping[str, Any]
    place: EpochPlace


class Session:
    """Owns everything that exists between ``build()`` and ``close()``."""

    @users_device()
    def __init__(
        self,
        blueprint: Blueprint,
        parallel: Parallel | None = None,
        opened: Callable[[Callable[[], None]], None] | None = None,
        engines: Engines | None = None,
    ):
        """`engines` make a part of each iteration (docs/engines.md).

        `opened` is called first, with the function that closes this session during its construction, because an interrupt may come at any
        time.
        """
        self.options = options = blueprint.options
        self.closed = False
        self.operators: list[BuiltOperator] = []
        self._fetching = PatientLock(self._is_waited_for)
        self._overtaking = False  # iterations are taken in the order in which they are finished
        self._newest_taken = -1  # with overtaking: the largest index of an iteration that was taken
        self._turns = Turns()
        if opened is not None:  # from here on, `close` may be called at any time
            opened(functools.partial(self.close, workers=False))
        self.parallel = parallel
        self.engines = engines
        self.explain: Callable[[], Callable[[Moment], object] | None] = lambda: None
        """Gives the function that makes the provenance of a moment, while the pipeline lives."""
        self.withdraw: Callable[[], None] = lambda: None
        """Ends the reports of this session for ``asyncdali top``."""
        self.depth = options.depth
        self._beside = blueprint.beside
        blueprint.check_scope()
        self._plan(blueprint)
        count = len(self.plan.outputs)
        self.expected_dtype = options.expected("output_dtype", count)
        self.expected_ndim = options.expected("output_ndim", count)
        self.expected_layout = options.expected("output_layout", count)
        self._expects = any(value is not None for value in (*self.expected_dtype, *self.expected_ndim, *self.expected_layout))
        self.gpu_id = 0 if options.device_id is None else int(options.device_id)
        with Compilation(self.plan.operators) as compilation:
            self._build(blueprint, compilation)
        self._kernels = compilation.counted()

    def _build(self, blueprint: Blueprint, compilation: Compilation) -> None:
        """Make the executor and the operators."""
        compilation.compile(kernels_of_threads())
        with uninterrupted():  # it starts threads, which nothing else could stop yet
            self.executor = self._new_executor(f"asyncdali-{id(blueprint.definition):x}")
        self.counters: PipelineCounters | None = self.executor.counters
        self._copies = OutputCopies(self.executor.pool if self.gpu is None else None)
        self._device_memory: Any = HostMemory(self.executor.allocate) if self.gpu is None else self.gpu.memory
        try:
            self._instantiate(blueprint.calling(self.seed), blueprint.access, compilation, blueprint.regrouped)
        except BaseException:
            self.close(workers=False)
            raise

    def _plan(self, blueprint: Blueprint) -> None:
        """Choose the device, and cut the graph into segments."""
        options, engines = self.options, self.engines
        # PER_OPERATOR gives every operator its own stream, so operators of different backends are not fused.
        fuse = FUSES_BACKENDS and options.stream_policy is not StreamPolicy.PER_OPERATOR
        seeds = Seeds(options.seed if engines is None else engines.seed)
        definition = blueprint.definition
        self.plan = build_plan(blueprint.outputs, definition.instances, definition, seeds.entry, fuse, whole=blueprint.whole)
        needs_gpu = any(planned.backend != "cpu" for planned in self.plan.operators)
        self.gpu = choose_gpu(options.device_id, needs_gpu)
        if self.gpu is not None:
            check_kernels(self.plan.operators)
            cut_for_gpu(self.plan)
        self._names = {instance.name for instance in blueprint.definition.instances}
        self._dali_names = names_for_dali(blueprint.outputs, blueprint.definition.instances, blueprint.definition)
        self.part: Part | None = blueprint.part
        self.whole = "" if self.part is None else why_whole(self.plan)
        """Why every iteration computes all samples although it returns a part of them. Empty: it computes only the part."""
        if engines is not None:
            engines.cut(self.plan, fuse, self.gpu is not None)
        self.seed = seeds.seed

    def _new_executor(self, name: str) -> Executor:
        options, engines = self.options, self.engines
        return Executor(
            Stages(name, options.num_threads, options.affinity(), options.stream_policy or StreamPolicy.PER_BACKEND, self.gpu),
            depth=self.depth,
            concurrency=options.concurrency or OperatorConcurrency.BACKEND,
            pool=None if engines is None else engines.pool,
            collects_reports=engines is not None and engines.reports,
            observers=Observers(
                PipelineCounters() if options.enable_statistics else None,
                MemoryStatistics() if options.enable_memory_stats and not options.exec_dynamic else None,
            ),
        )

    # --- build

    def _instantiate(
        self, calling: Callable[[], AbstractContextManager[None]], access: Access, compilation: Compilation, regrouped: MakePuller
    ) -> None:
        options = self.options
        environment = self.executor.environment(
            int(options.batch_size), int(options.num_threads), options.device_id, bool(options.enable_checkpointing), calling,
            access,
        )
        with compilation.collected():
            make_operators(self.plan.operators, environment, self.operators)
        built = {id(item.planned): item for item in self.operators}
        segments = [
            BuiltSegment(segment, [built[id(planned)] for planned in segment.operators]) for segment in self.plan.segments
        ]
        inputs = [planned for planned in self.plan.operators if planned.spec.schema.role is Role.INPUT]
        sources = Sources(
            inputs, int(options.batch_size), self.executor.allocate, bool(options.enable_checkpointing), self.parallel, self.gpu,
            functools.partial(self._puller, regrouped),
        )  # fmt: skip
        if inputs:
            self._copies.compile()
        if self.counters is not None:
            sources.counters = [self.counters.source(puller) for puller in sources.pullers]
        self.producer: Producer = Producer(self.executor, sources, self.depth, int(options.batch_size), self.part, bool(self.whole))
        find_kept_draws(self.operators, self.plan.outputs)
        stateful = {item.planned.spec.name: item for item in self.operators if item.operator.stateful}
        self.stateful: dict[str, BuiltOperator | Snapshots] = {**stateful, **sources.stateful}
        self.iterator_data: Any = None
        self.restored = False
        self._settings: dict[str, Any] = {}
        self._graph_json: str | None = None
        if options.checkpoint is not None:
            self._restore(options.checkpoint)
        self._positions: Mapping[str, Any] = {name: item.position for name, item in self.stateful.items()}
        place = usual if self.engines is None else self.engines.place
        self.began = Mark(self._positions, self.producer.place())
        beside = self._beside and self.engines is None and self.gpu is None and not why_in_order(self.plan, self.operators)
        self.executor.load(segments, self.plan.outputs, self.plan.edge_count, place, IterationLanes if beside else None)
        if self.engines is not None:
            self.engines.attach(self.executor, next(segment for segment in segments if segment.in_engines))
        reserve(self.executor, self.plan.operators, int(options.batch_size), options.bytes_per_sample)
        self.repairs: Repairs | None = None
        if options.on_error != "raise":
            self.repairs = Repairs(self.plan, self.operators, options, self.executor, self.producer)

    def _puller(self, regrouped: MakePuller, group: Any, ports: dict[str, Port], batch_size: int) -> Puller | None:
        """The puller of a source that others than this process's Python code answer. None: this process calls the source."""
        puller = regrouped(group, ports, batch_size)
        if puller is None and self.engines is not None and isinstance(group, Group):
            puller = self.engines.puller(group, ports, batch_size)
        return puller

    # --- running

    @property
    def in_flight(self) -> deque[Record]:
        """Records of the iterations queued and not yet returned."""
        return self.producer.in_flight

    def calls_here(self, hook: bool) -> bool:
        """Whether the caller is a function that this pipeline calls.

        Three cases: a thread of the pipeline, a source (on any thread), or a coroutine of a source. With `hook`, also the legacy
        ``iter_setup``."""
        if not in_main_thread() and threading.current_thread().name.startswith(self.executor.stages.name):
            return True
        producer = self.producer
        return producer.asks_here(hook) or (bool(producer.sources.pullers) and producer.sources.awaited_here())

    def _is_waited_for(self, frame: FrameType) -> bool:
        """Whether a frame runs a segment of the oldest iteration, for which all consumers wait."""
        queue = list(self.in_flight)
        return bool(queue) and not queue[0].finished and queue[0].runs_in(frame)

    @property
    def iteration(self) -> int:
        """Number of iterations of this epoch that were returned to the user."""
        return self.producer.place().iteration

    def nothing_left(self) -> BaseException:
        """The exception to raise when no iteration is in flight: a source's error, or StopIteration."""
        error = self.producer.take_failure()
        return StopIteration() if error is None else error  # an exception of a program may be false

    @functools.cached_property
    def source_thread(self) -> CallThread:
        """The thread on which `run_async()` asks the sources."""
        return CallThread(f"asyncdali-{id(self):x}-sources")

    def turn(self) -> Turn:
        """The calling coroutine's place in the queue for iterations."""
        return Turn(self._turns, self._can_serve)

    def _can_serve(self) -> bool:
        """Whether a caller whose turn has come would not have to wait."""
        try:
            return self.in_flight[0].finished
        except IndexError:  # no iteration is queued
            return True

    def arrives(self) -> None:
        """The consumer begins to wait for the next iteration. Counted once."""
        if self.counters is not None:
            self.counters.arrives(self.in_flight)

    def wait_all(self) -> None:
        """Wait until every launched iteration is computed."""
        for record in list(self.in_flight):
            record.wait()

    def fetch(
        self, stream: Any = None, caller: Any = None, then: Callable[[Any], Any] | None = None, taken: list[Record] | None = None
    ) -> Any:
        """Wait for the oldest iteration and return its outputs, or raise its error. The consumer moves on in both cases.

        Any other exception leaves the iteration to the next call. GPU outputs are complete on return. With a `stream` they are only ordered
        before the later work of that stream. Threads that fetch at the same time are served one after another. `caller`: the member of
        ``Producer.calls`` that this call is. `then`: makes the result of the outputs, before the consumer moves on. `taken`: gets the
        iteration whose outputs are returned, for :meth:`give_back`.
        """
        record: Record | None = None
        try:
            with self._fetching.held():
                record = self._oldest(complete=stream is None)
                outputs: Any = self._outputs(record, stream)
                if then is not None and record.error is None:
                    outputs = then(outputs)
                self.producer.calls.discard(caller)
                if taken is not None and record.error is None:
                    taken.append(record)
                self._take(record)
            if record.error is not None:
                raise record.error
            return outputs
        except BaseException as error:
            self.check_open(error)
            if record is None:
                pass
            elif error is record.error:
                record.error = None  # the record must not keep the frames of its traceback alive
            else:
                try:
                    self.give_back(record, taken)
                except BaseException:  # another signal's handler has raised meanwhile
                    self.give_back(record, taken)
                    raise
            raise

    def hand_over(self, stream: Any, keep: Callable[[Record, Any], None], overtaking: bool = False) -> None:
        """Wait for the oldest iteration, and call ``keep(record, outputs)``, or ``keep(record, error)``. The consumer then moves on.

        After an interrupt the consumer knows whether it has the iteration. If it has, it calls :meth:`drop`. `overtaking`: wait for any
        iteration, and take the oldest one that is finished.
        """
        with self._fetching.held():
            record = self._first_done() if overtaking else self._oldest(complete=stream is None)
            outputs = self._outputs(record, stream)
            error = record.error
            if isinstance(error, PipelineClosed):
                self.check_open()
            try:
                keep(record, outputs if error is None else error.with_traceback(None))  # without frames, which refer to the consumer
            finally:
                del error
            self.drop(record)

    def drop(self, record: Record) -> None:
        """The consumer has this iteration already."""
        record.error = None  # only now: before, an interrupt would lose it
        if record in self.in_flight:
            self._take(record)

    def _first_done(self) -> Record:
        """The oldest iteration that is finished. Waits for one."""
        self._overtaking = True
        self.producer.complete_launch()
        queue = list(self.in_flight)
        if not queue:
            raise self.nothing_left()
        if not any(record.finished for record in queue):
            with nullcontext() if self.gpu is None else self.gpu.entered():
                wait_for_any(queue)
        previous: Record | None = None
        for record in queue:  # without lanes, those before a finished one are planned, so their positions are known
            if record.before is None:
                follows = previous is not None and previous.index + 1 == record.index
                known = previous.positions if previous is not None and follows else self._positions
                record.before = known if record.given is None else record.given
            if record.finished:
                break
            previous = record
        if record.weight and not record.arrived:
            self.counters.arrives((record,))  # type: ignore[union-attr]
        return record

    def _take(self, record: Record) -> None:
        """The consumer moves on behind an iteration. The last step does it; :meth:`mark` is right before and after each step."""
        record.before = record.before or self._positions
        if self._overtaking:
            self._overtake(record)
        else:
            self._positions = record.positions
        try:
            self.in_flight.remove(record)
        except ValueError:  # closed meanwhile
            pass

    def _overtake(self, record: Record) -> None:
        """The next iteration begins where this one ends. Iterations that are queued later begin behind the newest one that was taken."""
        for other in list(self.in_flight):
            if other.index == record.index + 1:
                other.before = other.before or record.positions
        if record.index > self._newest_taken:
            self._positions, self._newest_taken = record.positions, record.index

    def give_back(self, record: Record, taken: list[Record] | None = None) -> None:
        """A call that has taken an iteration does not return it: the next call does. May be repeated. `taken`: see :meth:`fetch`."""
        if record not in self.in_flight:
            self.in_flight.appendleft(record)
        if taken is not None:
            taken.clear()

    async def device_done(self) -> None:
        """Wait, without blocking the event loop, until the GPU has made the outputs of the oldest iteration."""
        if self.gpu is not None and self.in_flight:
            await asyncio.get_running_loop().run_in_executor(None, self.gpu.complete, self.in_flight[0].outputs)

    def output_stream(self) -> int | None:
        """Handle of the stream of the last GPU segment that makes outputs; None on the host device."""
        return self.executor.output_stream()

    def _oldest(self, complete: bool) -> Record:
        """The iteration that is returned next, when it is finished. `complete`: its outputs will be waited for, too."""
        self.producer.complete_launch()
        record = self._head()
        if record is None:
            raise self.nothing_left()
        if record.weight and not record.arrived:
            self.counters.arrives(self.in_flight)  # type: ignore[union-attr]
        self.executor.placement.wait(record, complete)
        return record

    def _outputs(self, record: Record, stream: Any) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """The outputs of a finished iteration. Empty if it has an error; an error of delivering them becomes the iteration's error."""
        self.iterator_data = None  # the data of a checkpoint described the previous position
        repairs = self.repairs
        if repairs is not None and (record.error is not None or repairs.may_drop):
            self._repair(repairs, record)
        if self.counters is not None:
            self.counters.fetched(record, record.outputs)
        if record.error is None and self._expects:
            record.error = self._mismatch(record.outputs)
        if record.error is not None:
            return ()
        try:
            if self.gpu is not None and stream is not None:
                self.gpu.order(record.outputs, stream_handle(stream))
            elif self.gpu is not None:
                self.gpu.complete(record.outputs)
            moment = self.moment(record)
            return tuple([made_by(self._tensor_list(batch), moment) for batch in record.outputs])
        except Exception as error:
            if raised_by_signal(error):
                raise
            record.error = error
            return ()

    def _repair(self, repairs: Repairs, record: Record) -> None:
        """Replace or drop the bad samples of an iteration. If this is interrupted, the next call does it again."""
        positions = record.before or self._positions
        if record.error is not None:
            repairs.repair(record, positions)
            record.choices = NO_CHOICES  # the kept ones are of the iteration that failed
        elif repairs.may_drop and record.outputs:
            record.outputs = repairs.drops_of(record, positions)

    def moment(self, record: Record) -> Moment:
        """The position at which the oldest iteration was made."""
        epoch, step = record.place
        count = record.batch_size
        whole, handed = (record.whole, (record.first, record.first + count)) if record.whole else (count, record.handed or (0, count))
        positions = record.before or self._positions
        return Moment(self.explain, step, epoch, positions, whole, handed, record.origins, record.choices, record.engine, record.workers)

    def _tensor_list(self, batch: Batch) -> TensorListCPU | TensorListGPU:
        # Copies use the pool's memory. The system zeroes the pages of new memory one by one, which takes longer than the copy.
        if batch.reused is not False or batch.alias_of is not None:  # rarely true; saves two calls
            batch = self._copies.private(batch)
        if batch.device == "gpu":
            return gpu_list(batch, self.gpu_id, None, self._device_memory)
        return cpu_list(batch)

    def copied(self, batch: Batch) -> Batch:
        """The samples one after another in memory of their own."""
        batch.reused = True
        return self._copies.private(batch)

    def _mismatch(self, outputs: list[Batch]) -> OperatorError | None:
        """The error if an output is not what the user has declared."""
        for index, batch in enumerate(outputs):
            dtype, ndim, layout = self.expected_dtype[index], self.expected_ndim[index], self.expected_layout[index]
            found: tuple[str, str] | None = None
            if dtype is not None and batch.dtype != dtype:
                found = ("type", f"expected {dtype}, got {batch.dtype!s}")
            elif ndim is not None and batch.ndim != ndim:
                found = ("number of dimensions", f"expected {ndim}, got {batch.ndim}")
            elif layout is not None and batch.layout != layout:
                found = ("layout", f"expected {layout!r}, got {batch.layout!r}")
            if found:
                return OperatorError(f"Output {index} has an unexpected {found[0]}: {found[1]}")
        return None

    def end_of_epoch(self) -> int | None:
        """Number of iterations after which the current epoch ends: the largest shard of the readers has been delivered.

        None without readers. None with sources, because they end the epoch.
        """
        metas = list(self.reader_metas().values())
        if not metas or self.producer.sources.pullers:
            return None
        batch = int(self.options.batch_size)
        ends = []
        for meta in metas:
            shard = -(-meta["epoch_size"] // meta["number_of_shards"])
            if meta["pad_last_batch"]:
                per_epoch = -(-shard // batch)
                ends.append((self.iteration // per_epoch + 1) * per_epoch)
            else:
                epochs_done = self.iteration * batch // shard
                ends.append(-(-((epochs_done + 1) * shard) // batch))
        return max(ends)

    # --- metadata

    def reader_metas(self) -> dict[str, dict[str, int]]:
        return {item.planned.spec.name: item.operator.meta() for item in self.operators if hasattr(item.operator, "meta")}

    @functools.cached_property
    def _readers(self) -> dict[str, ReaderOperator]:
        readers: dict[str, Any] = {item.planned.spec.name: item.operator for item in self.operators if hasattr(item.operator, "origin_of")}
        return readers

    def readers(self) -> dict[str, ReaderOperator]:
        """The reader operators by name."""
        return self._readers

    @functools.cached_property
    def dry_runs(self) -> DryRuns:
        """Makes plans of any iteration without pixels."""
        return DryRuns(self.operators, self.plan.edge_count, self.executor.allocate, self.gpu is not None)

    def statistics(self) -> Statistics:
        """The report of everything counted since the pipeline was built."""
        from .counting.statistics import NO_STATISTICS, take

        if self.counters is None:
            raise RuntimeError(NO_STATISTICS)
        pool = None if self.parallel is None else self.parallel.pool.statistics()
        engines = () if self.engines is None else self.engines.statistics()
        found = take(self.counters, self.options, self.depth, self.in_flight, self.executor.pool, pool, engines)
        return dataclasses.replace(found, kernels=self._kernels())

    def memory_statistics(self) -> dict[str, Any]:
        statistics = self.executor.memory
        return {} if statistics is None else statistics.table()

    def skip(self, iterations: int) -> None:
        """Before the first run: move `iterations` full batches ahead without computing them."""
        batch, sources = int(self.options.batch_size), self.producer.sources
        moved = {
            item.planned.spec.name: item.operator.moved(item.position, iterations, batch)
            for item in self.operators if item.operator.stateful
        }  # fmt: skip
        self.start_at(moved, sources.iteration + iterations, sources.epoch)

    def start_at(self, positions: Mapping[str, Any], iteration: int, epoch: int) -> None:
        """Before the first run: go to the `positions` of operators, and let sources that are asked by position begin at this iteration."""
        for name, item in self.stateful.items():
            if isinstance(item, BuiltOperator):
                item.position = positions[name]
        self._positions = {name: item.position for name, item in self.stateful.items()}
        self.producer.sources.seek(iteration, epoch)

    # --- checkpoints

    def describe(self) -> dict[str, Any]:
        """The graph and the data sets, as a checkpoint keeps them and is compared with."""
        readers: dict[str, Any] = {item.planned.spec.name: item.operator for item in self.operators if hasattr(item.operator, "digest")}
        data = {name: (reader.meta()["epoch_size"], reader.digest()) for name, reader in readers.items()}
        parts = {puller.port.name: graphs for puller in self.producer.sources.pullers if (graphs := puller.graphs)}
        return checkpoints.describe_graph(self.plan, data, parts)

    def mark_before(self, record: Record) -> Mark:
        """The position before an iteration in flight that :meth:`hand_over` hands over."""
        place, before = self.producer.place_before(record), record.before or {}
        return Mark({**before, **place.sources} if place.sources else before, place)

    def mark(self, queues_after: bool = False) -> Mark:
        """The consumer's position: after the last iteration that was returned, and after all errors and ends that were raised.

        `queues_after`: see :meth:`Producer.place`.
        """
        while True:  # repeated if another thread takes an iteration meanwhile
            head, moved = self._head(), self._positions
            positions = moved if head is None or head.before is None else head.before  # set: taken and given back, or about to be taken
            place = self.producer.place(queues_after)
            if self._head() is head and self._positions is moved:
                return Mark({**positions, **place.sources} if place.sources else positions, place)

    def _head(self) -> Record | None:
        """The iteration that is returned next."""
        try:
            return self.in_flight[0]
        except IndexError:
            return None

    def checkpoint(self, library: str, mark: Mark | None = None, iterator: Any = None) -> bytes:
        """The state at `mark` (None: now), with the data of the `iterator` that consumes the pipeline, if there is one."""
        if self._graph_json is None:
            self._graph_json = checkpoints.graph_json(self.describe())
        state = self.saved(self.mark() if mark is None else mark)
        return checkpoints.encode(self._graph_json, state._replace(iterator=self.iterator_data if iterator is None else iterator), library)

    def saved(self, mark: Mark) -> checkpoints.State:
        """The state at `mark` as JSON data, without that of an iterator."""
        positions, place = mark
        states = {name: item.save(positions[name]) for name, item in self.stateful.items()}
        settings = {item.planned.spec.name: item.operator.settings() for item in self.operators}
        settings = {**self._settings, **{name: value for name, value in settings.items() if value is not None}}
        if self.repairs is not None:
            settings["__quarantine__"] = {"count": len(self.repairs.quarantine), "digest": self.repairs.quarantine.digest()}
        ahead = {"ended": place.ended, "resets": place.resets, "more": place.more}
        ahead = {name: value for name, value in ahead.items() if value}
        return checkpoints.State(states, place.iteration, place.epoch, None, settings, ahead)

    def _restore(self, data: Any) -> None:
        if dali_checkpoints.is_checkpoint(data):
            body, found = self._body_of_dali(data), []
        else:
            body = checkpoints.decode(data)
            found = checkpoints.differences(body.get("graph", {}), self.describe())
        if found:
            text = "\n  ".join(found)
            if self.options.strict:
                raise CheckpointError(
                    f"The checkpoint might come from another pipeline, it does not fit this one:\n  {text}\n"
                    "(strict=False restores the states that fit, and logs this text.)"
                )
            log.warning("the checkpoint does not fit this pipeline exactly:\n  %s", text)
        self._load_positions(body)
        self._load_settings(body)
        self.producer.restore(EpochPlace(body["epoch"], body["iteration"], {}, **body.get("ahead", {})))
        self.iterator_data = body.get("iterator")
        self.restored = True

    def _body_of_dali(self, data: bytes) -> dict[str, Any]:
        """The body of a checkpoint that DALI made. CheckpointError names what cannot be restored."""
        saved = dali_checkpoints.parse(data)
        for name, state in saved.operators.items():
            if state and name not in self.stateful:
                if name in self._names:
                    raise CheckpointError(f'the checkpoint of DALI has a state for operator "{name}", which has none in this pipeline')
                raise CheckpointError(
                    f'The pipeline doesn\'t recognize "{name}" as a name of an operator, and the checkpoint of DALI has a state for it. '
                    "The checkpoint might come from another pipeline."
                )
        for name, item in self.stateful.items():
            if self.options.strict and not isinstance(item, BuiltOperator):
                raise CheckpointError(
                    f"DALI saves no state of Python sources, so the state of {name!r} is not in its checkpoint. Pass strict=False to start "
                    "the source from its beginning."
                )
        states = {name: dali_checkpoints.state_of(name, saved.operators[name]) for name in self.stateful if saved.operators.get(name)}
        return {"operators": states, "iteration": saved.iteration, "epoch": saved.epoch, "iterator": saved.iterator}

    def checkpoint_for_dali(self) -> bytes:
        """The state after the last iteration that was returned, as DALI 2.4 saves it. CheckpointError names what its format cannot hold."""
        positions, place = self.mark()
        sources = [name for name, item in self.stateful.items() if not isinstance(item, BuiltOperator)]
        if sources:
            raise CheckpointError(f"the format of DALI's checkpoints has no state of Python sources: {', '.join(sources)}")
        if self.gpu is not None or any(planned.backend != "cpu" for planned in self.plan.operators):
            raise CheckpointError("only CPU pipelines can be saved for DALI, because the names of its GPU operators are not known")
        if place.resets:
            raise CheckpointError("reset() was called before the end of the data was met; DALI's checkpoints cannot say that")
        states = {name: item.save(positions[name]) for name, item in self.stateful.items()}
        return dali_checkpoints.written(states, self._dali_names, place.iteration, place.epoch)

    def _load_positions(self, body: dict[str, Any]) -> None:
        states = body.get("operators", {})
        for name, item in self.stateful.items():
            if name not in states:
                if self.options.strict:
                    raise _unfit(item, f'There\'s no checkpoint for operator "{name}".')
                continue
            try:
                item.position = item.load(states[name])
            except Exception as error:  # any exception: the position may be broken, and the user's source may raise anything
                what = text_of(error) if isinstance(error, (ValueError, TypeError)) else f"{type(error).__name__}: {text_of(error)}"
                message = f'the checkpoint of operator "{name}" cannot be restored: {what}'
                if self.options.strict:
                    raise _unfit(item, message) from error
                log.warning("%s; the operator keeps its present state", message)

    def _load_settings(self, body: dict[str, Any]) -> None:
        """Adopt the decisions that the saved pipeline made in ``build()``.

        Decisions without a meaning here (no GPU) are kept for later saves.
        """
        self._settings = body.get("settings", {})
        for item in self.operators:
            name = item.planned.spec.name
            try:
                item.operator.use_settings(self._settings.get(name))
            except ValueError as error:
                raise _unfit(item, f'the checkpoint of operator "{name}" cannot be restored: {error}') from error

    # --- the end

    def check_open(self, error: BaseException | None = None) -> None:
        """Raise PipelineClosed, chained to `error`, if the pipeline was closed while a caller met that error."""
        if self.closed and not isinstance(error, PipelineClosed) and (error is None or isinstance(error, Exception)):
            raise PipelineClosed("the pipeline was closed") from error

    @users_device()
    def close(self, workers: bool = True) -> None:
        """Stop all threads and, unless told otherwise, the worker processes. Works on a partly constructed session. Idempotent."""
        with uninterrupted():
            self.closed = True
            made = self.__dict__
            if "withdraw" in made:
                self.withdraw()
            if "executor" not in made or self.executor.inherited:
                return  # in a forked child, threads, worker processes and the contents of their queues are the parent's
            if "producer" in made:
                self.producer.close()
            if "source_thread" in made:
                self.source_thread.close()
            if not self.executor.loaded:
                for item in self.operators:
                    item.operator.close()
            self.executor.close()
            if "producer" in made:
                self.producer.in_flight.clear()  # batches that no call will return give their memory back
            if self.parallel is not None and workers:
                self.parallel.close()
            if self.engines is not None and workers:
                self.engines.close()


def _unfit(item: BuiltOperator | Snapshots | Port, message: str) -> CheckpointError:
    """The error to raise for a checkpoint that does not fit a stateful operator or source."""
    error = CheckpointError(message)
    planned = getattr(item, "planned", None)
    if planned is not None:
        place(error, planned, None)
    return error
