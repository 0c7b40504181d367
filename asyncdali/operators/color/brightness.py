"""brightness: a factor and a shift."""

from __future__ import annotations

from ..accepts import Input, Output, argument, listed
from ..base import Schema, register
from .color import BRIGHTNESS_ARGS, DTYPE, LAYOUTS, RANGES, Linear


@register
class Brightness(Linear):
    schema = Schema(
        name="brightness",
        doc="""Adjusts the brightness: ``brightness_shift * range + brightness * input``.

        The range is the largest positive value of the output type (1 for floats). Layouts: HWC, FHWC, DHWC.""",
        accepts=(Input(tuple(RANGES), listed(*LAYOUTS), "images"),),
        per_frame=("brightness", "brightness_shift"),
        gives=(Output(type=argument("dtype")),),
        args=(*BRIGHTNESS_ARGS, DTYPE),
        devices=("cpu", "gpu"),
    )
