"""Debug mode: calls of operators and of sources in the user's program, which are matched from iteration to iteration.

A call of an operator is a brick of dynamic mode, so calls that repeat types and shapes run from templates.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...batch import Batch
from ...errors import operator_error
from ...graph.node import OperatorInstance
from ...graph.plan import PlannedOperator
from ...imperative.bricks import Brick, BrickEngine, CallGraph
from ...imperative.cuda import GraphBrick
from ...runtime.work.immediate import Engine, Immediate, stand_in
from ...runtime.work.jobs import CompiledSamples
from ...runtime.work.segments import BuiltSegment
from ...sources.sources import Fed, Sources

SAME_ARGUMENTS = "In debug mode an operator must be called with the same constant arguments in every iteration."


def order_error(operator: str, more: str = "") -> RuntimeError:
    return RuntimeError(
        f"Unexpected call of `asyncdali.fn.{operator}`. Debug mode does not support changing the order of operators executed within the "
        f"pipeline. {more}".rstrip()
    )


class _TracedBrick(Brick):
    """A brick that is counted in the pipeline's statistics, and whose errors name the iteration and the user's line."""

    index: int | None = None
    _planned: int | None = None  # samples of the last plan, if it has steps; None: it failed
    _pixels = 0

    def __init__(self, engine: Engine, graph: CallGraph, seed: int):
        super().__init__(engine, graph, seed)
        segment = BuiltSegment(self.plan.segments[-1], self.operators)
        self._counters = None if engine.counters is None else engine.counters.segment(segment)
        if self._counters is not None:
            self._counters.stream = "caller"

    def error(self, planned: PlannedOperator, error: Exception, source: str | None = None) -> Exception:
        return operator_error(planned, error, self.index, source)

    def run(self, engine: BrickEngine, inputs: Sequence[Batch], count: int, position: object = None, index: int = 0) -> list[Batch]:
        self.index, self._planned, self._pixels, began = index, None, 0, perf_counter_ns()
        made = super().run(engine, inputs, count, position, index)
        if self._counters is not None:
            took = perf_counter_ns() - began
            self._counters.called(dict(zip(self.plan.outputs, made)), took - self._pixels, self._pixels, count)
        return made

    def _compute(self, engine: BrickEngine, job: CompiledSamples) -> int:
        self._planned, began = job.count, perf_counter_ns()
        took = super()._compute(engine, job)
        self._pixels = perf_counter_ns() - began
        return took

    def moved(self, position: object, size: int, made: Sequence[Batch] | None) -> Any:
        """The position behind the last run in an iteration of `size` samples. `made`: its outputs; None: it has failed."""
        samples = self._planned if made is None else len(made[0])
        return self.stateful[0].after(position, size if samples is None else samples)


class OperatorCall:
    """A place in the user's program where an operator is called. `number`: in the order of the first iteration."""

    def __init__(self, number: int, instance: OperatorInstance, seed: int, engine: Engine):
        self.number, self.seed, self._engine = number, seed, engine
        self.is_twin = instance.twin_of is not None
        self._build(instance)
        self.start = self._stateful[0].operator.start if self._stateful else None

    def _build(self, instance: OperatorInstance) -> None:
        self.names = [instance.name] if instance.explicit_name else []
        self._schema, self._key, self._arguments = instance.schema, (instance.device, len(instance.inputs)), _arguments(instance)
        nodes, named = input_nodes(instance), list(instance.argument_inputs)
        on_gpu = (instance.device != "cpu" or any(node.device != "cpu" for node in nodes)) and self._engine.choose() is not None
        nodes = [stand_in(f"__input_{k}", node.device) for k, node in enumerate(nodes)]
        instance.inputs, rest = nodes[: len(instance.inputs)], nodes[len(instance.inputs) :]
        instance.argument_inputs = dict(zip(named, rest, strict=True))
        self.source = without_outputs(instance)
        names = [node.name for node in nodes]
        graph = CallGraph(instance.schema, instance.device, instance.constants, named, names, instance.outputs, [instance])
        self._brick: Any = (GraphBrick if on_gpu else _TracedBrick)(self._engine, graph, self.seed)
        self._stateful = self._brick.stateful

    def check(self, instance: OperatorInstance) -> None:
        """Raise RuntimeError unless the call is equal to the first one."""
        if instance.schema is not self._schema:
            raise order_error(instance.schema.name, f"In the first iteration it was `asyncdali.fn.{self._schema.name}`.")
        if (instance.device, len(instance.inputs)) != self._key:
            raise RuntimeError(f"{public_name(instance)}: its number of inputs or device unexpectedly changed. {SAME_ARGUMENTS}")
        given, before, replaced = _arguments(instance), self._arguments, False
        with contextlib.suppress(ValueError):  # arrays have no truth value
            if given == before:
                return
        for name in given.keys() | before.keys():
            old, new = before.get(name), given.get(name)
            plain = type(old) is type(new) and not callable(new) and not isinstance(new, np.ndarray)
            if old is new or (plain and (bool(old == new) or repr(old) == repr(new))):
                continue
            (was, referred), (now, refers) = _identity(old), _identity(new)
            if was != now:
                raise RuntimeError(
                    f"{public_name(instance)}: argument '{name}' unexpectedly changed value from {old!r} to {new!r}. {SAME_ARGUMENTS} "
                    "Give changing values as data: an array per sample, or an external source."
                )
            replaced = replaced or referred != refers
        if replaced and not self._stateful:
            # The same `def` or `lambda` was executed again. The new function may refer to other data, so the operator is built again.
            self.close()
            self._build(instance)

    def run(self, batches: Sequence[Batch], size: int, index: int, position: object) -> list[Batch]:
        """The outputs for the inputs. `index`: the iteration's number."""
        made: list[Batch] = self._brick.run(self._engine, batches, size, position, index)
        return made

    def moved(self, position: object, size: int, made: Sequence[Batch] | None) -> Any:
        """The position behind the last run. `made`: its outputs; None: it has failed."""
        return self._brick.moved(position, size, made) if self._stateful else None

    def after(self, position: object, size: int) -> Any:
        """The position behind a call that an iteration of `size` samples has not reached."""
        return self._stateful[0].after(position, size) if self._stateful else None

    def close(self) -> None:
        """Release the operator's resources."""
        self._brick.close()


class SourceCall:
    """A call of `external_source`. A second request in the same iteration returns the same batch."""

    def __init__(self, number: int, instances: Sequence[OperatorInstance], listed: bool, engine: Engine):
        self.number, self.listed, self.instances = number, listed, instances
        self.names = [instance.name for instance in instances if instance.explicit_name]
        graph = Immediate(engine, [instance.outputs[0] for instance in instances], instances)
        self.sources: Sources = engine.sources(graph.plan.operators)
        self.run = graph.run
        self._fed: tuple[int, Fed] = (-1, {})

    def fed(self, index: int, wait: Callable[[Sources], object] = lambda sources: None) -> Fed:
        """The batch for iteration `index`. Raises the source's errors."""
        if self._fed[0] != index:
            pulled = self.sources.pull(index)
            wait(self.sources)
            self._fed = index, self.sources.take_fed(pulled)
        return self._fed[1]

    def drop(self) -> None:
        """A source has ended: drop the batches that sources returned for this iteration (fed batches are kept)."""
        if not self.sources.pushed:
            self.sources.drop()
            self._fed = -1, {}

    def close(self) -> None:
        """No more requests will come."""
        self.sources.close()


def public_name(instance: OperatorInstance) -> str:
    return f"asyncdali.fn.{instance.schema.name}"


def input_nodes(instance: OperatorInstance) -> list[Any]:
    return [*instance.inputs, *instance.argument_inputs.values()]


def without_outputs(instance: OperatorInstance) -> OperatorInstance:
    """An instance as the source of nodes with data. The homes of the original refer to other nodes."""
    source = copied(instance)
    source.outputs, source.homes = [], None
    return source


def copied(instance: OperatorInstance) -> OperatorInstance:
    """``copy.copy`` takes 6 us."""
    made = object.__new__(OperatorInstance)
    made.__dict__.update(instance.__dict__)
    return made


class _Data:
    """Represents an argument that was given as a node."""

    def __repr__(self) -> str:
        return "a DataNode"


_DATA = _Data()


def _arguments(instance: OperatorInstance) -> dict[str, object]:
    return {**instance.constants, **dict.fromkeys(instance.argument_inputs, _DATA)}


def _identity(value: object) -> tuple[object, list[int]]:
    """The part of an argument that must stay, and the identities of the objects that a function refers to.

    A function (also compiled by Numba) or method has its code, a partial the code of its callable, another object the code of its class.
    """
    if isinstance(value, functools.partial):
        what, refers = _identity(value.func)
        return what, [*refers, *map(id, (*value.args, *value.keywords, *value.keywords.values()))]
    if isinstance(value, np.ndarray):
        return (value.dtype, value.shape, value.tobytes()), []
    if not callable(value) or isinstance(value, type):
        return (type(value), repr(value)), []
    inner = getattr(value, "py_func", value)
    code = getattr(inner, "__code__", None)
    if code is None:
        return getattr(type(value).__call__, "__code__", value), [id(inner)]
    cells, defaults, named = (getattr(inner, f"__{name}__", None) for name in ("closure", "defaults", "kwdefaults"))
    contents = [getattr(cell, "cell_contents", None) for cell in cells or ()]  # an empty cell has none
    return code, list(map(id, (getattr(inner, "__self__", None), *contents, *(defaults or ()), *(named or {}).values())))
