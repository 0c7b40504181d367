"""clahe: histogram equalisation tile by tile, with limited contrast (CLAHE)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...batch import Batch
from ...device.launch import Launch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import REQUIRED, Arg, Arguments, Environment, Schema, Spec, register
from ..images.opencv_images import OpenCVColors
from .clahe_launches import clahe_launches

_BINS = 256


@register
class Clahe(OpenCVColors):
    channels = (1, 3)
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

    def work(self, source: Batch, arguments: Arguments) -> Callable[[np.ndarray, np.ndarray, int], None]:
        limit, grid, luma_only = self._settings()
        return lambda sample, target, i: _equalize(sample, target, limit, grid, luma_only)

    def launches(self, source: Batch, output: Batch, arguments: Arguments) -> Callable[[], list[Launch]]:
        limit, grid, luma_only = self._settings()
        return lambda: clahe_launches(source, output, limit, grid, luma_only)

    def _settings(self) -> tuple[float, tuple[int, int], bool]:
        """The limit, the tiles along x and y, and whether only the lightness is equalized."""
        constant = self.spec.constant
        return constant("clip_limit"), (constant("tiles_x"), constant("tiles_y")), constant("luma_only")


def _equalize(source: np.ndarray, target: np.ndarray, limit: float, grid: tuple[int, int], luma_only: bool) -> None:
    """Equalise uint8[height, width, channels] into `target`."""
    import cv2

    if not source.size:
        return
    tables = cv2.createCLAHE(limit, grid)  # A CLAHE object must not be used by several threads at once.
    if source.shape[2] == 3 and luma_only:
        lab = cv2.cvtColor(source, cv2.COLOR_RGB2LAB)
        lab[..., 0] = tables.apply(np.ascontiguousarray(lab[..., 0]))
        cv2.cvtColor(lab, cv2.COLOR_LAB2RGB, dst=target)
        return
    for channel in range(source.shape[2]):
        target[..., channel] = tables.apply(np.ascontiguousarray(source[..., channel]))
