"""brightness_contrast: change brightness and contrast in one step."""

from __future__ import annotations

from ..accepts import Input, Output, argument, listed
from ..base import Schema, register
from .color import BRIGHTNESS_ARGS, CONTRAST_ARGS, DTYPE, LAYOUTS, RANGES, Linear


@register
class BrightnessContrast(Linear):
    schema = Schema(
        name="brightness_contrast",
        doc="""Adjusts brightness and contrast.

        ``brightness_shift * range + brightness * (contrast_center + contrast * (input - contrast_center))``, where range is the largest
        positive value of the output type (1 for floats). Layouts: HWC, FHWC, DHWC.""",
        accepts=(Input(tuple(RANGES), listed(*LAYOUTS), "images"),),
        per_frame=("brightness", "brightness_shift", "contrast", "contrast_center"),
        gives=(Output(type=argument("dtype")),),
        args=(*BRIGHTNESS_ARGS, *CONTRAST_ARGS, DTYPE),
        devices=("cpu", "gpu"),
    )
