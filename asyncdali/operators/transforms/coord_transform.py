"""coord_transform: apply a matrix and an offset to points."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_name
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import CHOSEN, NUMBERS_AND_BOOL, Input, Output, argument, at_least
from ..base import Arg, Arguments, Environment, Planned, SampleError, Schema, Spec, refuse_where, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, types_of
from ..sequences.per_frame_arguments import Frames

COORD_TRANSFORM = Table(
    "COORD_TRANSFORM",
    INPUTS,
    OUTPUTS,
    Field("points", "int64[samples]", "points of each sample"),
    Field("rows", "int64", "coordinates of an output point"),
    Field("columns", "int64", "coordinates of an input point"),
    Field("matrices", "float32[samples, rows, columns + 1]", "the offset is the last column"),
    SAMPLES,
)

_TYPES = (DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT)
"""Types of points. Batches without points may have any type of numbers."""


@register
class CoordTransform(KernelOperator):
    kernel_module = "coord_transform_kernels"
    schema = Schema(
        name="coord_transform",
        doc="""Transforms points: ``M @ point + T`` for all vectors along the last dimension.

        The transform is one for all points of a sample. Input: UINT8, UINT16, INT16, INT32 or FLOAT, of at least two dimensions. The output
        has as many coordinates as the matrix has rows. Samples without points may have any number of coordinates, and batches without
        points any type of numbers.""",
        accepts=(Input(NUMBERS_AND_BOOL, name="points", ranks=at_least(2), likely=DALIDataType.FLOAT),),
        per_frame=("M", "MT", "T"),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("M", "float_list", None, "The matrix, row by row, or one number for a scaling; by default the identity.", tensor=True),
            Arg("MT", "float_list", None, "Matrix and offset in one matrix: the last column is the offset.", tensor=True),
            Arg("T", "float_list", None, "The offset, or one number for all coordinates; by default 0.", tensor=True),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output: FLOAT or the input's. Integers saturate."),
        ),
    )
    expands = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("MT") and (spec.given("M") or spec.given("T")):
            raise ValueError("`MT` contains both the matrix and the offset; give either `MT`, or `M` and `T`")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        known = inputs[0] in map(storage_name, _TYPES) and outputs[0] in (inputs[0], "float32")
        return [self.kernels.points_step(inputs[0], outputs[0])] if known else []

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source, dtype = inputs[0], arguments.constant("dtype")
        if dtype not in (source.dtype, DALIDataType.FLOAT):
            raise ValueError(f"`dtype` must be FLOAT or the input's type, {source.dtype.name}; got {dtype.name}")
        if not len(source):  # The number of coordinates per point is unknown.
            return Planned([Batch(source.shapes, dtype, source.layout, device=source.device)])
        points = np.asarray((source.shapes[:, :-1] > 0).all(axis=1))
        if not points.any():
            shapes = source.shapes.copy()
            shapes[:, -1] = self._rows_without_points(arguments, int(shapes[0, -1]))
            return Planned([Batch(shapes, dtype, source.layout, device=source.device, source_info=source.source_info)])
        if source.dtype not in _TYPES:
            names = ", ".join(kind.name for kind in _TYPES)
            raise ValueError(f"points of type {source.dtype.name} are not supported; supported are {names}. Use fn.cast")
        columns = self._columns(source, points)
        matrices = np.ascontiguousarray(self._matrices(arguments, columns), np.float32)
        shapes = source.shapes.copy()
        shapes[:, -1] = matrices.shape[1]
        output = self.output(source, shapes)
        counts = np.ascontiguousarray(shapes[:, :-1].prod(axis=1, dtype=np.int64))
        entries = COORD_TRANSFORM.entries(
            inputs=source.addresses, outputs=output.addresses, points=counts, rows=matrices.shape[1], columns=columns, matrices=matrices,
            samples=len(counts),
        )  # fmt: skip
        return self.made(source, output, entries, lambda: Cuda("points", counts, types=types_of(source, output)))

    @staticmethod
    def _rows_without_points(arguments: Arguments, columns: int) -> int:
        """Coordinates of the output, for a batch without points. Empty arrays may have any number of `columns`, so nothing is refused."""
        name = "MT" if arguments.given("MT") else "M"
        if not arguments.given(name):
            return columns
        if arguments.is_input(name):
            batch = arguments.batch(name)
            return int(batch.shapes[0, 0]) if batch.ndim == 2 else columns
        count, wide = len(arguments.constant(name)), columns + (name == "MT")
        return count // wide if count > 1 and columns and not count % wide else columns

    @staticmethod
    def _columns(source: Batch, points: np.ndarray) -> int:
        """Coordinates per point: those of the first sample with points, because empty arrays (no boxes) often have another shape."""
        first = int(points.argmax())
        columns = int(source.shapes[first, -1])
        wrong = points & (source.shapes[:, -1] != columns)
        rule = "points must have the same number of coordinates in the whole batch"
        refuse_where(wrong, lambda i: f"{rule}, got {source.shapes[i, -1]} and {columns}")
        if not columns:
            raise SampleError(first, f"points must have at least one coordinate, got shape {tuple(source.shapes[first].tolist())}")
        return columns

    def _matrices(self, arguments: Arguments, columns: int) -> np.ndarray:
        """float32[samples, rows, columns + 1]."""
        if arguments.given("MT"):
            return _matrix(arguments, "MT", columns + 1)
        if arguments.given("M"):
            matrix = _matrix(arguments, "M", columns)
        else:
            matrix = np.tile(np.eye(columns, dtype=np.float32), (arguments.count, 1, 1))
        rows = matrix.shape[1]
        offset = arguments.vectors("T", rows) if arguments.given("T") else np.zeros((arguments.count, rows), np.float32)
        return np.concatenate([matrix, offset[:, :, None]], axis=2)


def _matrix(arguments: Arguments, name: str, columns: int) -> np.ndarray:
    """float32[samples, rows, columns] of an argument. A single number gives a diagonal matrix with as many rows as points have
    coordinates."""
    if arguments.is_input(name):
        batch = arguments.batch(name)
        if batch.ndim == 2:
            return _equal_matrices(batch, name, columns)
        if batch.ndim:
            raise SampleError(0, f"`{name}` must be a number or a matrix per sample, got shape {tuple(batch.shapes[0].tolist())}")
        numbers = arguments.scalars(name)[:, None]
    else:
        numbers = arguments.vectors(name)
    if numbers.shape[1] == 1:
        rows = columns if name == "M" else columns - 1
        return numbers[:, :, None] * np.eye(rows, columns, dtype=np.float32)
    if not numbers.shape[1] or numbers.shape[1] % columns:
        raise ValueError(f"`{name}` has {numbers.shape[1]} numbers; the number must be a multiple of {columns}")
    return numbers.reshape(len(numbers), -1, columns)


def _equal_matrices(batch: Batch, name: str, columns: int) -> np.ndarray:
    wrong = (batch.shapes != batch.shapes[:1]).any(axis=1) | (batch.shapes[:, 1] != columns)
    rule, shapes = f"`{name}` must be matrices of one shape with {columns} columns", batch.shapes
    refuse_where(wrong, lambda i: f"{rule}; got {tuple(shapes[i].tolist())} (the first one: {tuple(shapes[0].tolist())})")
    values = batch.values if batch.values is not None else [batch.sample(k) for k in range(len(batch))]
    return np.asarray(values, np.float32).reshape(len(batch), -1, columns)
