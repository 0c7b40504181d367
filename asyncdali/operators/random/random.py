"""random.uniform, random.coin_flip, random.normal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from . import random_streams
from .random_streams import StreamPosition

SHAPE_ARGS = (
    Arg("dtype", "dtype", None, "Element type of the output."),
    Arg("shape", "int_list", None, "Shape of a sample; by default a scalar, or the shape of the input.", tensor=True),
)


class StreamOperator(Operator):
    """Base of operators whose state is one Philox position: `after`, `save` and `load` are that position's."""

    stateful = True

    @property
    def start(self) -> StreamPosition:
        return StreamPosition.fresh(self.spec.seed or 0)

    def after(self, position: StreamPosition, samples: int) -> StreamPosition:
        return position.advanced(samples)

    def part_at(self, position: StreamPosition, first: int) -> StreamPosition:
        return position.slot(first)

    def save(self, position: StreamPosition) -> str:
        return str(position)

    def load(self, data: Any) -> StreamPosition:
        return StreamPosition.parse(data)


class RandomOperator(StreamOperator):
    """Base of operators that draw numbers: `dtype` and `shape`, and outputs known after planning."""

    on_cuda = True
    eager = True
    default_dtype = DALIDataType.FLOAT

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        dtype = spec.constant("dtype")
        self.dtype = self.default_dtype if dtype is None else dtype
        self._compile()
        if spec.input_count and spec.given("shape"):
            raise ValueError("give the shape either by an input or by the argument `shape`, not both")

    @property
    def instant(self) -> bool:
        spec = self.spec
        return not (spec.input_count or spec.argument_inputs or spec.given("shape")) and self.environment.batch_size <= 1024

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self.dtype]

    def _compile(self) -> None:
        """Bring the kernels in now, on the building thread."""
        raise TypeError("abstract")

    def _shapes(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """int64[samples, ndim] of the outputs."""
        if inputs:
            return inputs[0].shapes
        if not arguments.given("shape"):
            return np.empty((arguments.count, 0), np.int64)
        shapes = arguments.vectors("shape", None, np.int64)
        if shapes.size and shapes.min() < 0:
            sample = int(np.flatnonzero((shapes < 0).any(axis=1))[0])
            raise SampleError(sample, f"shape {tuple(shapes[sample])} has a negative extent")
        return shapes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        shapes = self._shapes(inputs, arguments)
        count = len(shapes)
        uniform_shape = count == 0 or shapes.shape[1] == 0 or bool((shapes == shapes[0]).all())
        if uniform_shape:
            extents = tuple(int(extent) for extent in shapes[0]) if count else ()
            elements = 1
            for extent in extents:
                elements *= extent
            if elements * count > _FEW:
                Batch(shapes, self.dtype).check_memory()
            flat = self._draw(iteration.position, arguments, count, elements)
            batch = Batch.from_values(flat.reshape(count, *extents), dtype=self.dtype)
        else:
            batch = Batch(shapes.copy(), self.dtype)
            batch.check_memory()
            flat = self._draw(iteration.position, arguments, count, shapes.prod(axis=1))
            batch.place(flat.view(np.uint8))
        return Planned([batch])

    def _draw(self, position: StreamPosition, arguments: Arguments, samples: int, counts: Any) -> np.ndarray:
        """Flat values, `counts` per sample, drawn from `position` on."""
        raise TypeError("abstract")

    def _parameter(self, arguments: Arguments, name: str) -> Any:
        return arguments.scalars(name) if arguments.is_input(name) else arguments.constant(name)


_FEW = 1 << 20
"""Elements of a batch for which there is always memory: drawing a few takes microseconds, and should stay so."""


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

    def _draw(self, position: StreamPosition, arguments: Arguments, samples: int, counts: Any) -> np.ndarray:
        dtype = storage_dtype(self.dtype)
        if arguments.given("values"):
            return self._pick(position, arguments, samples, counts, dtype)
        if arguments.is_input("range"):
            bounds = arguments.vectors("range", 2)
            low, high = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
            return random_streams.uniform(position, samples, low, high, dtype=dtype, counts=counts)
        low, high = arguments.constant("range")
        return random_streams.uniform(position, samples, low, high, dtype=dtype, counts=counts)

    def _pick(
        self, position: StreamPosition, arguments: Arguments, samples: int, counts: Any, dtype: np.dtype
    ) -> np.ndarray:
        if not arguments.is_input("values"):
            return random_streams.uniform_values(position, samples, arguments.constant("values"), dtype=dtype, counts=counts)
        batch = arguments.batch("values")
        rows = [batch.sample(i).reshape(-1) for i in range(samples)]
        lengths = np.array([len(row) for row in rows], np.int64)
        flat = np.concatenate(rows) if rows else np.empty(0, np.float32)
        return random_streams.uniform_values(position, samples, flat, lengths, dtype=dtype, counts=counts)


@register
class CoinFlip(RandomOperator):
    schema = Schema(
        name="random.coin_flip",
        aliases=("coin_flip",),
        doc="""Random 0 and 1: 1 with the given probability.

        The optional input gives the shape of each sample. Streams are DALI's, bit for bit, for the same seed.""",
        accepts=(ANYTHING,),
        gives=(Output(argument("dtype", DALIDataType.INT32), CHOSEN, ""),),
        inputs=(0, 1),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("probability", "float", 0.5, "Probability of 1.", tensor=True, stream=True),
            *SHAPE_ARGS,
        ),
    )
    default_dtype = DALIDataType.INT32

    def _compile(self) -> None:
        random_streams.load_kernels().draw_coins.compile()

    def _draw(self, position: StreamPosition, arguments: Arguments, samples: int, counts: Any) -> np.ndarray:
        chance = self._parameter(arguments, "probability")
        return random_streams.coin_flip(position, samples, chance, dtype=storage_dtype(self.dtype), counts=counts)


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
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("mean", "float", 0.0, "Mean.", tensor=True, stream=True),
            Arg("stddev", "float", 1.0, "Standard deviation.", tensor=True, stream=True),
            *SHAPE_ARGS,
        ),
    )

    def _compile(self) -> None:
        kernels = random_streams.load_kernels()
        kernels.draw_normal.compile()
        if (self.spec.given("shape") or self.spec.input_count) and kernels.same_as_platform():
            kernels.draw_normal_vectors.compile()

    def _draw(self, position: StreamPosition, arguments: Arguments, samples: int, counts: Any) -> np.ndarray:
        mean, stddev = self._parameter(arguments, "mean"), self._parameter(arguments, "stddev")
        return random_streams.normal(position, samples, mean, stddev, dtype=storage_dtype(self.dtype), counts=counts)
