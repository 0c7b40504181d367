"""Base class of operators that compute images with OpenCV: one Python call per sample, which releases the interpreter lock.

On a GPU kernels compute the same images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ...batch import Batch
from ...device.launch import Launch
from ..base import Arguments, Environment, Iteration, Operator, Planned, Preparation, PythonJob, Spec, Step, no_explanation

Work = Callable[[np.ndarray, int], None]
"""``f(target, index)`` writes the result of one sample into `target`; called on several threads."""


class OpenCVOperator(Operator):
    """Operators implement :meth:`results` and :meth:`launched`. The first input provides the source images."""

    # On the CPU `prepare` does the work: the input's contents must be known, and the output's contents are known. A GPU computes later.
    reads: ClassVar[tuple[int, ...]] = (0,)
    reads_on_cuda = ()
    eager = True
    eager_on_cuda = False
    on_cuda = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._on_gpu = spec.device == "gpu" and environment.gpu is not None

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        return () if self._on_gpu else self._by_host(inputs, arguments)

    def _by_host(self, inputs: list[Batch], arguments: Arguments) -> Preparation:
        return (yield from self._filled(*self.results(inputs, arguments)))

    def _filled(self, output: Batch, work: Work) -> Preparation:
        output.reserve(self.environment.allocate)
        yield PythonJob(range(len(output)), lambda i: work(output.sample(i), i))
        return output

    def results(self, inputs: list[Batch], arguments: Arguments) -> tuple[Batch, Work]:
        """The output, without memory, and the function that fills it."""
        raise TypeError("abstract")

    def launched(self, inputs: list[Batch], arguments: Arguments) -> tuple[Batch, Callable[[], list[Launch]]]:
        """The output, without memory, and the function that returns the launches that fill it."""
        raise TypeError("abstract")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        if not self._on_gpu:
            return Planned([iteration.prepared])
        output, launches = self.launched(inputs, arguments)
        return Planned([output], [Step(0, np.empty(0, np.int64), no_explanation, keep=[inputs], launches=launches)])
