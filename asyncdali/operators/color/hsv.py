"""hsv: hue, saturation and value in one step."""

from __future__ import annotations

from ...types import DALIDataType
from ..accepts import Output, argument
from ..base import Arg, Schema, register
from .color_matrix import HUE_ARG, IMAGES, SATURATION_ARG, Matrix


@register
class Hsv(Matrix):
    schema = Schema(
        name="hsv",
        doc="""Turns the hue and scales saturation and value of RGB images.

        A linear approximation: luma and chroma are scaled, the chroma plane is turned. Layouts: HWC, FHWC, DHWC, with three channels.""",
        accepts=IMAGES,
        per_frame=("hue", "saturation", "value"),
        gives=(Output(type=argument("dtype")),),
        args=(
            Arg("dtype", "dtype", DALIDataType.UINT8, "Element type of the output."),
            HUE_ARG,
            SATURATION_ARG,
            Arg("value", "float", 1.0, "Factor of the value (brightness).", tensor=True),
        ),
        devices=("cpu", "gpu"),
    )
