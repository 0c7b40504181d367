"""random.uniform."""

from __future__ import annotations

import numpy as np

from ...batch import storage_dtype
from ...sampling import random_streams
from ...sampling.random_streams import BatchDraw
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output, argument
from ..base import Arg, Arguments, Environment, Schema, Spec, register
from .random import SHAPE_ARGS, RandomOperator


@register
class Uniform(RandomOperator):
    schema = Schema(
        name="random.uniform",
        aliases=("uniform",),
        doc="""Uniformly distributed random numbers: from ``[range[0], range[1])``, or picked from `values`.

        The optional input gives the shape of each sample. Streams are DALI's, bit for bit, for the same seed.
        Integer types truncate the bounds of `range` and round the drawn number.""",
        accepts=(ANYTHING,),
        gives=(Output(argument("dtype", DALIDataType.FLOAT), CHOSEN, ""),),
        inputs=(0, 1),
        input_names=("shape_like",),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("range", "float_list", [-1.0, 1.0], "Lower (inclusive) and upper (exclusive) bound.", tensor=True, stream=True),
            Arg("values", "float_list", None, "The values to draw from, equally likely; excludes `range`.", tensor=True, stream=True),
            *SHAPE_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("range") and spec.given("values"):
            raise ValueError("`range` and `values` exclude each other; give one of them")
        bounds = spec.constants.get("range")
        if bounds is not None and (len(bounds) != 2 or not bounds[0] < bounds[1]):
            raise ValueError(f"`range` must be two numbers, the first smaller than the second; got {bounds}")
        if spec.constants.get("values") == []:
            raise ValueError("`values` is empty; at least one value to choose from is needed")

    def _compile(self) -> None:
        kernels = random_streams.load_kernels()
        (kernels.draw_values if self.spec.given("values") else kernels.draw_uniform).compile()

    def _draw(self, arguments: Arguments, samples: int, counts: int | np.ndarray) -> BatchDraw:
        dtype = storage_dtype(self.dtype)
        if arguments.given("values"):
            return self._pick(arguments, samples, counts, dtype)
        if arguments.is_input("range"):
            bounds = arguments.vectors("range", 2)
            low, high = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
            return random_streams.uniform_draw(samples, low, high, dtype=dtype, counts=counts)
        low, high = arguments.constant("range")
        return random_streams.uniform_draw(samples, low, high, dtype=dtype, counts=counts)

    def _pick(self, arguments: Arguments, samples: int, counts: int | np.ndarray, dtype: np.dtype) -> BatchDraw:
        if not arguments.is_input("values"):
            return random_streams.values_draw(samples, arguments.constant("values"), dtype=dtype, counts=counts)
        batch = arguments.batch("values")
        rows = [batch.sample(i).reshape(-1) for i in range(samples)]
        lengths = np.array([len(row) for row in rows], np.int64)
        flat = np.concatenate(rows) if rows else np.empty(0, np.float32)
        return random_streams.values_draw(samples, flat, lengths, dtype=dtype, counts=counts)
