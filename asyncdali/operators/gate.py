"""Compares the inputs of an operator with its declaration, before each iteration is prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from ..batch import Batch
from ..errors import InputError
from .accepts import Input, check_counts, check_inputs, check_shapes
from .schema import Role, Schema
from .spec import Spec


class Checked(Protocol):
    """The part of an operator instance that a gate reads."""

    schema: ClassVar[Schema]
    spec: Spec

    def accepts(self) -> tuple[Input, ...]: ...


class Gate:
    """Checks the inputs of one operator instance before each iteration is prepared.

    Signatures (types, numbers of dimensions, layouts) rarely change, so they are first compared with the last accepted signature.
    """

    __slots__ = ("_accepted", "_counts", "_operator", "_scalars", "_shapes")

    def __init__(self, operator: Checked):
        schema = operator.schema
        self._operator = operator
        self._accepted: Any = None
        self._counts = schema.role is not Role.MERGE  # the inputs of a merge are parts of a batch
        self._shapes = any("shape" in accepted.like for accepted in schema.accepts)
        whole = {arg.name for arg in schema.args if arg.tensor and not arg.is_list and arg.name not in schema.per_frame}
        self._scalars = [name for name in operator.spec.argument_inputs if name in whole]

    def check(self, inputs: Sequence[Batch], arguments: Mapping[str, Batch], count: int) -> None:
        """Raise InputError or SampleError for inputs that are not accepted. `count`: samples of the first input."""
        signature: Any
        if len(inputs) == 1:
            first = inputs[0]
            signature = (first.dtype, first.shapes.shape[1], first.layout)
        else:
            signature = [(batch.dtype, batch.shapes.shape, batch.layout) for batch in inputs]  # includes the number of samples
        if signature != self._accepted:
            if self._counts:
                check_counts(inputs, count)
            check_inputs(self._operator.schema.name, self._operator.accepts(), inputs)
            self._accepted = signature
        if self._shapes:
            check_shapes(inputs)
        for name in self._scalars:
            if arguments[name].layout[:1] == "F":
                _check_one_frame(name, arguments[name])


def _check_one_frame(name: str, batch: Batch) -> None:
    """Raise InputError for an argument with several values per sample (one per frame), if the operator does not accept that."""
    if batch.ndim and (batch.shapes[:, 0] > 1).any():
        error = InputError(f"The argument `{name}` cannot have a value for each frame here; give one value per sample.")
        error.argument = name
        raise error
