"""Base class of operators that compute every sample by a function of arrays: two files declare such an operator.

The module has the schema, the record of a sample, the shapes, and the function. The CUDA source beside it, with the same name, has the same
function for GPUs. docs/adding_an_operator.md shows both. Table, step, launch and tests follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any, ClassVar

import numpy as np

from ..batch import Batch, storage_dtype
from ..compiled.tables import Table
from ..types import DALIDataType
from .base import Arguments, Environment, Planned, Spec
from .kernel_operator import Kernels, Names, TwoFileOperator


@cache
def _dtype_names(*dtypes: DALIDataType) -> tuple[str, ...]:
    return tuple(storage_dtype(dtype).name for dtype in dtypes)


def stored(value: object) -> Any:
    """A float32 as an element of output 0: rounded and clamped, as ``cast`` does. For the functions of :class:`SampleOperator`."""
    raise RuntimeError("`stored` has a meaning only within the compiled function of a sample operator")


def uniform(record: np.ndarray, number: object) -> Any:
    """Number `number` of the sample's random stream: float32, from 0 up to but not including 1. For :class:`SampleOperator`.

    The operator derives from ``StreamOperator``, too. Its `record` begins with ``POSITION``, and its `plan` passes
    ``**sample_positions(iteration.position, samples)`` to :meth:`SampleOperator.planned`.
    """
    raise RuntimeError("`uniform` has a meaning only within the compiled function of a sample operator")


def draws(function: Callable[..., None]) -> bool:
    """Whether the function of a sample calls :func:`uniform`."""
    return any(function.__globals__.get(name) is uniform for name in function.__code__.co_names)


def bound(
    function: Callable[..., Any], convert: Callable[[Any], Any], draw: Callable[[Any, Any], Any] = uniform,
    made: Callable[[Callable[..., Any]], Any] = lambda helper: helper,
) -> FunctionType:  # fmt: skip
    """A copy of the function of a sample in which :func:`stored` is `convert`, and :func:`uniform` is `draw`.

    Functions of the same module that it calls are copied, too, and passed to `made`. Numba could call a function that is passed as an
    argument, but then it could not keep the machine code on disk.
    """
    known: dict[Any, Any] = {stored: convert, uniform: draw}
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        value = names.get(name)
        if isinstance(value, FunctionType):
            own = value.__module__ == function.__module__
            names[name] = known[value] if value in known else made(bound(value, convert, draw, made)) if own else value
    copy = FunctionType(function.__code__, names, function.__name__)
    copy.__qualname__ = function.__qualname__
    return copy


class SampleOperator(TwoFileOperator):
    """An operator with any number of inputs, argument inputs and outputs. No sample depends on another one.

    A subclass has a `schema`, the table `record` with the numbers that the function reads, and the names of its float arguments in
    `numbers`. Its `plan` computes the shapes of the outputs, and returns :meth:`planned`. Its static method `sample` computes a sample::

        sample(input_0, ..., output_0, ..., record, numbers)             # uses_scratch = False
        sample(input_0, ..., output_0, ..., record, numbers, scratch)    # uses_scratch = True

    Inputs and outputs are flat arrays in the order of memory; FLOAT16 is seen as uint16, BOOL as uint8. `record` is int64[words],
    `numbers` float32[arguments], and `scratch` float32 memory without contents. Numba compiles `sample`. It may call :func:`stored`,
    :func:`uniform`, and functions of its module. An operator whose arguments may have a value for each frame has `plan_samples` instead of
    `plan`. An operator that needs several steps or messages from compiled code is written in the longer form.
    """

    record: ClassVar[Table]
    sample: ClassVar[Callable[..., None]]
    uses_scratch: ClassVar[bool] = False
    """Whether `sample` gets scratch memory, of the size that `plan` passes to :meth:`planned`."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if draws(type(self).sample) and self.record.fields[0].name != "position":
            raise TypeError(f"{type(self).__name__}.sample calls uniform(), so the first field of its record must be POSITION")
        from . import sample_kernels  # only in build()

        self._kernels: Any = sample_kernels

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [] if "" in outputs else [self._kernels.samples_step(type(self).sample, inputs, outputs, self.uses_scratch)]

    def _step(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        return self._kernels.samples_step(type(self).sample, _dtype_names(*inputs), _dtype_names(*outputs), self.uses_scratch)

    def planned(
        self, inputs: list[Batch], outputs: list[Batch], arguments: Arguments, items: np.ndarray | None = None,
        scratch: np.ndarray | None = None, **words: object,
    ) -> Planned:  # fmt: skip
        """The plan of a batch. `words` has each word of the record by name: a number, or one per sample.

        items     int64[samples]: work items of a GPU; by default the elements of output 0
        scratch   int64[samples]: elements of scratch memory. On a GPU all work items of a sample share this memory
        """
        samples = len(outputs[0])
        records = np.empty((samples, self.record.words), np.int64)
        for column, value in enumerate(self.record.entries(**words)):
            records[:, column] = value
        numbers = self.numbers_of(arguments, samples)
        step = self._step([batch.dtype for batch in inputs], [batch.dtype for batch in outputs])
        given = self._kernels.SampleNumbers(records, numbers, items, scratch)
        made = self._kernels.make_samples_step(step, self.cuda_source, inputs, outputs, given)
        return Planned(outputs, [made])
