"""dropout: replaces random samples by zeros. The smallest operator with a state."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asyncdali.extending import DATA, Arg, Arguments, Batch, Environment, Iteration, Operator, Output, Planned, PythonJob, Schema, Spec
from asyncdali.types import DALIDataType


class Dropout(Operator):
    """Replaces whole samples by zeros at random. The position is the number of samples before the iteration."""

    reads = (0,)
    eager = True
    stateful = True
    schema = Schema(
        name="acme.dropout",
        doc="""Replaces whole samples by zeros at random.

        The choice depends only on `seed` and on the number of the sample, so a restored pipeline continues exactly.""",
        accepts=(DATA,),
        gives=(Output(),),
        seeded=True,
        args=(Arg("probability", "float", 0.5, "How likely a sample is replaced.", stream=True),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if not 0 <= spec.constant("probability") <= 1:
            raise ValueError(f"`probability` must be from 0 to 1, got {spec.constant('probability')}")

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return dtypes

    @property
    def start(self) -> int:
        return 0

    def after(self, position: int, samples: int) -> int:
        return position + samples

    def save(self, position: int) -> int:
        return position

    def load(self, data: object) -> int:
        if not isinstance(data, int) or data < 0:
            raise ValueError(f"expected the number of samples, got {data!r}")
        return data

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration):  # type: ignore[no-untyped-def]
        (source,) = inputs
        output = Batch(source.shapes, source.dtype, source.layout, source_info=source.source_info)
        output.reserve(self.environment.allocate)
        yield PythonJob(range(len(source)), self._work(source, output, iteration.position))
        return output

    def _work(self, source: Batch, output: Batch, position: int) -> Callable[[int], None]:
        probability, seed = self.spec.constant("probability"), abs(self.spec.seed or 0)

        def work(i: int) -> None:
            dropped = np.random.default_rng((seed, position + i)).random() < probability
            output.sample(i)[...] = 0 if dropped else source.sample(i)

        return work

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned([iteration.prepared])
