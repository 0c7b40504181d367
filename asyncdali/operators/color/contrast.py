"""contrast: scale the distance of every element from a centre."""

from __future__ import annotations

from ..accepts import Input, Output, argument, listed
from ..base import Schema, register
from .color import CONTRAST_ARGS, DTYPE, LAYOUTS, RANGES, Linear


@register
class Contrast(Linear):
    schema = Schema(
        name="contrast",
        doc="Adjusts the contrast: ``contrast_center + contrast * (input - contrast_center)``. Layouts: HWC, FHWC, DHWC.",
        accepts=(Input(tuple(RANGES), listed(*LAYOUTS), "images"),),
        per_frame=("contrast", "contrast_center"),
        gives=(Output(type=argument("dtype")),),
        args=(*CONTRAST_ARGS, DTYPE),
        devices=("cpu", "gpu"),
    )
