"""Debug mode inside the pipeline function: operators run when they are called, and nodes hold data.

Every call is matched to a call of earlier iterations by its place in the user's program. The place is the stack of lines that leads to the
call, and the number of earlier calls from the same lines. So readers and random operators continue at their positions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.interrupts import raised_by_signal

from ...data_node import DataNode
from ...errors import OperatorKeyError, refused
from ...graph import context
from ...graph.conditionals import where_tests_work
from ...graph.node import Definition, OperatorInstance
from ...operators.base import Role, Schema
from ...options import PipelineOptions
from ...runtime.work.immediate import Engine, repeated, stand_in
from ...sources.external_source import ExternalInput
from ...sources.sources import batch_size_of
from ...tensors import TensorListCPU, TensorListGPU
from ...types import DALIDataType
from .calls import SAME_ARGUMENTS, OperatorCall, SourceCall, copied, input_nodes, order_error, public_name, without_outputs

if TYPE_CHECKING:
    from ...batch import Batch

_SEEDS = 2**31 - 1


class DataNodeDebug(DataNode):
    """A node with its data, in debug mode. Operations on it are computed immediately.

    Its `source` is a copy of the operator instance of the first iteration. The copy does not refer to output nodes, because they would keep
    their data alive. The node of a branch without samples has no known type, rank or layout.
    """

    __slots__ = ("_batch", "_home")

    has_data = True

    def __init__(self, name: str, source: OperatorInstance, index: int, batch: Any, home: DebugDefinition):
        known = {"ndim": batch.ndim, "dtype": batch.dtype, "layout": batch.layout or None} if batch.rows is None or len(batch) else {}
        super().__init__(name, batch.device, source, index, **known)
        self._batch, self._home = batch, home

    def get(self) -> TensorListCPU | TensorListGPU:
        """The data."""
        return self._home.engine.tensors(self._batch)

    def shape(self, *, dtype: DALIDataType | None = None, device: str | None = None) -> Any:
        """The shape of every sample: a list of tuples. If `dtype` or `device` is given, a node as in a graph."""
        return self.get().shape() if dtype is None and device is None else super().shape(dtype=dtype, device=device or "cpu")

    def __str__(self) -> str:
        data = str(self.get()).replace("\n", "\n    ")
        return f'DataNodeDebug(\n    name="{self.name}",\n    data={data})'

    __repr__ = __str__

    def _on(self, device: str) -> DataNode:
        return self if self.device == device else self._home.transferred(self, device)

    def cpu(self) -> DataNode:
        """The same data on the CPU (the node itself if it is there)."""
        return self._on("cpu")

    def __bool__(self) -> Any:
        raise TypeError(
            '"DataNodeDebug" was used in a conditional context: it is a batch and has no truth value. Look at its data with .get(). '
            + where_tests_work()
        )

    def __len__(self) -> Any:
        raise TypeError("a DataNodeDebug has no len(); its number of samples is len(node.get())")


class DebugDefinition(Definition):
    """Replaces a pipeline's definition: operators that are added to it run immediately."""

    debugged = True
    engine: Engine

    def __init__(self, options: PipelineOptions) -> None:
        super().__init__(options)
        self.ended = False
        self._index = 0
        self._calls: dict[Any, Any] = {}
        self._complete = False
        """The first iteration has ended, so all calls are known."""
        self.finished: dict[int, tuple[Any, ...]] = {}
        """By the number of an iteration: the results that :meth:`DebugPipeline.run` has not returned yet."""
        self._positions: dict[Any, Any] = {}
        """By the number of a call: the position of its operator, if it has run."""
        self._inputs: dict[str, SourceCall] = {}
        self._early: dict[str, list[tuple[TensorListCPU | TensorListGPU, str | None]]] = {}
        self._feeding = threading.Condition()
        self._splits_and_merges: dict[Any, OperatorCall] = {}

    def start(self, engine: Engine) -> None:
        """The pipeline is built."""
        self.engine = engine

    # --- iterations

    def run(self, body: Callable[[], tuple[Any, ...]]) -> tuple[int, tuple[Any, ...]]:
        """The number and the result of an iteration: one that an interrupt kept from its caller, or a new one.

        The caller removes the result from :attr:`finished`.

        At the end of the data, after an error of a source and after an interrupt, all positions are restored. After any other error the
        iteration is lost, as in a graph: the next iteration gets the next batch.
        """
        index = self._index
        earlier = min(self.finished, default=index)
        if earlier < index:
            return earlier, self.finished[earlier]
        if self.ended:
            raise StopIteration
        super().__init__(self.options)  # names are counted from 0 in each iteration
        self._size: int | None = None
        self._repeat = False
        self._ordinals: dict[Any, int] = {}
        self._made: set[int] = set()
        self._last, self._asked = -1, set[int]()
        before = dict(self._positions)
        try:
            result = body()
            self._complete_graph()
            self.finished[index] = result
            self._index = index + 1
        except StopIteration:
            self._positions = before
            self._end_of_data()
            raise
        except BaseException as error:  # after an interrupt or a source's error the iteration is repeated; an operator's error loses it
            if self._index != index:
                raise  # an interrupt after the last step: the next run returns the result
            if self._repeat or raised_by_signal(error):
                self._positions = before
            else:
                for call in self._calls.values():
                    if call.number not in self._made:
                        self._skip(call, self._index)
                self._index += 1
            raise
        return index, result

    def _complete_graph(self) -> None:
        self._complete = True
        with self._feeding:
            unknown, self._early = self._early, {}
        if unknown:
            text = f"data was fed for {', '.join(map(repr, unknown))}, but the pipeline has no external input of that name"
            raise refused(OperatorKeyError, "external_source", "name", text)

    def _end_of_data(self) -> None:
        """One source has ended. Ask the other sources, too: as in a graph, each source then has returned the same number of batches."""
        self.ended = True
        for call in self._sources():
            try:
                if call.number not in self._asked:
                    call.fed(self._index)
            except Exception:
                pass  # this source has also ended, or raises the error again in the next iteration
            call.drop()

    def _skip(self, call: OperatorCall | SourceCall, index: int) -> None:
        """Move on as if a call had been made, which iteration `index` has not reached."""
        if isinstance(call, OperatorCall):
            self._positions[call.number] = call.after(self._position(call), self.size())
            return
        try:
            call.fed(index)
        except StopIteration:
            self.ended = True
        except Exception:
            pass  # a source that fails keeps its position

    def _position(self, call: OperatorCall) -> Any:
        return self._positions.get(call.number, call.start)

    def _sources(self) -> list[SourceCall]:
        return [call for call in self._calls.values() if isinstance(call, SourceCall)]

    def reset(self) -> None:
        """Start the next epoch after the end of the data."""
        if self.ended:
            self.ended = False
            for call in self._sources():
                call.drop()
                call.sources.next_epoch()

    def __len__(self) -> int:
        return len(self._calls)

    def close(self) -> None:
        """Release the resources of operators and sources."""
        for call in (*self._calls.values(), *self._splits_and_merges.values()):
            call.close()

    # --- data as nodes

    def size(self) -> int:
        """Number of samples of this iteration: that of its first batch."""
        if self._size is None:
            self._size = self.engine.batch_size
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

    def as_node(self, value: object) -> object:
        """The node of a batch (a tensor list or a list of arrays). Other objects are returned unchanged."""
        is_list = isinstance(value, (list, tuple)) and bool(value) and all(map(_is_array, value))
        if not is_list and not isinstance(value, (TensorListCPU, TensorListGPU)):
            return value
        batch = self.engine.batch_of(value)
        return DataNodeDebug("data", stand_in("data", batch.device).source, 0, batch, self)

    def with_data(self, schema: Schema, inputs: Sequence[Any], arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        known = schema.by_name
        given = {name: self.as_node(value) if name in known and known[name].tensor else value for name, value in arguments.items()}
        return [self.as_node(item) for item in inputs], given

    def transferred(self, node: DataNodeDebug, device: str) -> DataNodeDebug:
        """The data of `node` on another device."""
        return DataNodeDebug(node.name, node.source, node.index, self.engine.moved(node._batch, device, self._index), self)

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

    def _constant(self, instance: OperatorInstance) -> Batch:
        """A batch of a constant input. The array may change from run to run, so calls of earlier iterations are not compared."""
        given, device = instance.constants, instance.outputs[0].device
        batch = repeated(given["value"], given["dtype"], given.get("layout") or "", self.size())
        return batch if device == "cpu" else self.engine.moved(batch, device, self._index)

    def _run(self, instance: OperatorInstance) -> tuple[OperatorInstance, list[Batch]]:
        """The source of the output nodes, and the output batches."""
        nodes, name = input_nodes(instance), public_name(instance)
        for node in nodes:
            if not node.has_data:
                raise RuntimeError(f"{name}: the node {node.name!r} has no data: it was made outside of the pipeline function")
            self._agree(_samples(node._batch), f"{name}: the input {node.name!r}")
        call = self._called(instance)
        position, size, made = self._position(call), self.size(), None
        try:
            made = call.run([node._batch for node in nodes], size, self._index, position)
        finally:
            self._positions[call.number] = call.moved(position, size, made)
        return copied(call.source), made

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
        made: OperatorCall = self._match(instance.trace, instance.schema.name, OperatorCall, lambda number: self._new(number, instance))
        made.check(instance)
        instance.attachment = made
        return made

    def _new(self, number: int, instance: OperatorInstance) -> OperatorCall:
        self._check_name([instance])
        twin = instance.twin_of
        if twin is not None:  # input sets share one seed, as in DALI
            return OperatorCall(number, instance, twin.attachment.seed, self.engine)
        # The draw of a call that an interrupt has left unfinished is the next call's: it has no number yet.
        drawn = sum(isinstance(call, OperatorCall) and not call.is_twin for call in self._calls.values())
        seeds = np.random.default_rng(self.engine.seed).integers(_SEEDS, size=drawn + 1)
        return OperatorCall(number, instance, int(seeds[drawn]), self.engine)

    def _check_name(self, instances: Sequence[OperatorInstance]) -> None:
        known = [name for call in self._calls.values() for name in call.names]
        twice = [item.name for item in instances if item.explicit_name and item.name in known]
        if twice:
            raise RuntimeError(f"pipeline has operators with non-unique names: '{twice[0]}' is used twice.")

    def _match(self, trace: object, operator: str, kind: type, make: Callable[[int], Any]) -> Any:
        """The call made from `trace`: known, or new in the first iteration. RuntimeError if the order of calls has changed."""
        ordinal = self._ordinals.get(trace, 0)
        self._ordinals[trace] = ordinal + 1
        call = self._calls.get((trace, ordinal))
        if call is None:
            if self._complete:
                raise order_error(operator, "It was not called in the first iteration.")
            call = self._calls[trace, ordinal] = make(len(self._calls))
            for index in range(self._index):  # earlier iterations that failed before this call
                self._skip(call, index)
        if call.number <= self._last:
            raise order_error(operator, "It was called earlier in the first iteration.")
        if not isinstance(call, kind):
            raise order_error(operator)
        if isinstance(call, OperatorCall):
            self._begin(call)
        return call

    def _begin(self, call: OperatorCall | SourceCall) -> None:
        self._made.add(call.number)
        self._last = call.number

    # --- external sources

    def source(self, define: Callable[[], list[DataNode]], listed: bool) -> Sequence[DataNode] | DataNode:
        """The data of a call of `external_source`. `define` makes its nodes. It is called once, because a source is entered once."""
        call = self._match(context.user_trace(), "external_source", SourceCall, lambda number: self._new_source(number, define, listed))
        if call.listed != listed:
            raise RuntimeError(f"asyncdali.fn.external_source: argument 'num_outputs' unexpectedly changed value. {SAME_ARGUMENTS}")
        self._asked.add(call.number)
        try:
            fed = call.fed(self._index, self._wait)
        except StopIteration:
            raise
        except Exception:
            self._repeat = True
            raise
        self._begin(call)
        size = batch_size_of(fed, self._size if self._size is not None else self.engine.batch_size)
        batches = call.run(fed, size, self._index)
        self._agree(size, f"The batch of the external source {call.instances[0].name!r}")
        nodes = [DataNodeDebug(item.name, self._source(item), 0, batch, self) for item, batch in zip(call.instances, batches, strict=True)]
        return nodes if listed else nodes[0]

    def _source(self, instance: OperatorInstance) -> OperatorInstance:
        """An external source as the source of a node of this iteration."""
        source = copied(instance)
        if self.scopes is not None:
            self.scopes.made(source)
        return source

    def _new_source(self, number: int, define: Callable[[], list[DataNode]], listed: bool) -> SourceCall:
        instances = [node.source for node in define()]
        for instance in instances:
            instance.homes = None  # the nodes' homes change from iteration to iteration
        self._check_name(instances)
        call = SourceCall(number, instances, listed, self.engine)
        with self._feeding:
            for instance in instances:
                self._inputs[instance.name] = call
                for data, layout in self._early.pop(instance.name, ()):
                    call.sources.port(instance.name).feed(data, layout)
        return call

    def _wait(self, sources: Any) -> None:
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
                text = f"the pipeline has no external input named {name!r} (it has {known})"
                raise refused(OperatorKeyError, "external_source", "name", text)
            else:
                self._early.setdefault(name, []).append((self.engine.copied(data, stream), layout))
            self._feeding.notify_all()


def _samples(batch: Batch) -> int:
    """Number of samples of the iteration. `batch` may be a branch's."""
    return len(batch) if batch.rows is None else len(batch.rows)


def _is_array(value: object) -> bool:
    """An array, but not a number or a node."""
    if isinstance(value, (np.generic, DataNode, bool, int, float, str, bytes)) or value is None:
        return False
    return any(hasattr(value, name) for name in ("__array__", "__dlpack__", "__array_interface__", "__cuda_array_interface__"))
