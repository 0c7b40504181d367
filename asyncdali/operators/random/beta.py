"""random.beta."""

from __future__ import annotations

import numpy as np

from ...sampling.random_draw_tables import DRAW
from ...sampling.random_streams import BatchDraw
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output, argument
from ..base import Arg, Arguments, Environment, SampleError, Schema, Spec, register
from .random import SHAPE_ARGS, RandomOperator


@register
class Beta(RandomOperator):
    on_cuda = False
    schema = Schema(
        name="random.beta",
        doc="""Random numbers from 0 to 1 with a beta distribution.

        The optional input gives the shape of each sample. Streams are DALI's for the same seed, bit for bit on glibc.
        Element types FLOAT and FLOAT64.""",
        accepts=(ANYTHING,),
        gives=(Output(argument("dtype", DALIDataType.FLOAT), CHOSEN, ""),),
        inputs=(0, 1),
        input_names=("shape_like",),
        seeded=True,
        args=(
            Arg("alpha", "float", 1.0, "The parameter alpha, positive.", tensor=True, stream=True),
            Arg("beta", "float", 1.0, "The parameter beta, positive.", tensor=True, stream=True),
            *SHAPE_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        wanted = spec.constant("dtype")
        if wanted not in (None, DALIDataType.FLOAT, DALIDataType.FLOAT64):
            raise ValueError(f"Data type {wanted.name} is not supported; supported are FLOAT and FLOAT64")
        super().__init__(spec, environment)

    def _compile(self) -> None:
        from . import beta_kernels as kernels

        self._kernel = kernels.draw_beta64 if self.dtype == DALIDataType.FLOAT64 else kernels.draw_beta32
        self._kernel.compile()

    def _draw(self, arguments: Arguments, samples: int, counts: int | np.ndarray) -> BatchDraw:
        alphas, betas = arguments.scalars("alpha"), arguments.scalars("beta")
        for name, values in (("alpha", alphas), ("beta", betas)):
            wrong = ~((values > 0) & np.isfinite(values))
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                raise SampleError(i, f"`{name}` must be a positive number, got {values[i]:g}")
        per_sample = np.ascontiguousarray(np.broadcast_to(counts, samples), np.int64)
        kind = np.float64 if self.dtype == DALIDataType.FLOAT64 else np.float32
        table = DRAW.make(
            samples=samples, count=0, counts=per_sample, first=alphas, first_step=4, second=betas, second_step=4, kind=int(self.dtype)
        )  # fmt: skip
        return BatchDraw(self._kernel, table, int(per_sample.sum()), kind)
