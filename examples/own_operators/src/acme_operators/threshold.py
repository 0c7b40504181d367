"""threshold: gives one of two values, depending on whether an element reaches a level."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncdali.extending import (
    ANY_RANK,
    Arg,
    Arguments,
    Batch,
    Environment,
    Input,
    Iteration,
    Operator,
    Output,
    Planned,
    Schema,
    Spec,
    storage_dtype,
)
from asyncdali.types import DALIDataType

TYPES = (DALIDataType.UINT8, DALIDataType.FLOAT)


class Threshold(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="acme.threshold",
        doc="""One of two values for each element, by whether it reaches a level.

        Input: UINT8 or FLOAT, any shape. Output: the same type, shape and layout.""",
        accepts=(Input(TYPES, ranks=ANY_RANK),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("level", "float", 128.0, "Elements from here on become `high`.", tensor=True),
            Arg("low", "float", 0.0, "Value of elements below the level."),
            Arg("high", "float", 255.0, "Value of the others."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import threshold_kernels  # compiled code is imported only in build()

        self._kernels: Any = threshold_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        if source in TYPES:
            self._kernels.threshold_step(storage_dtype(source).name).compile()
        return [dtypes[0]]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        (source,) = inputs
        output = Batch(source.shapes, source.dtype, source.layout, device=source.device, source_info=source.source_info)
        records = np.empty((len(source), 3), np.float32)
        records[:, 0] = arguments.scalars("level")
        records[:, 1:] = self.spec.constant("low"), self.spec.constant("high")
        return Planned([output], [self._kernels.make_threshold_step(source, output, records)])
