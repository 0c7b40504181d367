"""roi_random_crop: random crop windows that cover a region of interest."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...types import DALIDataType
from ..accepts import ANY_TYPE, Input, Output, at_least
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, register
from .random import StreamOperator


@register
class RoiRandomCrop(StreamOperator):
    eager = True
    schema = Schema(
        name="roi_random_crop",
        doc="""Draws the start of a window of a given shape that covers as much of a region of interest as possible.

        A window larger than the region contains it; a smaller window is inside it. Where the input's shape is known (from the
        optional input, or `in_shape`), the window stays within it. Output: INT64, one number per axis. Streams are DALI's for the
        same seed.""",
        accepts=(Input(ANY_TYPE, ranks=at_least(1)),),
        gives=(Output(DALIDataType.INT64, 1, ""),),
        inputs=(0, 1),
        metadata_inputs=(0,),
        seeded=True,
        args=(
            Arg("crop_shape", "int_list", REQUIRED, "Extents of the window.", tensor=True, stream=True),
            Arg("in_shape", "int_list", None, "Extents of the input; not together with an input.", tensor=True, stream=True),
            Arg("roi_end", "int_list", None, "End of the region; not together with `roi_shape`.", tensor=True, stream=True),
            Arg("roi_shape", "int_list", None, "Extents of the region; not together with `roi_end`.", tensor=True, stream=True),
            Arg("roi_start", "int_list", REQUIRED, "Start of the region.", tensor=True, stream=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("roi_end") == spec.given("roi_shape"):
            raise ValueError("either `roi_end` or `roi_shape` must be given, and not both")
        if spec.input_count and spec.given("in_shape"):
            raise ValueError("`in_shape` cannot be combined with an input, which gives the shape already")
        from .roi_random_crop_kernels import draw_starts

        self._draw = draw_starts
        self._draw.compile()

    @property
    def instant(self) -> bool:
        spec = self.spec
        return not (spec.input_count or spec.argument_inputs) and self.environment.batch_size <= 1024

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        window = arguments.vectors("crop_shape", None, np.int64)
        count, axes = window.shape
        start = arguments.vectors("roi_start", axes, np.int64)
        sized = arguments.given("roi_shape")
        end = arguments.vectors("roi_shape" if sized else "roi_end", axes, np.int64)
        shape = self._shape(inputs, arguments, axes)
        rows = [window, start, end] if shape is None else [window, start, end, shape]
        starts, position = np.empty((count, axes), np.int64), iteration.position
        found = [row if row.strides[1] == 8 else np.ascontiguousarray(row) for row in rows]
        refused = self._draw(
            position.key, position.hi, position.lo, position.phase, count, axes, *_rows_at(found[0]), *_rows_at(found[1]),
            *_rows_at(found[2]), sized, *(_rows_at(found[3]) if shape is not None else (0, 0)), address_of(starts),
        )  # fmt: skip
        if refused:
            self._refuse(refused, window, shape)
        return Planned([Batch.from_values(starts)])

    @staticmethod
    def _refuse(refused: int, window: np.ndarray, shape: np.ndarray | None) -> None:
        from .roi_random_crop_kernels import CAUSES, NEGATIVE, OUTSIDE

        i, cause = divmod(refused, CAUSES)
        if cause == NEGATIVE or shape is None:
            raise SampleError(i, f"windows and regions cannot have negative extents: {window[i].tolist()}")
        what = "the region of interest leaves the input's shape" if cause == OUTSIDE else "the window is larger than the input's shape"
        raise SampleError(i, f"{what}: {shape[i].tolist()}")

    @staticmethod
    def _shape(inputs: list[Batch], arguments: Arguments, axes: int) -> np.ndarray | None:
        if inputs:
            if inputs[0].ndim < axes:
                raise ValueError(f"the window has {axes} axes, the input only {inputs[0].ndim}")
            return inputs[0].shapes[:, :axes]
        return arguments.vectors("in_shape", axes, np.int64) if arguments.given("in_shape") else None


def _rows_at(rows: np.ndarray) -> tuple[int, int]:
    """Address of the first row, and the stride of rows in bytes (0: all samples share one row)."""
    return address_of(rows), rows.strides[0]
