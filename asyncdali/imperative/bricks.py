"""Bricks: operators with their constants, ready to be called with any data.

A brick is a built graph around one call (two operators where a schema is composed of two). Nothing in it changes when it runs, so all
threads share it: a call gives the position of a random stream, and gets batches. :class:`Bricks` finds a brick by all that was checked when
it was made: operator, device, constants, names of argument inputs, and number of inputs. It forgets the one that was not used for longest.

Small work is done on the calling thread, which never waits for another one. A call that repeats types and shapes runs a template of its job
(``runtime/templates``). DelayedCall that took longer than :data:`_LONG_NS` last time is shared with the worker threads of the context.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Sequence
from time import perf_counter_ns
from types import GeneratorType
from typing import Any, NamedTuple, Protocol

import numpy as np
from asyncdali_workers.limits import TooLarge

from ..batch import Batch
from ..device.host import FUSES_BACKENDS
from ..device.threads import WorkerState
from ..errors import SampleError, because, call_error
from ..graph import context
from ..graph.calls import class_path
from ..graph.node import Definition, OperatorInstance, make
from ..graph.peephole import enabled
from ..graph.plan import PlannedOperator, build_plan
from ..operators.base import Arguments, Environment, Iteration, Planned, PythonJob, Role, Schema, Trait
from ..operators.expressions.types import OPERATIONS
from ..runtime.templates import call_templates
from ..runtime.templates.whole import TooLargeOutput
from ..runtime.work import branches
from ..runtime.work.immediate import stand_in
from ..runtime.work.jobs import CompiledSamples, PythonSamples
from ..runtime.work.segments import MAX_SCRATCH, BuiltOperator

MOST = 1024
"""Bricks that a table keeps."""
_LONG_NS = 700_000
"""DelayedCall that takes longer is worth waking other threads."""


class _LongCalls(threading.local):
    count = 0


long_calls = _LongCalls()
"""Long work of the calling thread, so that a loop knows whether its body has any."""


class BrickEngine(Protocol):
    """Memory and threads for bricks: ``engine.CallEngine``, or the engine of a pipeline in debug mode."""

    @property
    def environment(self) -> Environment: ...
    @property
    def allocate(self) -> Callable[[int], np.ndarray]: ...
    @property
    def num_threads(self) -> int: ...
    def state(self) -> WorkerState: ...
    def share(self, job: CompiledSamples) -> None: ...


class CallGraph(NamedTuple):
    """The graph of one call: an operator (two where a schema is composed of two) with stand-ins for its inputs.

    device, constants   "cpu", "gpu" or "mixed", as in graphs; converted or plain values of constant arguments
    named               argument inputs;  inputs  names of the stand-ins of positional inputs, then of argument inputs
    names               of the outputs; None: they have none
    single              whether the only output is the result, and not a list with it
    """

    schema: Schema
    device: str | None
    constants: dict[str, Any]
    named: Sequence[str]
    inputs: list[str]
    outputs: list[Any]
    instances: list[OperatorInstance]
    names: list[str] | None = None
    single: bool = False


def graph_of_call(
    schema: Schema, device: str | None, constants: dict[str, Any], named: Sequence[str], places: Sequence[str]
) -> CallGraph:  # fmt: skip
    """The graph of a call; `named`: argument inputs, `places`: the device of each positional input.

    Raises the errors of a graph. They name the function that the user has called, not the one in ``fn``.
    """
    definition = Definition(None)  # type: ignore[arg-type]  # nothing here asks for the options of a pipeline
    with context.Defining(None, definition):
        nodes = [stand_in(f"__input_{k}", place) for k, place in enumerate(places)]
        arguments = {name: stand_in(f"__{name}", "cpu") for name in named}
        given = dict(constants) if device is None else {**constants, "device": device}
        try:
            made = make(schema, nodes, {**given, **arguments})
        except Exception as error:
            called, text = f"asyncdali.fn.{schema.name}", str(error.args[0]) if error.args else ""
            if text.startswith(called):
                error.args = (_path(schema, constants) + text[len(called) :].replace("DataNode", "Tensor or Batch"), *error.args[1:])
            raise
    inputs = [node.name for node in (*nodes, *arguments.values())]
    if isinstance(made, dict):
        return CallGraph(schema, device, constants, named, inputs, list(made.values()), definition.instances, list(made))
    single = not isinstance(made, list)
    return CallGraph(schema, device, constants, named, inputs, [made] if single else made, definition.instances, None, single)


class Brick:
    """One call of an operator with given constants, built.

    Args:
        engine: where it runs.
        graph: the call.
        seed: the seed of a reader; other operators get their stream with each call.
    """

    def __init__(self, engine: BrickEngine, graph: CallGraph, seed: int = 0):
        self.graph = graph._replace(outputs=[], instances=[])  # in debug mode, nodes of instances get data
        self.schema, self.names, self.single = graph.schema, graph.names, graph.single
        self.plan = build_plan(graph.outputs, graph.instances, None, lambda k: seed, FUSES_BACKENDS)
        self.output_device = "cpu" if graph.device in (None, "cpu") else "gpu"
        self.path = _path(graph.schema, graph.constants)
        self.operators: list[BuiltOperator] = []
        self.given: list[int] = [-1] * len(graph.inputs)
        """The edge of each input, then of each argument input."""
        by_name = {name: k for k, name in enumerate(graph.inputs)}
        for planned in self.plan.operators:
            if planned.spec.schema.role is Role.INPUT:
                self.given[by_name[planned.spec.name]] = planned.outputs[0]
                continue
            self.operators.append(self._built(planned, engine))
        self.spec = self.plan.operators[-1].spec
        traits = self.operators[-1].operator.traits
        self.is_outside = any((Trait.ACTS_OUTSIDE | Trait.READS_FILES) & built.operator.traits for built in self.operators)
        """Whether it reads or writes files."""
        self._views, self._hands_out = Trait.VIEWS in traits, Trait.HANDS_OUT_SAMPLES in traits
        self._templates: Any = None
        self._took = 0
        self._lock = threading.Lock()
        if len(self.operators) == 1 and -1 not in self.given:
            self._templates = call_templates(self.operators[0], set(self.plan.outputs), MAX_SCRATCH)

    def _built(self, planned: PlannedOperator, engine: BrickEngine) -> BuiltOperator:
        try:
            operator = planned.kind(planned.spec, engine.environment)
            operator.neighbours = planned.neighbours
            operator.infer([None] * len(planned.inputs))
        except Exception as error:
            raise self.error(planned, error) from error
        return BuiltOperator(planned, operator)

    @property
    def stateful(self) -> list[BuiltOperator]:
        """The operators with a position: at most one."""
        return [built for built in self.operators if built.operator.stateful]

    def reads_for(self, consumer: Brick) -> None:
        """`consumer` reads the first output of this reader, so the reader scans the files' heads for it, as in pipelines."""
        reader = self.operators[0].operator
        if enabled("heads") and Trait.SCANS_HEADS in reader.traits and reader.neighbours.head_scan is None:
            reader.neighbours.head_scan = consumer.operators[0].operator.wanted_scan()

    def shares(self, output: Batch) -> bool:
        """Whether an output has memory of an input, although the operator is not known for that: a cast to the same type, for example."""
        return not self._views and (self._hands_out or output.alias_of is not None)

    def run(self, engine: BrickEngine, inputs: Sequence[Batch], count: int, position: object = None, index: int = 0) -> list[Batch]:
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
                    template.took = self._compute(engine, template.job_for(edges, positions, engine.allocate, False))
                except TooLargeOutput as failure:
                    raise self.failed(self.operators[0], edges, failure.error) from failure.error
                except Exception as error:
                    raise self.failed(self.operators[0], edges, error) from error
                return [edges[edge] for edge in self.plan.outputs]
        for built in self.operators:
            try:
                self._one(engine, built, edges, count, position, index)
            except Exception as error:
                raise self.failed(built, edges, error) from error
        return [edges[edge] for edge in self.plan.outputs]

    def _one(self, engine: BrickEngine, built: BuiltOperator, edges: list[Any], count: int, position: object, index: int) -> None:
        """Prepare, plan and compute one operator. The outputs are placed in memory of their own."""
        operator = built.operator
        inputs = [edges[edge] for edge in built.inputs]
        named = {name: edges[edge] for name, edge in built.arguments}
        leader = inputs[0] if inputs else next(iter(named.values())) if named else None
        samples = count if leader is None else len(leader.shapes)
        rows = None if leader is None else branches.rows_of(built, edges)
        if rows is not None and not samples and built.skips_empty:
            for edge in built.outputs:
                edges[edge] = branches.nothing(rows)
                edges[edge].device = built.output_device
            return
        if built.gate is not None:
            built.gate.check(inputs, named, samples)
        arguments = Arguments(built.planned.spec, named, samples)
        iteration = Iteration(index, count if leader is None or rows is not None else samples, {}, None, position)
        if built.prepares:
            preparation = operator.prepare(inputs, arguments, iteration)
            if isinstance(preparation, GeneratorType):
                iteration.prepared = _prepared(engine, built, preparation)
        planned: Planned = operator.plan(inputs, arguments, iteration)
        for edge, batch in zip(built.outputs, planned.outputs, strict=True):
            edges[edge] = batch
            batch.device = built.output_device
            if rows is not None and batch.rows is None:
                batch.rows = rows
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

    def brief(self, inputs: Sequence[Batch], count: int, most_ns: int) -> Any:
        """The template for calls of at most `most_ns` with such inputs; None if there is none. See `runtime.templates.brief`."""
        is_long = self._templates is None or self._took > most_ns
        return None if is_long else self._templates.brief(inputs, self.given, count, most_ns)

    def _compute(self, engine: BrickEngine, job: CompiledSamples) -> int:
        """Do a job: alone, or with the worker threads if such work took long before. Returns the time of all threads in ns."""
        began = perf_counter_ns()
        if self._took > _LONG_NS and job.count > 1:
            engine.share(job)
            took = (perf_counter_ns() - began) * min(engine.num_threads, job.count)
        else:
            job.work_alone(engine.state())
            took = perf_counter_ns() - began
        self._took = took
        if took > _LONG_NS:
            long_calls.count += 1
        job.raise_error()
        return took

    def failed(self, built: BuiltOperator, edges: list[Any], error: Exception) -> BaseException:
        """The error for the user: it names operator, sample and file."""
        source = None
        if isinstance(error, TooLarge) and error.sample is not None:
            error = because(SampleError(error.sample, str(error)), error)
        if isinstance(error, SampleError):
            for edge in built.inputs:
                batch = edges[edge]
                if batch is not None and batch.source_info and error.sample < len(batch.source_info):
                    source = str(batch.source_info[error.sample])
            rows = branches.rows_of(built, edges)
            if rows is not None:
                error.sample, error.others = int(np.flatnonzero(rows == error.sample)[0]), ()
        return self.error(built.planned, error, source)

    def error(self, planned: PlannedOperator, error: Exception, source: str | None = None) -> Exception:
        """The error of an operator for the user. `source`: the file of the sample."""
        return call_error(self.path, self.schema.name, error, source)

    def close(self) -> None:
        """Release what the operators hold."""
        for built in self.operators:
            built.operator.close()


def results(brick: Brick, values: list[Any]) -> Any:
    """The results in the form that users get."""
    if brick.names is not None:
        return dict(zip(brick.names, values, strict=True))
    return values[0] if brick.single else tuple(values)


def _prepared(engine: BrickEngine, built: BuiltOperator, preparation: Generator[Any, Any, Any]) -> Any:
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
        self._given: dict[Hashable, Brick] = {}
        self._lock = threading.Lock()

    def known(self, given: Hashable) -> Brick | None:
        """The brick of a call whose arguments have been checked before. `given`: the arguments as the program gave them, with classes."""
        try:
            return self._given.get(given)
        except TypeError:  # lists in lists and arrays have no hash
            return None

    def remember(self, given: Hashable, brick: Brick) -> None:
        """The arguments of a call were checked, and it has this brick. Tables that are full begin again."""
        with contextlib.suppress(TypeError), self._lock:
            if len(self._given) >= MOST:
                self._given = {}
            self._given[given] = brick

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
