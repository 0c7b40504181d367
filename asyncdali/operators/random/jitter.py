"""jitter: every pixel is copied from a random neighbour."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...sampling.stream_tables import POSITION, position_words
from ...types import DALIDataType, DALIInterpType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, types_of
from .random import StreamOperator

JITTER_RECORD = Table(
    "JITTER_RECORD",
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
    Field("mask", "int64", "0: the image stays as it is"),
)
JITTER = Table(
    "JITTER",
    INPUTS,
    OUTPUTS,
    Field("records", "JITTER_RECORD[samples]", "extents and masks"),
    Field("degree", "int64", "numbers of displacements along an axis"),
    Field("per_pixel", "int64", "1: the channels of a pixel are displaced together"),
    POSITION,
    SAMPLES,
)

_TYPES = (DALIDataType.UINT8, DALIDataType.FLOAT)
_MOST = 1 << 20


@register
class Jitter(StreamOperator, KernelOperator):
    repeatable = True
    places_position = True
    kernel_module = "jitter_kernels"
    schema = Schema(
        name="jitter",
        doc="""Replaces every pixel by a random neighbour.

        A pixel at (y, x) comes from (y + dy, x + dx), or from the nearest pixel of the image if that is outside. dy and dx are drawn from
        `nDegree` consecutive integers that begin at ``-(nDegree // 2)``. Layout HWC, UINT8 or FLOAT. All channels of a pixel have the same
        neighbour if all samples have one or three channels and UINT8 samples a multiple of four pixels.""",
        accepts=(Input(_TYPES, listed("HWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("fill_value", "float", 0.0, "No effect: neighbours are always inside.", inert=True),
            Arg(
                "interp_type", "interp", DALIInterpType.INTERP_NN,
                "INTERP_NN or INTERP_LINEAR. Both give the same result: displacements are whole pixels.",
            ),
            Arg("mask", "int", 1, "0: the image does not change.", tensor=True),
            Arg("nDegree", "int", 2, "Number of different displacements along each axis.", stream=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        interpolation = spec.constant("interp_type")
        if interpolation not in (DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR):
            raise ValueError(f"`interp_type` must be INTERP_NN or INTERP_LINEAR, got {interpolation.name}")
        if not 1 <= spec.constant("nDegree") <= _MOST:
            raise ValueError(f"`nDegree` must be 1 to {_MOST}, got {spec.constant('nDegree')}")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.jitter_step(inputs[0])]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = self.output(source)
        records, word = JITTER_RECORD.zeros(len(source)), JITTER_RECORD.word
        records[:, JITTER_RECORD.span("height", "channels")] = source.shapes
        records[:, word.mask] = arguments.scalars("mask", np.int64) != 0
        pixels, channels = source.shapes[:, :2].prod(axis=1), source.shapes[:, 2]
        even = source.dtype == DALIDataType.FLOAT or bool((pixels % 4 == 0).all())
        per_pixel = even and bool(np.isin(channels, (1, 3)).all())
        entries = JITTER.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, degree=self.spec.constant("nDegree"), per_pixel=per_pixel,
            samples=len(records), **position_words(iteration.position),
        )  # fmt: skip
        return self.made(source, output, entries, lambda: Cuda("jitter", source.counts(), types=types_of(source, output)))
