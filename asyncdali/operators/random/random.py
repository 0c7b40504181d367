"""Base classes of operators that draw: the random stream, its position, and the shape of the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.tables import Handle
from ...sampling.random_streams import StreamPosition
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
        """Import and compile the kernels now, on the building thread."""
        raise TypeError("abstract")

    def _shapes(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """int64[samples, ndim] of the outputs."""
        if inputs:
            return inputs[0].shapes
        shapes = arguments.vectors("shape", None, np.int64)
        refuse_where(shapes < 0, lambda sample: f"shape {tuple(shapes[sample])} has a negative extent")
        return shapes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        if not inputs and not arguments.given("shape"):
            scalars = self._draw(iteration.position, arguments, arguments.count, 1)
            return Planned([Batch.from_values(scalars, dtype=self.dtype)])
        shapes = self._shapes(inputs, arguments)
        count = len(shapes)
        uniform_shape = count == 0 or shapes.shape[1] == 0 or bool((shapes == shapes[0]).all())
        if uniform_shape:
            extents = tuple(int(extent) for extent in shapes[0]) if count else (0,) * shapes.shape[1]
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

    def _draw(self, position: StreamPosition, arguments: Arguments, samples: int, counts: int | np.ndarray) -> np.ndarray:
        """Flat values, `counts` per sample, drawn from `position` on."""
        raise TypeError("abstract")

    def _parameter(self, arguments: Arguments, name: str) -> Any:
        return arguments.scalars(name) if arguments.is_input(name) else arguments.constant(name)


_FEW = 1 << 20
"""Batches with up to this many elements skip the check of memory: drawing a few elements takes microseconds."""
