"""What operators share whose images OpenCV makes: one call of Python for each sample, in which the interpreter is not held."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ..batch import Batch
from ..types import DALIDataType
from .arrays.strided import like
from .base import Arguments, Iteration, Operator, Planned, Preparation, PythonJob, SampleError

Work = Callable[[np.ndarray, int], None]
"""``f(target, index)`` writes the result of one sample into `target`; called on several threads."""


class OpenCVOperator(Operator):
    """Operators implement :meth:`results`; the first input is what their images are made of."""

    # It is done before anything is planned, so the images must be there, and the results are.
    reads: ClassVar[tuple[int, ...]] = (0,)
    eager = True

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        output, work = self.results(inputs, arguments)
        output.reserve(self.environment.allocate)
        yield PythonJob(range(len(output)), lambda i: work(output.sample(i), i))
        return output

    def results(self, inputs: list[Batch], arguments: Arguments) -> tuple[Batch, Work]:
        """The output, without memory, and what fills it."""
        raise TypeError("abstract")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned([iteration.prepared])


class OpenCVColors(OpenCVOperator):
    """UINT8 images that become images of the same shape. Operators implement :meth:`work`."""

    channels: ClassVar[tuple[int, ...]] = (3,)
    """Numbers of channels that it takes."""

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8]

    def results(self, inputs: list[Batch], arguments: Arguments) -> tuple[Batch, Work]:
        source = inputs[0]
        layout = self.layout_of(source)
        wrong = ~np.isin(source.shapes[:, -1], self.channels)
        if wrong.any():
            i = int(np.argmax(wrong))
            allowed = " or ".join(map(str, self.channels))
            raise SampleError(i, f"the image must have {allowed} channels, got shape {tuple(source.shapes[i].tolist())}")
        work = self.work(source, arguments)
        return like(source, layout=layout), lambda target, i: work(source.sample(i), target, i)

    def work(self, source: Batch, arguments: Arguments) -> Callable[[np.ndarray, np.ndarray, int], None]:
        """``f(sample, target, index)``, called on several threads."""
        raise TypeError("abstract")
