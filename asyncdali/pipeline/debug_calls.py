"""Debug mode: calls of operators and of sources in the user's program, which are matched from iteration to iteration."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ..data_node import DataNode
from ..graph.node import OperatorInstance
from ..runtime.work.immediate import Engine, Immediate, stand_in
from ..sources.sources import Fed, Sources
from .debug_arguments import are_interchangeable, arguments_of, is_equal

SAME_ARGUMENTS = "In debug mode an operator must be called with the same constant arguments in every iteration."


def order_error(operator: str, more: str = "") -> RuntimeError:
    return RuntimeError(
        f"Unexpected call of `asyncdali.fn.{operator}`. Debug mode does not support changing the order of operators executed within the "
        f"pipeline. {more}".rstrip()
    )


class CallSite:
    """A place in the user's program. `number` is its position in the order of the first iteration."""

    def __init__(self, number: int):
        self.number = number

    def skip(self, batch_size: int, index: int) -> None:
        """The iteration failed before this call: move on as if the call had been made."""
        raise TypeError("abstract")

    def take_back(self) -> None:
        """The iteration will be repeated."""

    def names(self) -> list[str]:
        """Its name in the user's program."""
        raise TypeError("abstract")


class OperatorCall(CallSite):
    """A call of an operator: the built operator, and its arguments."""

    def __init__(self, number: int, instance: OperatorInstance, seed: int, engine: Engine):
        super().__init__(number)
        self.seed = seed
        self._engine = engine
        self._build(instance)

    def _build(self, instance: OperatorInstance) -> None:
        self.name = instance.name if instance.explicit_name else None
        self._schema, self._device, self._inputs = instance.schema, instance.device, len(instance.inputs)
        self._arguments = arguments_of(instance)
        nodes = [stand_in(f"__input_{k}", node.device) for k, node in enumerate(input_nodes(instance))]
        self._stand_ins = [node.name for node in nodes]
        instance.inputs = nodes[: self._inputs]
        instance.argument_inputs = dict(zip(instance.argument_inputs, nodes[self._inputs :], strict=True))
        self._operator = Immediate(self._engine, instance.outputs, [instance], self.seed)
        self.source = without_outputs(instance)

    def names(self) -> list[str]:
        return [] if self.name is None else [self.name]

    def check(self, instance: OperatorInstance) -> None:
        """Raise RuntimeError unless the call is equal to the first one."""
        if instance.schema is not self._schema:
            raise order_error(instance.schema.name, f"In the first iteration it was `asyncdali.fn.{self._schema.name}`.")
        if len(instance.inputs) != self._inputs or instance.device != self._device:
            raise RuntimeError(f"{public_name(instance)}: its number of inputs or device unexpectedly changed. {SAME_ARGUMENTS}")
        given, before = arguments_of(instance), self._arguments
        replaced = False
        for name in {**before, **given}:
            old, new = before.get(name), given.get(name)
            if not is_equal(old, new):
                raise RuntimeError(
                    f"{public_name(instance)}: argument '{name}' unexpectedly changed value from {old!r} to {new!r}. {SAME_ARGUMENTS} "
                    "Give changing values as data: an array per sample, or an external source."
                )
            replaced = replaced or not are_interchangeable(old, new)
        if replaced and not self._operator.stateful:
            # The same `def` or `lambda` was executed again. The new function may refer to other data, so the operator is built again.
            self._operator.close()
            self._build(instance)

    def run(self, batches: Sequence[Any], size: int, index: int) -> list[Any]:
        """The output batches for the input batches."""
        return self._operator.run(dict(zip(self._stand_ins, batches, strict=True)), size, index)

    def skip(self, batch_size: int, index: int) -> None:
        self._operator.skip(batch_size, index)

    def take_back(self) -> None:
        self._operator.take_back()

    def close(self) -> None:
        """Release the operator's resources."""
        self._operator.close()


class SourceCall(CallSite):
    """A call of `external_source`. A second request in the same iteration returns the same batch."""

    def __init__(self, number: int, instances: Sequence[OperatorInstance], listed: bool, engine: Engine):
        super().__init__(number)
        self.listed = listed
        self.instances = instances
        self._operator = Immediate(engine, [instance.outputs[0] for instance in instances], instances)
        self.sources: Sources = engine.sources(self._operator.plan.operators)
        self._fed: Fed = {}
        self._fed_for = -1

    def names(self) -> list[str]:
        return [instance.name for instance in self.instances if instance.explicit_name]

    def fed(self, index: int, wait: Callable[[Sources], None]) -> Fed:
        """The batch for iteration `index`. Raises the source's errors."""
        if self._fed_for != index:
            pulled = self.sources.pull(index)
            wait(self.sources)
            self._fed, self._fed_for = self.sources.take_fed(pulled), index
        return self._fed

    def run(self, fed: Fed, size: int, index: int) -> list[Any]:
        """The output batches. Raises errors of fed data."""
        return self._operator.run(fed, size, index)

    def drop(self) -> None:
        """A source has ended: drop the batches that sources returned for this iteration (fed batches are kept)."""
        if not self.sources.pushed:
            self.sources.drop()
            self._fed, self._fed_for = {}, -1

    def skip(self, batch_size: int, index: int) -> None:
        self.fed(index, do_not_wait)

    def close(self) -> None:
        """No more requests will come."""
        self.sources.close()


def do_not_wait(sources: Sources) -> None:
    pass


def public_name(instance: OperatorInstance) -> str:
    return f"asyncdali.fn.{instance.schema.name}"


def without_outputs(instance: OperatorInstance) -> OperatorInstance:
    """An instance as the source of nodes with data."""
    source = copy.copy(instance)
    source.outputs = []
    source.homes = None  # the homes of the original refer to other nodes
    return source


def input_nodes(instance: OperatorInstance) -> list[DataNode]:
    return [*instance.inputs, *instance.argument_inputs.values()]
