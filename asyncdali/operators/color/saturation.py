"""saturation: scale the chroma of colours."""

from __future__ import annotations

from ..accepts import Output, argument
from ..base import Schema, register
from .color import DTYPE
from .color_matrix import IMAGE_TYPE_ARG, IMAGES, SATURATION_ARG, Matrix


@register
class Saturation(Matrix):
    schema = Schema(
        name="saturation",
        doc="Changes the saturation. Layouts: HWC, FHWC, DHWC, with three channels.",
        accepts=IMAGES,
        per_frame=("saturation",),
        gives=(Output(type=argument("dtype")),),
        args=(DTYPE, IMAGE_TYPE_ARG, SATURATION_ARG),
        devices=("cpu", "gpu"),
    )
