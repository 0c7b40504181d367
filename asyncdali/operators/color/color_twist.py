"""color_twist: hue, saturation, brightness and contrast in one step."""

from __future__ import annotations

from ..accepts import Output, argument
from ..base import Arg, Schema, register
from .color import DTYPE
from .color_matrix import HUE_ARG, IMAGE_TYPE_ARG, IMAGES, SATURATION_ARG, Matrix


@register
class ColorTwist(Matrix):
    schema = Schema(
        name="color_twist",
        doc="""Adjusts hue, saturation, brightness and contrast.

        Contrast is about 128 for integers and 0.5 for floats. Layouts: HWC, FHWC, DHWC, with three channels.""",
        accepts=IMAGES,
        per_frame=("brightness", "contrast", "hue", "saturation"),
        gives=(Output(type=argument("dtype")),),
        args=(
            Arg("brightness", "float", 1.0, "Factor of the brightness.", tensor=True),
            Arg("contrast", "float", 1.0, "Factor of the contrast; 0 gives uniform grey.", tensor=True),
            DTYPE,
            HUE_ARG,
            IMAGE_TYPE_ARG,
            SATURATION_ARG,
        ),
        devices=("cpu", "gpu"),
    )
