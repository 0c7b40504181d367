"""Base classes of operators that compute images with OpenCV: one Python call per sample, which releases the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..base import Arguments, Iteration, Operator, Planned, Preparation, PythonJob, SampleError
from ..moves.strided import like

Work = Callable[[np.ndarray, int], None]
"""``f(target, index)`` writes the result of one sample into `target`; called on several threads."""


class OpenCVOperator(Operator):
    """Operators implement :meth:`results`. The first input provides the source images."""

    # The work is done in `prepare`, so the input's contents must be known, and the output's contents are known.
    reads: ClassVar[tuple[int, ...]] = (0,)
    eager = True

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        output, work = self.results(inputs, arguments)
        output.reserve(self.environment.allocate)
        yield PythonJob(range(len(output)), lambda i: work(output.sample(i), i))
        return output

    def results(self, inputs: list[Batch], arguments: Arguments) -> tuple[Batch, Work]:
        """The output, without memory, and the function that fills it."""
        raise TypeError("abstract")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned([iteration.prepared])


class OpenCVColors(OpenCVOperator):
    """Operators that turn UINT8 images into images of the same shape. They implement :meth:`work`."""

    channels: ClassVar[tuple[int, ...]] = (3,)
    """Accepted numbers of channels."""

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
