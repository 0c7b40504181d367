"""Base class of operators that compute every element by itself: two files declare such an operator.

The module has the schema and the function of an element. The CUDA source beside it, with the same name, has the same function for GPUs.
docs/adding_an_operator.md shows both. Table, step, launch and tests follow from the declaration.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batch import Batch, storage_dtype
from ..types import DALIDataType
from .accepts import ANY_RANK, Input
from .base import Arguments, Environment, Iteration, Planned, Spec
from .two_files import TwoFileOperator

FLOAT32_TYPES = (DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.FLOAT)
"""Element types with only values that float32 represents exactly."""

ELEMENTS = Input(FLOAT32_TYPES, ranks=ANY_RANK)
"""The inputs that such an operator accepts: samples of any shape and layout."""


class ElementOperator(TwoFileOperator):
    """An operator with one input. Each output element is a function of the input element and of the sample's arguments.

    A subclass has a `schema` that accepts :data:`ELEMENTS` and gives ``Output()``, the names of its float arguments in `numbers`, and the
    static method :meth:`element`. The output has the type, shape and layout of the input.
    """

    @staticmethod
    def element(value: Any, numbers: Any) -> Any:
        """The output element for an input element, as float32. `numbers` is float32[arguments].

        Numba compiles it into the step. The result is rounded and clamped to the output type, as ``cast`` does.
        """
        raise NotImplementedError("an operator of elements must define the static method `element`")

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import element_kernels  # only in build()

        self._kernels: Any = element_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        if dtypes[0] in FLOAT32_TYPES:
            self._step(storage_dtype(dtypes[0])).compile()
        return dtypes[:1]

    def _step(self, dtype: np.dtype) -> Any:
        return self._kernels.elements_step(self.element, dtype.name)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        (source,) = inputs
        output = Batch(source.shapes, source.dtype, source.layout, device=source.device, source_info=source.source_info)
        numbers = self.numbers_of(arguments, len(source))
        dtype = storage_dtype(source.dtype)
        counts = np.ascontiguousarray(source.shapes.prod(axis=1))
        step = self._kernels.make_elements_step(
            self._step(dtype), self.cuda_source, source.addresses, output.addresses, counts, numbers, dtype
        )
        return Planned([output], [step])
