"""sphere: images as if they were seen in a sphere."""

from __future__ import annotations

from ..accepts import Input, Output, listed
from ..base import Schema, register
from .sphere_water import DISPLACEMENT_ARGS, TYPES, Displacement


@register
class Sphere(Displacement):
    kernel_module = "sphere_kernels"
    warp = "sphere"
    schema = Schema(
        name="sphere",
        doc="""Distorts images as if they were seen in a sphere.

        Layout HWC, UINT8 or FLOAT. The source of a pixel at distance d from the centre is at the distance d * d / (half of the
        longer side).""",
        accepts=(Input(TYPES, listed("HWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=DISPLACEMENT_ARGS,
    )
