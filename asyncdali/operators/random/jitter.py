"""jitter: every pixel is copied from a random neighbour."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType, DALIInterpType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..moves.strided import like
from .jitter_tables import JITTER_RECORD
from .random import StreamOperator

_TYPES = (DALIDataType.UINT8, DALIDataType.FLOAT)
_MOST = 1 << 20


@register
class Jitter(StreamOperator):
    repeatable = True
    places_position = True
    on_cuda = True
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
        from . import jitter_kernels

        self._kernels = jitter_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        if source in _TYPES:
            self._kernels.jitter_step(storage_dtype(source).name).compile()
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        output = like(source, layout=layout)
        records, word = JITTER_RECORD.zeros(len(source)), JITTER_RECORD.word
        records[:, JITTER_RECORD.span("height", "channels")] = source.shapes
        records[:, word.mask] = arguments.scalars("mask", np.int64) != 0
        pixels, channels = source.shapes[:, :2].prod(axis=1), source.shapes[:, 2]
        even = source.dtype == DALIDataType.FLOAT or bool((pixels % 4 == 0).all())
        per_pixel = even and bool(np.isin(channels, (1, 3)).all())
        degree = self.spec.constant("nDegree")
        return Planned([output], [self._kernels.make_jitter_step(source, output, records, degree, per_pixel, iteration.position)])
