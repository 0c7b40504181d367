"""Base classes of operators that draw: the random stream, its position, and the shape of the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...batch import Batch, dense_shapes
from ...compiled.tables import Handle
from ...sampling.random_streams import BatchDraw, StreamPosition, drawn_position
from ...sampling.stream_tables import signed
from ...types import DALIDataType
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Spec, refuse_where

SHAPE_ARGS = (
    Arg("dtype", "dtype", None, "Element type of the output."),
    Arg("shape", "int_list", None, "Shape of a sample; by default a scalar, or the shape of the input.", tensor=True),
)


class StreamOperator(Operator):
    """Base of operators whose state is one Philox position. `after`, `save` and `load` work on that position."""

    stateful = True

    @property
    def start(self) -> StreamPosition:
        return StreamPosition.fresh(self.spec.seed or 0)

    def after(self, position: StreamPosition, samples: int) -> StreamPosition:
        return position.advanced(samples)

    def moved(self, position: StreamPosition, iterations: int, samples: int) -> StreamPosition:
        return position.advanced(iterations * samples)

    def part_at(self, position: StreamPosition, first: int) -> StreamPosition:
        return position.slot(first)

    def words_of(self, position: StreamPosition) -> Sequence[int]:
        return signed(position.key), signed(position.hi), signed(position.lo), position.phase

    def placed(self, words: Sequence[Handle]) -> StreamPosition:
        return StreamPosition(*words)  # type: ignore[arg-type]  # tables take handles

    def call_drawer(self, arguments: Arguments) -> Callable[[int, int, int], Batch]:
        """A function for calls without inputs: it takes the place of a generator, and gives the output for the stream of a call there."""
        count = arguments.count
        return lambda *place: self.plan([], arguments, Iteration(0, count, {}, None, drawn_position(*place))).outputs[0]

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
        self._constant = not (spec.input_count or spec.argument_inputs)
        self._kept: tuple[int, BatchDraw | None, tuple[int, ...]] = -1, None, ()
        """Samples, draw and shape of a sample of the last batch, if neither depends on the iteration. One object, which threads share."""
        if spec.input_count and spec.given("shape"):
            raise ValueError("give the shape either by an input or by the argument `shape`, not both")

    @property
    def instant(self) -> bool:
        spec = self.spec
        return not (spec.input_count or spec.argument_inputs or spec.given("shape")) and self.environment.batch_size <= 1024

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self.dtype]

    def _compile(self) -> None:
        """Import and compile the kernels now, on the building thread."""
        raise TypeError("abstract")

    def _shapes(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """int64[samples, ndim] of the outputs."""
        if inputs:
            return inputs[0].shapes
        if not arguments.given("shape"):
            return dense_shapes(arguments.count, ())
        shapes = arguments.vectors("shape", None, np.int64)
        refuse_where(shapes < 0, lambda sample: f"shape {tuple(shapes[sample])} has a negative extent")
        return shapes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        count, draw, extents = self._kept
        if draw is None or count != arguments.count:
            shapes = self._shapes(inputs, arguments)
            count = len(shapes)
            if count and shapes.shape[1] and not (shapes == shapes[0]).all():
                return Planned([self._ragged(shapes, arguments, iteration)])
            extents = tuple(shapes[0].tolist()) if count else (0,) * shapes.shape[1]
            elements = math.prod(extents)
            is_small = elements * count <= _FEW
            if not is_small:
                Batch(shapes, self.dtype).check_memory()
            draw = self._draw(arguments, count, elements)
            if self._constant and is_small:
                self._kept = count, draw, extents
        values = draw.at(iteration.position)
        return Planned([Batch.from_values(values.reshape(count, *extents) if extents else values, dtype=self.dtype)])

    def call_drawer(self, arguments: Arguments) -> Callable[[int, int, int], Batch]:
        count, draw, extents = self._kept
        if draw is None or count != arguments.count:
            return super().call_drawer(arguments)
        dtype, shape = self.dtype, (count, *extents)
        return lambda *place: Batch.from_values(draw.of_call(*place).reshape(shape), dtype=dtype)

    def _ragged(self, shapes: np.ndarray, arguments: Arguments, iteration: Iteration) -> Batch:
        """The numbers for samples of different shapes."""
        batch = Batch(shapes.copy(), self.dtype)
        batch.check_memory()
        batch.place(self._draw(arguments, len(shapes), shapes.prod(axis=1)).at(iteration.position).view(np.uint8))
        return batch

    def _draw(self, arguments: Arguments, samples: int, counts: int | np.ndarray) -> BatchDraw:
        """The draw of flat values, `counts` for each sample."""
        raise TypeError("abstract")

    def _parameter(self, arguments: Arguments, name: str) -> Any:
        return arguments.scalars(name) if arguments.is_input(name) else arguments.constant(name)


_FEW = 1 << 20
"""Batches with up to this many elements skip the check of memory: drawing a few elements takes microseconds."""
