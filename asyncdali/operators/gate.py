"""Compares the inputs of an operator with its declaration, before each iteration is prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..batch import Batch
from ..errors import InputError
from .accepts import check_counts, check_inputs, check_shapes
from .schema import Role

if TYPE_CHECKING:
    from .base import Operator


class Gate:
    """Lets the batches of one operator instance through that it accepts; called before each iteration is prepared.

    Signatures (types, numbers of dimensions, layouts) rarely change. So the one that was accepted last is compared first.
    """

    __slots__ = ("_accepted", "_counts", "_operator", "_scalars", "_shapes")

    def __init__(self, operator: Operator):
        schema = operator.schema
        self._operator = operator
        self._accepted: Any = None
        self._counts = schema.role is not Role.MERGE  # whose inputs are parts of a batch
        self._shapes = any("shape" in accepted.like for accepted in schema.accepts)
        whole = {arg.name for arg in schema.args if arg.tensor and not arg.is_list and arg.name not in schema.per_frame}
        self._scalars = [name for name in operator.spec.argument_inputs if name in whole]

    def check(self, inputs: Sequence[Batch], arguments: Mapping[str, Batch], count: int) -> None:
        """InputError or SampleError for what the operator does not accept; `count`: samples of the first input."""
        signature: Any
        if len(inputs) == 1:
            first = inputs[0]
            signature = (first.dtype, first.shapes.shape[1], first.layout)
        else:
            signature = [(batch.dtype, batch.shapes.shape, batch.layout) for batch in inputs]  # with the number of samples
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
    """InputError for an argument that has several values per sample, one for each frame."""
    if batch.ndim and (batch.shapes[:, 0] > 1).any():
        error = InputError(f"The argument `{name}` cannot have a value for each frame here; give one value per sample.")
        error.argument = name
        raise error
