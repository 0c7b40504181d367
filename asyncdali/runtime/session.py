"""A built pipeline: it makes what a pipeline consists of, and closes it.

``order.producer`` queues iterations, ``order.delivery`` hands them over, and ``saving`` makes checkpoints.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from asyncdali_workers.interrupts import uninterrupted

from ..device.host import FUSES_BACKENDS
from ..device.select import choose_gpu, users_device
from ..device.threads import CallThread, kernels_of_threads
from ..errors import PipelineClosed
from ..graph.plan import build_plan, cut_for_gpu, names_for_dali
from ..operators.base import Environment, Role
from ..sources.group import Group
from ..sources.ports import Port
from ..sources.pullers import Puller
from ..sources.snapshots import Snapshots
from ..sources.sources import MakePuller, Sources
from ..system.deadlocks import in_main_thread
from ..types import OperatorConcurrency, StreamPolicy
from .blueprint import Blueprint
from .compiling import Compilation
from .counting.counters import PipelineCounters
from .counting.memory_statistics import MemoryStatistics
from .hints import reserve
from .order.delivery import Delivery, Mark
from .order.executor import Executor, Observers
from .order.lanes import why_in_order
from .order.placement import OnLanes, decodes_ahead, segment_kind, usual
from .order.producer import Producer
from .order.stages import Stages
from .parts import Part, why_whole
from .repairs.bad_samples import Repairs
from .saving import Names, Saving
from .work.dry_runs import DryRuns
from .work.making import Seeds, check_kernels, make_operators, make_segments
from .work.output_lists import OutputLists
from .work.segments import BuiltOperator, BuiltSegment, find_kept_draws

if TYPE_CHECKING:
    from ..readers.base import ReaderOperator
    from ..sources.parallel import Parallel
    from .counting.statistics import Statistics
    from .engine_protocol import Engines
    from .order.placement import Placement


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
        self.options = blueprint.options
        self.closed = False
        self.operators: list[BuiltOperator] = []
        if opened is not None:  # from here on, `close` may be called at any time
            opened(functools.partial(self.close, workers=False))
        self.parallel = parallel
        self.engines = engines
        self.withdraw: Callable[[], None] = lambda: None
        """Ends the reports of this session for ``asyncdali top``."""
        self.depth = self.options.depth
        self._beside = blueprint.beside
        blueprint.check_scope()
        self._plan(blueprint)
        with Compilation(self.plan.operators) as compilation:
            self._build(blueprint, compilation)
        self._kernels = compilation.counted()

    def _build(self, blueprint: Blueprint, compilation: Compilation) -> None:
        """Make the executor and the operators."""
        compilation.compile(kernels_of_threads())
        with uninterrupted():  # it starts threads, which nothing else could stop yet
            self.executor = self._new_executor(f"asyncdali-{id(blueprint.definition):x}")
        self.counters: PipelineCounters | None = self.executor.counters
        try:
            self._instantiate(blueprint, compilation)
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
        self._names = Names(
            {instance.name for instance in definition.instances}, names_for_dali(blueprint.outputs, definition.instances, definition)
        )
        self.part: Part | None = blueprint.part
        self.whole = "" if self.part is None else why_whole(self.plan)
        """Why every iteration computes all samples although it returns a part of them. Empty: it computes only the part."""
        if engines is not None:
            engines.cut(self.plan, fuse, self.gpu is not None)
        self.seed = seeds.seed

    def _new_executor(self, name: str) -> Executor:
        options, engines = self.options, self.engines
        stages = Stages(name, options.num_threads, options.affinity(), options.stream_policy or StreamPolicy.PER_BACKEND, self.gpu)
        if engines is not None and engines.reports:
            stages.collect_reports()
        return Executor(
            stages,
            depth=self.depth,
            pool=None if engines is None else engines.pool,
            observers=Observers(
                PipelineCounters() if options.enable_statistics else None,
                MemoryStatistics() if options.enable_memory_stats and not options.exec_dynamic else None,
            ),
        )

    # --- build

    def _instantiate(self, blueprint: Blueprint, compilation: Compilation) -> None:
        options = self.options
        environment = Environment(
            int(options.batch_size), int(options.num_threads), options.device_id, bool(options.enable_checkpointing),
            self.executor.allocate, blueprint.calling(self.seed), self.gpu, self.depth, blueprint.access,
        )  # fmt: skip
        with compilation.collected():
            make_operators(self.plan.operators, environment, self.operators)
        segments = make_segments(self.plan.segments, self.operators, segment_kind(self.gpu))
        inputs = [planned for planned in self.plan.operators if planned.spec.schema.role is Role.INPUT]
        sources = Sources(
            inputs, int(options.batch_size), self.executor.allocate, bool(options.enable_checkpointing), self.parallel, self.gpu,
            functools.partial(self._puller, blueprint.regrouped),
        )  # fmt: skip
        if self.counters is not None:
            sources.counters = [self.counters.source(puller) for puller in sources.pullers]
        ahead = self.depth > 1 and bool(options.exec_async) and not inputs and decodes_ahead(self.gpu, segments)
        self.producer = Producer(self.executor, sources, self.depth + ahead, int(options.batch_size), self.part, bool(self.whole))
        self.in_flight = self.producer.in_flight
        find_kept_draws(self.operators, self.plan.outputs)
        stateful = {item.planned.spec.name: item for item in self.operators if item.operator.stateful}
        self.stateful: dict[str, BuiltOperator | Snapshots] = {**stateful, **sources.stateful}
        self.saving = Saving(self.plan, self.operators, self.stateful, self.producer, options, self._names)
        self.restored = options.checkpoint is not None
        iterator_data = None if options.checkpoint is None else self.saving.restore(options.checkpoint)
        positions = {name: item.position for name, item in self.stateful.items()}
        self.began = Mark(positions, self.producer.place())
        concurrency = options.concurrency or OperatorConcurrency.BACKEND
        self.executor.load(segments, self.plan.outputs, self.plan.edge_count, concurrency, self._placement(), ahead)
        lists = OutputLists(options, len(self.plan.outputs), self.executor.placement.output_memory())
        if inputs:
            lists.compile()
        if self.engines is not None:
            self.engines.attach(self.executor, next(segment for segment in segments if segment.in_engines))
        reserve(self.executor, self.plan.operators, int(options.batch_size), options.bytes_per_sample)
        self.repairs: Repairs | None = None
        if options.on_error != "raise":
            self.repairs = Repairs(self.plan, self.operators, options, self.executor, self.producer)
            self.saving.quarantine = self.repairs.quarantine
        self.delivery = Delivery(self.producer, self.executor, lists, self.repairs, positions, self.check_open)
        self.delivery.iterator_data = iterator_data

    def _placement(self) -> Callable[[Executor, list[BuiltSegment]], Placement]:
        """The function that makes the placement, chosen by the engines or the graph."""
        if self.engines is not None:
            return self.engines.place
        beside = self._beside and self.gpu is None and not why_in_order(self.plan, self.operators)
        return OnLanes if beside else usual

    def _puller(self, regrouped: MakePuller, group: Group, ports: dict[str, Port], batch_size: int) -> Puller | None:
        """The puller of a source that others than this process's Python code answer. None: this process calls the source."""
        puller = regrouped(group, ports, batch_size)
        if puller is None and self.engines is not None and isinstance(group, Group):
            puller = self.engines.puller(group, ports, batch_size)
        return puller

    # --- running

    def calls_here(self, hook: bool) -> bool:
        """Whether the caller is a function that this pipeline calls.

        Three cases: a thread of the pipeline, a source (on any thread), or a coroutine of a source. With `hook`, also the legacy
        ``iter_setup``."""
        if not in_main_thread() and threading.current_thread().name.startswith(self.executor.stages.name):
            return True
        producer = self.producer
        return producer.asks_here(hook) or producer.sources.awaited_here()

    @property
    def iteration(self) -> int:
        """Number of iterations of this epoch that were returned to the user."""
        return self.producer.place().iteration

    @functools.cached_property
    def source_thread(self) -> CallThread:
        """The thread on which `run_async()` asks the sources."""
        return CallThread(f"asyncdali-{id(self):x}-sources")

    def wait_all(self) -> None:
        """Wait until every launched iteration is computed."""
        for record in list(self.in_flight):
            record.wait()

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

    def start_at(self, positions: Mapping[str, object], iteration: int, epoch: int) -> None:
        """Before the first run: go to the `positions` of operators, and let sources that are asked by position begin at this iteration."""
        for name, item in self.stateful.items():
            if isinstance(item, BuiltOperator):
                item.position = positions[name]
        self.delivery.begin_at({name: item.position for name, item in self.stateful.items()})
        self.producer.sources.seek(iteration, epoch)

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
