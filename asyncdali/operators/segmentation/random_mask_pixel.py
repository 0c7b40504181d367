"""segmentation.random_mask_pixel: a pixel of a mask, picked at random."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, dense_shapes
from ...compiled.tables import INPUTS, OUTPUTS, Field, Table
from ...sampling.stream_tables import POSITION, position_words
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names
from ..random.random import StreamOperator

MASK_PIXEL = Table(
    "MASK_PIXEL",
    INPUTS,
    Field("shapes", "int64[samples, axes]", "extents of each mask"),
    Field("axes", "int64", "dimensions of the masks"),
    OUTPUTS,
    Field("foreground", "int64[samples]", "1: a pixel of the foreground is picked; 0: any pixel"),
    Field("bounds", "float32[samples]", "the foreground is equal to this number, or above it"),
    Field("by_value", "int64", "1: the foreground is equal to its bound; 0: it is above"),
    POSITION,
)

_TYPES = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.UINT32, DALIDataType.INT32,
    DALIDataType.UINT64, DALIDataType.INT64, DALIDataType.FLOAT, DALIDataType.BOOL,
)  # fmt: skip


@register
class RandomMaskPixel(StreamOperator, KernelOperator):
    repeatable = True
    places_position = True
    kernel_module = "random_mask_pixel_kernels"
    schema = Schema(
        name="segmentation.random_mask_pixel",
        doc="""The coordinates of a random pixel, INT64, one number per axis.

        With `foreground`, a pixel equal to `value` or above `threshold`; any pixel if there is none. Streams are DALI's, bit for bit,
        for the same seed.""",
        accepts=(Input(_TYPES, name="masks", ranks=ANY_RANK),),
        gives=(Output(DALIDataType.INT64, 1, ""),),
        seeded=True,
        args=(
            Arg("foreground", "int", 0, "Whether the pixel must be of the foreground (if not 0).", tensor=True, stream=True),
            Arg("threshold", "float", 0.0, "Pixels above this number are foreground; excludes `value`.", tensor=True, stream=True),
            Arg("value", "int", None, "Pixels equal to this number are foreground; excludes `threshold`.", tensor=True, stream=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("value") and spec.given("threshold"):
            raise ValueError("`value` and `threshold` exclude each other; give one of them")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.mask_pixel_step(inputs[0])]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, position = inputs[0], iteration.position
        refuse_where(source.shapes == 0, lambda _: "the mask is empty")
        by_value = arguments.given("value")
        output = Batch(dense_shapes(len(source), (source.ndim,)), DALIDataType.INT64)
        shapes, foreground = np.ascontiguousarray(source.shapes), arguments.scalars("foreground", np.int64)
        bounds = np.ascontiguousarray(arguments.scalars("value" if by_value else "threshold"))
        entries = MASK_PIXEL.entries(
            inputs=source.addresses, shapes=shapes, axes=source.ndim, outputs=output.addresses, foreground=foreground, bounds=bounds,
            by_value=by_value, **position_words(position),
        )  # fmt: skip
        return self.made(source, output, entries)
