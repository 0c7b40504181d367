"""clahe: histogram equalisation tile by tile, with limited contrast (CLAHE)."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names
from .clahe_launches import clahe_launches, clahe_records

_BINS = 256
_CHANNELS = (1, 3)


@register
class Clahe(KernelOperator):
    repeatable = True
    on_cuda = True
    kernel_module = "clahe_kernels"
    schema = Schema(
        name="clahe",
        doc="""Contrast limited adaptive histogram equalization.

        Each tile has a table that flattens its histogram; bins are limited to `clip_limit` times the mean bin. A pixel is
        interpolated between the tables around it. Layout HWC, UINT8, one channel or three (RGB).""",
        accepts=(Input((DALIDataType.UINT8,), listed("HWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("bins", "int", _BINS, f"Bins of the histograms; only {_BINS}, one for each value, is supported."),
            Arg("clip_limit", "float", REQUIRED, "Highest bin divided by the mean bin; 0 or less: no limit."),
            Arg("luma_only", "bool", True, "Equalize only the lightness (L of CIELAB) of three channels; otherwise each channel."),
            Arg("tiles_x", "int", REQUIRED, "Tiles along the width."),
            Arg("tiles_y", "int", REQUIRED, "Tiles along the height."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        for name in ("tiles_x", "tiles_y"):
            if spec.constant(name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {spec.constant(name)}")
        if spec.constant("bins") != _BINS:
            raise ValueError(f"`bins` is {spec.constant('bins')}; only {_BINS} is supported, one for each value")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.clahe_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        wrong = ~np.isin(source.shapes[:, -1], _CHANNELS)
        allowed = " or ".join(map(str, _CHANNELS))
        refuse_where(wrong, lambda i: f"the image must have {allowed} channels, got shape {tuple(source.shapes[i].tolist())}")
        limit, tiles, lightness = self._settings()
        output, records = self.output(source), clahe_records(source.shapes, limit, tiles, lightness)
        step = self.kernels.make_clahe_step(source.addresses, output.addresses, records, tiles, lightness)
        step.launches = lambda: clahe_launches(source, output, records, tiles, lightness)
        return Planned([output], [step])

    def _settings(self) -> tuple[float, tuple[int, int], bool]:
        """The limit, the tiles along x and y, and whether only the lightness is equalized."""
        constant = self.spec.constant
        return constant("clip_limit"), (constant("tiles_x"), constant("tiles_y")), constant("luma_only")
