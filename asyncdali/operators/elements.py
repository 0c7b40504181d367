"""Base class of operators that compute every element, or every pixel, by itself: two files declare such an operator.

The module has the schema and the function of an element. The CUDA source beside it, with the same name, has the same function for GPUs.
docs/adding_an_operator.md shows both. Table, step, launch and tests follow from the declaration.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..batch import Batch
from ..compiled.element_tables import ELEMENTS as TABLE
from ..device.launch import LINE, PACK, Unstored
from ..types import DALIDataType
from .accepts import ANY_RANK, Input
from .base import Arguments, Environment, Planned, Spec
from .kernel_operator import Cuda, Kernels, Names, TwoFileOperator, types_of
from .sequences.per_frame_arguments import Frames

FLOAT32_TYPES = (DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.FLOAT)
"""Element types with only values that float32 represents exactly."""

ELEMENTS = Input(FLOAT32_TYPES, ranks=ANY_RANK)
"""Inputs of such an operator: samples of any shape and layout."""


class ElementOperator(TwoFileOperator):
    """An operator with one input. Each output element is a function of the input element and of the sample's arguments.

    A subclass has a `schema`, the names of its float arguments in `numbers`, and the static method :meth:`element`. The output has the
    shape and layout of the input, and the type that ``gives`` declares: the input's, or that of the argument `dtype`. Arguments that
    ``per_frame`` names may have a value for each frame.
    """

    group: ClassVar[int] = 1
    """Neighbouring elements that are computed together: 1, or the 3 channels of a pixel. `element` then gets and returns a tuple."""

    entry: ClassVar[str] = "elements"
    """The CUDA kernel, if the source does not use ``elements.cuh``."""

    colored: ClassVar[int] = 0
    """The number of this function in kernels that can apply it to bytes while they read (``color.cuh``); 0: they cannot."""

    @staticmethod
    def element(value: Any, numbers: Any) -> Any:
        """The output element for an input element, as float32. `numbers` is a tuple of float32, in the order of the class's `numbers`.

        Numba compiles it into the step. The result is rounded and clamped to the output type, as ``cast`` does.
        """
        raise NotImplementedError("an operator of elements must define the static method `element`")

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import element_kernels  # only in build()

        self._steps: Any = element_kernels

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self._steps.elements_step(self.element, inputs[0], outputs[0], len(self.numbers), self.group)]

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        output = self.output(source)
        return self.planned(source, output, self.numbers_for(source, output, arguments))

    def numbers_for(self, source: Batch, output: Batch, arguments: Arguments) -> np.ndarray:
        """The numbers that `element` reads, float32[samples, numbers]. By default the arguments in `numbers`."""
        return self.numbers_of(arguments, len(source))

    def planned(self, source: Batch, output: Batch, numbers: np.ndarray) -> Planned:
        """The plan of a batch."""
        counts = np.ascontiguousarray(source.counts() // self.group)
        entries = TABLE.entries(
            inputs=source.addresses, outputs=output.addresses, counts=counts, numbers=numbers, width=numbers.shape[1], samples=len(source)
        )

        def cuda() -> Cuda:
            offers, bytes_only = None, source.dtype == output.dtype == DALIDataType.UINT8
            if bytes_only and self.colored:
                unstored = tuple(0 if word is output.addresses else word for word in entries)
                offers = Unstored("colored", output.addresses, unstored, (("COLORED", self.colored),))
            return Cuda(self.entry, counts, LINE if bytes_only else PACK, types_of(source, output), offers)

        return self.made(source, output, entries, cuda)
