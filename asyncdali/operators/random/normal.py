"""random.normal."""

from __future__ import annotations

import numpy as np

from ...batch import storage_dtype
from ...sampling import random_streams
from ...sampling.random_streams import BatchDraw
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output, argument
from ..base import Arg, Arguments, Schema, register
from .random import SHAPE_ARGS, RandomOperator


@register
class Normal(RandomOperator):
    schema = Schema(
        name="random.normal",
        aliases=("normal_distribution",),
        doc="""Normally distributed random numbers (Box-Muller).

        The optional input gives the shape of each sample. Streams are DALI's for the same seed, bit for bit on glibc.""",
        accepts=(ANYTHING,),
        gives=(Output(argument("dtype", DALIDataType.FLOAT), CHOSEN, ""),),
        inputs=(0, 1),
        input_names=("shape_like",),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("mean", "float", 0.0, "Mean.", tensor=True, stream=True),
            Arg("stddev", "float", 1.0, "Standard deviation.", tensor=True, stream=True),
            *SHAPE_ARGS,
        ),
    )

    def _compile(self) -> None:
        from ...compiled.c_library import same_as_platform  # only in build()

        kernels = random_streams.load_kernels()
        kernels.draw_normal.compile()
        if (self.spec.given("shape") or self.spec.input_count) and same_as_platform():
            kernels.draw_normal_vectors.compile()

    def _draw(self, arguments: Arguments, samples: int, counts: int | np.ndarray) -> BatchDraw:
        mean, stddev = self._parameter(arguments, "mean"), self._parameter(arguments, "stddev")
        return random_streams.normal_draw(samples, mean, stddev, dtype=storage_dtype(self.dtype), counts=counts)
