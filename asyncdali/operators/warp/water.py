"""water: images as if they were seen under water."""

from __future__ import annotations

import math

from ..accepts import Input, Output, listed
from ..base import Arg, Schema, register
from .sphere_water import DISPLACEMENT_ARGS, TYPES, Displacement


@register
class Water(Displacement):
    kernel_module = "water_kernels"
    warp = "water"
    parameters = ("ampl_x", "ampl_y", "freq_x", "freq_y", "phase_x", "phase_y")
    schema = Schema(
        name="water",
        doc="""Distorts images as if they were seen under water.

        Layout HWC, UINT8 or FLOAT. The source of pixel (x, y) is (x + ampl_x sin(freq_x y + phase_x), y + ampl_y cos(freq_y x +
        phase_y)).""",
        accepts=(Input(TYPES, listed("HWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("ampl_x", "float", 10.0, "Amplitude of the wave along x, in pixels."),
            Arg("ampl_y", "float", 10.0, "Amplitude of the wave along y, in pixels."),
            *DISPLACEMENT_ARGS[:1],
            Arg("freq_x", "float", round(math.tau / 128, 9), "Radians per row of the wave along x."),
            Arg("freq_y", "float", round(math.tau / 128, 9), "Radians per column of the wave along y."),
            *DISPLACEMENT_ARGS[1:],
            Arg("phase_x", "float", 0.0, "Radians at row 0 of the wave along x."),
            Arg("phase_y", "float", 0.0, "Radians at column 0 of the wave along y."),
        ),
    )
