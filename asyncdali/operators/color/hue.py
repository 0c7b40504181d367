"""hue: rotate colours in the chroma plane."""

from __future__ import annotations

from ..accepts import Output, argument
from ..base import Schema, register
from .color import DTYPE
from .color_matrix import HUE_ARG, IMAGE_TYPE_ARG, IMAGES, Matrix


@register
class Hue(Matrix):
    schema = Schema(
        name="hue",
        doc="Turns the hue. Layouts: HWC, FHWC, DHWC, with three channels.",
        accepts=IMAGES,
        per_frame=("hue",),
        gives=(Output(type=argument("dtype")),),
        args=(DTYPE, HUE_ARG, IMAGE_TYPE_ARG),
        devices=("cpu", "gpu"),
    )
