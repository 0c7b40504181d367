"""Debug mode inside the pipeline function: operators run when they are called, and nodes hold data.

Every call is matched to a call of earlier iterations by its place in the user's program. The place is the stack of lines that leads to the
call, and the number of earlier calls from the same lines. So readers and random operators continue at their positions.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.interrupts import raised_by_signal

from ..data_node import DataNode
from ..errors import OperatorKeyError, refused
from ..graph import context
from ..graph.node import Definition, OperatorInstance
from ..operators.base import Role, Schema
from ..options import PipelineOptions
from ..runtime.work.immediate import Engine, repeated, stand_in
from ..sources.external_source import ExternalInput
from ..sources.sources import Sources, batch_size_of
from ..tensors import TensorListCPU, TensorListGPU
from .debug_calls import (
    SAME_ARGUMENTS,
    CallSite,
    OperatorCall,
    SourceCall,
    do_not_wait,
    input_nodes,
    order_error,
    public_name,
    without_outputs,
)
from .debug_nodes import DataNodeDebug, is_array

if TYPE_CHECKING:
    from ..batch import Batch

_SEEDS = 2**31 - 1


class DebugDefinition(Definition):
    """Replaces a pipeline's definition: operators that are added to it run immediately."""

    debugged = True
    engine: Engine

    def __init__(self, options: PipelineOptions) -> None:
        super().__init__(options)
        self.ended = False
        self._batch_size: int | None = None
        self._index = 0
        self._calls: dict[Any, OperatorCall | SourceCall] = {}
        self._complete = False
        """The first iteration has ended, so all calls are known."""
        self._inputs: dict[str, SourceCall] = {}
        self._early: dict[str, list[tuple[TensorListCPU | TensorListGPU, str | None]]] = {}
        self._feeding = threading.Condition()
        self._splits_and_merges: dict[Any, OperatorCall] = {}
        self._begin()

    def _begin(self) -> None:
        self._ids = itertools.count()
        self._size: int | None = None
        self._repeat = False
        self._ordinals: dict[Any, int] = {}
        self._made: list[CallSite] = []
        self._asked: list[SourceCall] = []

    def start(self, engine: Engine, batch_size: int) -> None:
        """The pipeline is built."""
        self.engine, self._batch_size = engine, batch_size
        self._seeds = np.random.default_rng(engine.seed)

    # --- iterations

    def run(self, body: Callable[[], Any]) -> Any:
        """One iteration.

        At the end of the data, after an error of a source and after an interrupt, all positions are restored. After any other error the
        iteration is lost, as in a graph: the next iteration gets the next batch.
        """
        if self.ended:
            raise StopIteration
        self._begin()
        try:
            result = body()
            self._complete_graph()
        except StopIteration:
            self._take_back()
            self._end_of_data()
            raise
        except BaseException as error:  # after an interrupt or a source's error the iteration is repeated; an operator's error loses it
            if self._repeat or raised_by_signal(error):
                self._take_back()
            else:
                self._lost()
            raise
        self._index += 1
        return result

    def _complete_graph(self) -> None:
        self._complete = True
        with self._feeding:
            unknown, self._early = self._early, {}
        if unknown:
            raise refused(
                OperatorKeyError, "external_source", "name",
                f"data was fed for {', '.join(map(repr, unknown))}, but the pipeline has no external input of that name",
            )

    def _take_back(self) -> None:
        for call in self._made:
            call.take_back()

    def _end_of_data(self) -> None:
        """One source has ended. Ask the other sources, too: as in a graph, each source then has returned the same number of batches."""
        self.ended = True
        for call in self._source_calls():
            try:
                if call not in self._asked:
                    call.fed(self._index, do_not_wait)
            except Exception:
                pass  # this source has also ended, or raises the error again in the next iteration
            call.drop()

    def _lost(self) -> None:
        for call in self._calls.values():
            if call not in self._made:
                self._skip(call, self._index)
        self._index += 1

    def _skip(self, call: CallSite, index: int) -> None:
        try:
            call.skip(self.size(), index)
        except StopIteration:
            self.ended = True
        except Exception:
            pass  # a source that fails keeps its position

    def _source_calls(self) -> list[SourceCall]:
        return [call for call in self._calls.values() if isinstance(call, SourceCall)]

    def reset(self) -> None:
        """Start the next epoch after the end of the data."""
        if self.ended:
            self.ended = False
            for call in self._source_calls():
                call.drop()
                call.sources.next_epoch()

    def __len__(self) -> int:
        return len(self._calls)

    def close(self) -> None:
        """Release the resources of operators and sources."""
        for call in (*self._calls.values(), *self._splits_and_merges.values()):
            call.close()

    # --- batch sizes

    def size(self) -> int:
        """Number of samples of this iteration: that of its first batch."""
        if self._size is None:
            assert self._batch_size is not None
            self._size = int(self._batch_size)
        return self._size

    def _agree(self, count: int, what: str) -> None:
        if self._size is None:
            self._size = count
        if count != self._size:
            raise RuntimeError(
                f"{what} has {count} samples, but the batch size of this iteration is {self._size}: all data of an iteration must have "
                "the same size. "
                "In debug mode external sources with batches of different sizes must be called before all other operators."
            )

    # --- data as nodes

    def as_node(self, value: object) -> Any:
        """The node of a batch (a tensor list or a list of arrays). Other objects are returned unchanged."""
        is_list = isinstance(value, (list, tuple)) and bool(value) and all(map(is_array, value))
        if not is_list and not isinstance(value, (TensorListCPU, TensorListGPU)):
            return value
        batch = self.engine.batch_of(value)
        return DataNodeDebug("data", stand_in("data", batch.device).source, 0, batch, self)

    def with_data(self, schema: Schema, inputs: Sequence[Any], arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        given = {}
        for name, value in arguments.items():
            arg = schema.by_name.get(name)
            given[name] = self.as_node(value) if arg is not None and arg.tensor else value
        return [self.as_node(item) for item in inputs], given

    def transferred(self, node: DataNodeDebug, device: str) -> DataNodeDebug:
        """The data of `node` on another device."""
        batch = self.engine.moved(node._batch, device, self._index)
        return DataNodeDebug(node.name, node.source, node.index, batch, self)

    # --- operators

    def add(self, instance: OperatorInstance) -> None:
        """Run an operator and give its outputs data."""
        if instance.schema is ExternalInput.schema:
            return  # `source` feeds all outputs of an external source together
        if instance.schema.role is Role.CONSTANT:
            source, batches = without_outputs(instance), [self._constant(instance)]
        else:
            source, batches = self._run(instance)
        source.homes = instance.homes
        instance.outputs = [
            DataNodeDebug(node.name, source, node.index, batch, self) for node, batch in zip(instance.outputs, batches, strict=True)
        ]

    def _constant(self, instance: OperatorInstance) -> Any:
        """A batch of a constant input. The array may change from run to run, so calls of earlier iterations are not compared."""
        given, device = instance.constants, instance.outputs[0].device
        batch = repeated(given["value"], given["dtype"], given.get("layout") or "", self.size())
        return batch if device == "cpu" else self.engine.moved(batch, device, self._index)

    def _run(self, instance: OperatorInstance) -> tuple[OperatorInstance, list[Any]]:
        """The source of the output nodes, and the output batches."""
        nodes, name = input_nodes(instance), public_name(instance)
        for node in nodes:
            if not node.has_data:
                raise RuntimeError(f"{name}: the node {node.name!r} has no data: it was made outside of the pipeline function")
            self._agree(_samples(node._batch), f"{name}: the input {node.name!r}")  # type: ignore[attr-defined]
        call = self._called(instance)
        batches = call.run([node._batch for node in nodes], self.size(), self._index)  # type: ignore[attr-defined]
        return copy.copy(call.source), batches

    def _called(self, instance: OperatorInstance) -> OperatorCall:
        """The call that made an operator."""
        if instance.schema.role.is_branching:
            # Splits and merges are made at the first use of a node in a branch. The first use may differ between iterations, so the
            # order of calls is not compared.
            key = (instance.schema.name, instance.device, instance.trace, len(instance.inputs), *sorted(instance.constants.items()))
            call = self._splits_and_merges.get(key)
            if call is None:
                call = self._splits_and_merges[key] = OperatorCall(-1, instance, 0, self.engine)
            return call
        call = self._match(instance.trace, instance.schema.name, lambda number: self._new(number, instance))
        if not isinstance(call, OperatorCall):
            raise order_error(instance.schema.name)
        call.check(instance)
        instance.attachment = call
        self._made.append(call)
        return call

    def _new(self, number: int, instance: OperatorInstance) -> OperatorCall:
        if instance.explicit_name and any(instance.name == other for other in self._names()):
            raise RuntimeError(f"pipeline has operators with non-unique names: '{instance.name}' is used twice.")
        twin = instance.twin_of
        seed = int(self._seeds.integers(_SEEDS)) if twin is None else twin.attachment.seed  # input sets share one seed, as in DALI
        return OperatorCall(number, instance, seed, self.engine)

    def _names(self) -> list[str]:
        """The names that the user has given so far."""
        return [name for call in self._calls.values() for name in call.names()]

    def _match(self, trace: object, operator: str, make: Callable[[int], Any]) -> Any:
        """The call made from `trace`: known, or new in the first iteration. RuntimeError if the order of calls has changed."""
        ordinal = self._ordinals.get(trace, 0)
        self._ordinals[trace] = ordinal + 1
        call = self._calls.get((trace, ordinal))
        if call is None:
            if self._complete:
                raise order_error(operator, "It was not called in the first iteration.")
            call = make(len(self._calls))
            self._calls[trace, ordinal] = call
            for index in range(self._index):  # earlier iterations that failed before this call
                self._skip(call, index)
        if self._made and call.number <= self._made[-1].number:
            raise order_error(operator, "It was called earlier in the first iteration.")
        return call

    # --- external sources

    def source(self, define: Callable[[], list[DataNode]], listed: bool) -> Any:
        """The data of a call of `external_source`. `define` makes its nodes. It is called once, because a source is entered once."""
        call = self._match(context.user_trace(), "external_source", lambda number: self._new_source(number, define, listed))
        if not isinstance(call, SourceCall):
            raise order_error("external_source")
        if call.listed != listed:
            raise RuntimeError(f"asyncdali.fn.external_source: argument 'num_outputs' unexpectedly changed value. {SAME_ARGUMENTS}")
        self._asked.append(call)
        try:
            fed = call.fed(self._index, self._wait)
        except StopIteration:
            raise
        except Exception:
            self._repeat = True
            raise
        self._made.append(call)
        size = batch_size_of(fed, self._size if self._size is not None else int(self._batch_size or 0))
        batches = call.run(fed, size, self._index)
        self._agree(size, f"The batch of the external source {call.instances[0].name!r}")
        nodes = [DataNodeDebug(item.name, self._source(item), 0, batch, self) for item, batch in zip(call.instances, batches, strict=True)]
        return nodes if listed else nodes[0]

    def _source(self, instance: OperatorInstance) -> OperatorInstance:
        """An external source as the source of a node of this iteration."""
        source = copy.copy(instance)
        if self.scopes is not None:
            self.scopes.made(source)
        return source

    def _new_source(self, number: int, define: Callable[[], list[DataNode]], listed: bool) -> SourceCall:
        names = self._names()
        instances = [node.source for node in define()]
        for instance in instances:
            instance.homes = None  # the nodes' homes change from iteration to iteration
        if any(instance.explicit_name and instance.name in names for instance in instances):
            raise RuntimeError(f"pipeline has operators with non-unique names: '{instances[0].name}' is used twice.")
        call = SourceCall(number, instances, listed, self.engine)
        with self._feeding:
            for instance in instances:
                self._inputs[instance.name] = call
                for data, layout in self._early.pop(instance.name, ()):
                    call.sources.port(instance.name).feed(data, layout)
        return call

    def _wait(self, sources: Sources) -> None:
        with self._feeding:
            self._feeding.wait_for(lambda: not sources.waits())

    def feed(self, name: str, data: object, layout: str | None, stream: object) -> None:
        """A batch for the external input `name`, ready on the user's `stream`.

        Before the first iteration it is kept for the future input of that name.
        """
        with self._feeding:
            call = self._inputs.get(name)
            if call is not None:
                call.sources.port(name).feed(data, layout, stream)
            elif self._complete:
                known = ", ".join(map(repr, self._inputs)) or "none"
                raise refused(
                    OperatorKeyError, "external_source", "name", f"the pipeline has no external input named {name!r} (it has {known})"
                )
            else:
                self._early.setdefault(name, []).append((self.engine.copied(data, stream), layout))
            self._feeding.notify_all()


def _samples(batch: Batch) -> int:
    """Number of samples of the iteration. `batch` may be a branch's."""
    return len(batch) if batch.rows is None else len(batch.rows)
