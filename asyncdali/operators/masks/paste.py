"""paste: an image on a larger canvas."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..moves.moving import MovingOperator
from ..moves.pieces import Pieces, dense_strides


@register
class Paste(MovingOperator):
    kernel_module = "paste_kernels"
    repeatable = True
    schema = Schema(
        name="paste",
        doc="""Pastes images on larger canvases: `ratio` times as wide and as high, filled with one colour.

        Layout HWC, element type UINT8.""",
        accepts=(Input((DALIDataType.UINT8,), listed("HWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("fill_value", "int_list", REQUIRED, "Colour of the canvas: one value, or one per channel; the low 8 bits count."),
            Arg("min_canvas_size", "float", 0.0, "Smallest width and height of the canvas.", tensor=True),
            Arg("n_channels", "int", 3, "Channels of the images, where `fill_value` is one value."),
            Arg("paste_x", "float", 0.5, "Horizontal place on the canvas, 0 (left) to 1 (right).", tensor=True),
            Arg("paste_y", "float", 0.5, "Vertical place on the canvas, 0 (top) to 1 (bottom).", tensor=True),
            Arg("ratio", "float", REQUIRED, "Extents of the canvas divided by those of the image, at least 1.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        colour, channels = spec.constant("fill_value"), spec.constant("n_channels")
        if not 1 <= channels <= 1024:
            raise ValueError(f"`n_channels` is {channels}; it must be 1 to 1024")
        if len(colour) not in (1, channels):
            raise ValueError(f"`fill_value` has {len(colour)} values for `n_channels` = {channels}; expected one, or one per channel")
        self._colour = np.ascontiguousarray(np.resize(np.array(colour, np.int64), channels) & 0xFF, np.uint8)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        _refuse(source.shapes[:, 2] != len(self._colour), f"the images must have {len(self._colour)} channels (`n_channels`)")
        ratio, least = arguments.scalars("ratio"), arguments.scalars("min_canvas_size")
        _refuse(~((ratio >= 1) & np.isfinite(ratio)), "`ratio` of less than 1 is not supported")
        _refuse(~((least > -1) & np.isfinite(least)), "`min_canvas_size` must not be negative")
        place = np.stack([arguments.scalars("paste_y"), arguments.scalars("paste_x")], axis=1)
        _refuse(np.any((place < 0) | (place > 1) | np.isnan(place), axis=1), "`paste_x` and `paste_y` must be in range [0, 1]")
        spatial = source.shapes[:, :2]
        canvas = np.maximum(ratio[:, None] * spatial.astype(np.float32), least[:, None]).astype(np.int64)
        start = (place * (canvas - spatial).astype(np.float32)).astype(np.int64)
        shapes = np.concatenate([canvas, source.shapes[:, 2:]], axis=1)
        output = Batch(shapes, source.dtype, layout, device=source.device, source_info=source.source_info)
        pieces = Pieces(output)
        pieces.fill(self._colour, axis=2)
        pieces.add(source, source.shapes, dense_strides(source.shapes, 1), target_offset=(start * pieces.targets[:, :2]).sum(axis=1))
        return self.copied(pieces)


def _refuse(wrong: np.ndarray, message: str) -> None:
    refuse_where(wrong, lambda _: message)
