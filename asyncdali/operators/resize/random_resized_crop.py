"""random_resized_crop: a random window of an image, resized."""

from __future__ import annotations

import numpy as np

from ...compiled.addresses import address_of
from ...sampling import random_streams
from ..accepts import Input, Output, argument, listed
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Schema, Spec, register
from ..random.random import StreamOperator
from . import resize_rules as rules
from .resize import RESIZE_ARGS, TYPES, Resize

_LAYOUTS = ("HWC", "CHW", "FHWC", "FCHW", "CFHW")
_KEPT = ("antialias", "dtype", "interp_type", "mag_filter", "min_filter", "minibatch_size", "temp_buffer_hint")


@register
class RandomResizedCrop(Resize, StreamOperator):
    schema = Schema(
        name="random_resized_crop",
        doc="""Crops a random window of a random aspect ratio and area and resizes it.

        Windows are DALI's for the same seed; all frames of a sequence have the same window. Layouts: HWC, CHW, FHWC, FCHW, CFHW;
        element types UINT8, INT16, UINT16, FLOAT.""",
        accepts=(Input(TYPES, listed(*_LAYOUTS), "images"),),
        gives=(Output(type=argument("dtype")),),
        args=(
            *(arg for arg in RESIZE_ARGS if arg.name in _KEPT),
            Arg("num_attempts", "int", 10, "Tries before a window is clipped to fit.", stream=True),
            Arg("random_area", "float_list", [0.08, 1.0], "Range of the window's part of the area.", stream=True),
            Arg("random_aspect_ratio", "float_list", [0.75, 4 / 3], "Range of width / height of the window.", stream=True),
            Arg("size", "int_list", REQUIRED, "Size of the output: (height, width), or one number for both."),
        ),
        devices=("cpu", "gpu"),
        seeded=True,
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        size = spec.constant("size")
        if len(size) not in (1, 2) or min(size) <= 0:
            raise ValueError(f"`size` is {size}; expected one or two positive numbers (height, width)")
        self._extents = rules.rounded(np.resize(np.asarray(size, np.float32), (1, 2)), "round")
        aspect, area = spec.constant("random_aspect_ratio"), spec.constant("random_area")
        self._window_rules = (tuple(aspect), tuple(area), spec.constant("num_attempts"))
        random_streams.draw_windows(self.start, [], [], *self._window_rules)  # Refuses impossible rules.
        random_streams.load_kernels().draw_windows.compile()

    @property
    def chooses_windows(self) -> bool:
        return True

    def _check_size_arguments(self, spec: Spec) -> None:
        self._mode = "default"

    def _fixed_extents(self, spec: Spec) -> list[int] | None:
        return None

    def _geometry(self, spatial: np.ndarray, arguments: Arguments, iteration: Iteration) -> rules.Geometry:
        windows = random_streams.draw_windows(iteration.position, spatial[:, 0], spatial[:, 1], *self._window_rules)
        iteration.note_windows(*windows)
        region = np.empty((2, *spatial.shape), np.float64)
        lo = address_of(region)
        # The size is an integer, so nothing is stretched: the sampled region is the window.
        self._resampling.window_region(address_of(windows), spatial.size, lo, lo + region[0].nbytes)
        return rules.Geometry(self._extents, region[0], region[1])
