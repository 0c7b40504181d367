"""Bricks: operators with their constants, ready to be called with any data.

A brick is a built graph around one call (two operators where a schema is composed of two). Nothing in it changes when it runs, so all
threads share it: a call gives the position of a random stream, and gets batches. :class:`Bricks` finds a brick by all that was checked when
it was made: operator, device, constants, names of argument inputs, and number of inputs. It forgets the one that was not used for longest.

Small work is done on the calling thread, which never waits for another one. A call that repeats types and shapes runs a template of its job
(``runtime/templates``). DelayedCall that took longer than :data:`_LONG_NS` last time is shared with the worker threads of the context.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Sequence
from time import perf_counter_ns
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from asyncdali_workers.limits import TooLarge

from ..batch import Batch
from ..device.host import FUSES_BACKENDS
from ..errors import SampleError, because, call_error
from ..graph import context
from ..graph.calls import class_path
from ..graph.node import Definition, make
from ..graph.plan import PlannedOperator, build_plan
from ..operators.base import Arguments, Iteration, Planned, PythonJob, Role, Schema
from ..operators.expressions.types import OPERATIONS
from ..runtime.templates import call_templates
from ..runtime.templates.whole import TooLargeOutput
from ..runtime.work.immediate import stand_in
from ..runtime.work.jobs import CompiledSamples, PythonSamples
from ..runtime.work.segments import MAX_SCRATCH, BuiltOperator

if TYPE_CHECKING:
    from .engine import CallEngine

MOST = 1024
"""Bricks that a table keeps."""
_LONG_NS = 700_000
"""DelayedCall that takes longer is worth waking other threads."""


class Brick:
    """One call of an operator with given constants, built.

    Args:
        schema: the operator.
        device: "cpu" or "gpu" or "mixed", as in graphs.
        constants: converted or plain values of constant arguments.
        named: argument inputs, and the device of each positional input.
        seed: the seed of a reader; other operators get their stream with each call.
    """

    def __init__(
        self, engine: CallEngine, schema: Schema, device: str | None, constants: dict[str, Any], named: Sequence[str],
        places: Sequence[str], seed: int = 0,
    ):  # fmt: skip
        definition = Definition(None)  # type: ignore[arg-type]  # nothing here asks for the options of a pipeline
        with context.Defining(None, definition):
            nodes = [stand_in(f"__input_{k}", place) for k, place in enumerate(places)]
            arguments = {name: stand_in(f"__{name}", "cpu") for name in named}
            given = dict(constants) if device is None else {**constants, "device": device}
            made = make(schema, nodes, {**given, **arguments})
        self.names = list(made) if isinstance(made, dict) else None
        results = list(made.values()) if isinstance(made, dict) else made if isinstance(made, list) else [made]
        self.plan = build_plan(results, definition.instances, None, lambda k: seed, FUSES_BACKENDS)
        sources = {id(node.source): k for k, node in enumerate([*nodes, *arguments.values()])}
        self.single = not isinstance(made, (list, dict))
        self.output_device = "cpu" if device in (None, "cpu") else "gpu"
        self.schema = schema
        self.origin = device, constants, tuple(named)
        """The parts of its call: the device, the constants, and the names of argument inputs."""
        self.path = _path(schema, constants)
        self.operators: list[BuiltOperator] = []
        self.given: list[int] = [-1] * len(sources)
        """The edge of each input, then of each argument input."""
        by_name = {f"__input_{k}": k for k in range(len(nodes))} | {f"__{name}": len(nodes) + k for k, name in enumerate(named)}
        for planned in self.plan.operators:
            if planned.spec.schema.role is Role.INPUT:
                self.given[by_name[planned.spec.name]] = planned.outputs[0]
                continue
            self.operators.append(self._built(planned, engine))
        self.spec = self.plan.operators[-1].spec
        self._templates: Any = None
        self._took = 0
        self._lock = threading.Lock()
        if engine.gpu is None and len(self.operators) == 1 and -1 not in self.given:
            self._templates = call_templates(self.operators[0], set(self.plan.outputs), MAX_SCRATCH)

    def _built(self, planned: PlannedOperator, engine: CallEngine) -> BuiltOperator:
        try:
            operator = planned.kind(planned.spec, engine.environment)
            operator.infer([None] * len(planned.inputs))
        except Exception as error:
            raise call_error(self.path, self.schema.name, error) from error
        return BuiltOperator(planned, operator)

    @property
    def stateful(self) -> list[BuiltOperator]:
        """The operators with a position: at most one."""
        return [built for built in self.operators if built.operator.stateful]

    def run(self, engine: CallEngine, inputs: Sequence[Batch], count: int, position: object = None, index: int = 0) -> list[Batch]:
        """The outputs for `inputs`, the positional ones and then the named ones. `count`: samples, if there are no inputs.

        `position`: of the operator that has one. Raises the operator's error.
        """
        edges: list[Any] = [None] * self.plan.edge_count
        for edge, batch in zip(self.given, inputs, strict=True):
            edges[edge] = batch
        if self._templates is not None:
            with self._lock:  # the built operator, which calls of several threads share, has the position of one of them
                self.operators[0].position = position
                template = self._templates.find(edges, count)
                positions = self._templates.positions()
            if template is not None:
                try:
                    self._compute(engine, template.job_for(edges, positions, engine.allocate, False))
                except TooLargeOutput as failure:
                    raise self._failed(self.operators[0], edges, failure.error) from failure.error
                except Exception as error:
                    raise self._failed(self.operators[0], edges, error) from error
                return [edges[edge] for edge in self.plan.outputs]
        for built in self.operators:
            try:
                self._one(engine, built, edges, count, position, index)
            except Exception as error:
                raise self._failed(built, edges, error) from error
        return [edges[edge] for edge in self.plan.outputs]

    def _one(self, engine: CallEngine, built: BuiltOperator, edges: list[Any], count: int, position: object, index: int) -> None:
        """Prepare, plan and compute one operator. The outputs are placed in memory of their own."""
        operator = built.operator
        inputs = [edges[edge] for edge in built.inputs]
        named = {name: edges[edge] for name, edge in built.arguments}
        leader = inputs[0] if inputs else next(iter(named.values())) if named else None
        samples = count if leader is None else len(leader.shapes)
        if built.gate is not None:
            built.gate.check(inputs, named, samples)
        arguments = Arguments(built.planned.spec, named, samples)
        iteration = Iteration(index, samples if leader is not None else count, {}, None, position)
        if built.prepares:
            preparation = operator.prepare(inputs, arguments, iteration)
            if isinstance(preparation, GeneratorType):
                iteration.prepared = _prepared(engine, built, preparation)
        planned: Planned = operator.plan(inputs, arguments, iteration)
        for edge, batch in zip(built.outputs, planned.outputs, strict=True):
            edges[edge] = batch
            batch.device = built.output_device
            if batch.source_info is None and inputs and len(batch.shapes) == samples:
                batch.source_info = inputs[0].source_info
            if batch.owner is None and batch.alias_of is None and not batch.links:
                batch.feed = None
                batch.reserve(engine.allocate)
        if planned.steps:
            most = max((len(batch.shapes) for batch in planned.outputs), default=samples)
            self._compute(engine, CompiledSamples(max(most, samples if inputs else 0), [(built, step) for step in planned.steps]))
        for batch in planned.outputs:
            if batch.links:
                batch.settle()

    def _compute(self, engine: CallEngine, job: CompiledSamples) -> None:
        """Do a job: alone, or with the worker threads if such work took long before."""
        began = perf_counter_ns()
        if self._took > _LONG_NS and job.count > 1:
            engine.share(job)
            took = (perf_counter_ns() - began) * min(engine.num_threads, job.count)
        else:
            job.work_alone(engine.state())
            took = perf_counter_ns() - began
        self._took = took
        job.raise_error()

    def _failed(self, built: BuiltOperator, edges: list[Any], error: Exception) -> BaseException:
        """The error for the user: it names operator, sample and file."""
        source = None
        if isinstance(error, TooLarge) and error.sample is not None:
            error = because(SampleError(error.sample, str(error)), error)
        if isinstance(error, SampleError):
            for edge in built.inputs:
                batch = edges[edge]
                if batch is not None and batch.source_info and error.sample < len(batch.source_info):
                    source = str(batch.source_info[error.sample])
        return call_error(self.path, self.schema.name, error, source)

    def close(self) -> None:
        """Release what the operators hold."""
        for built in self.operators:
            built.operator.close()


def _prepared(engine: CallEngine, built: BuiltOperator, preparation: Generator[Any, Any, Any]) -> Any:
    """Run the jobs of a preparation and return its result. The preparation gets the error of its job."""
    error: BaseException | None = None
    try:
        while True:
            try:
                wanted = next(preparation) if error is None else preparation.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                error = None
            try:
                if isinstance(wanted, PythonJob):
                    job: Any = PythonSamples(wanted)
                    job.work_alone(engine.state())
                else:
                    job = CompiledSamples(wanted.count, [(built, step) for step in wanted.steps])
                    if wanted.brief or wanted.count < 2:
                        job.work_alone(engine.state())
                    else:
                        engine.share(job)
                job.raise_error()
            except Exception as failure:
                error = failure
    finally:
        preparation.close()


def _path(schema: Schema, constants: dict[str, Any]) -> str:
    """An operator as the user writes it: "ndd.resize", "ndd.readers.File", "ndd `+`"."""
    if constants.get("op") in OPERATIONS:
        return f"ndd {OPERATIONS[constants['op']].symbol}"
    return f"ndd.{class_path(schema.name) if schema.module.endswith('readers') else schema.name}"


class Bricks:
    """Bricks by key, at most :data:`MOST`; threads share them."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Brick] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable, make: Callable[[], Brick]) -> Brick:
        """The brick with `key`; `make` is called if there is none."""
        found = self._known.get(key)
        if found is None:
            made = make()
            with self._lock:
                found = self._known.setdefault(key, made)
                if len(self._known) > MOST:
                    self._known.popitem(last=False)
        elif len(self._known) > MOST // 2:
            with self._lock:
                if key in self._known:
                    self._known.move_to_end(key)
        return found

    def __len__(self) -> int:
        return len(self._known)
