"""resize_crop_mirror: the result of resize, crop and flip in sequence, computed with one resampling."""

from __future__ import annotations

import numpy as np

from ..accepts import Output, argument
from ..base import Arg, Arguments, Environment, Iteration, SampleError, Schema, Spec, register
from ..crop import crop_rules
from . import resize_rules as rules
from .resize import RESIZE_ARGS, Resize

_CROP_ARGS = (
    Arg("crop", "float_list", None, "Window extents (height, width) or (depth, height, width); 0 = whole axis.", tensor=True),
    Arg("crop_d", "float", 0.0, "Window depth; with `crop_w` and `crop_h`.", tensor=True),
    Arg("crop_h", "float", 0.0, "Window height; with `crop_w`.", tensor=True),
    Arg("crop_pos_x", "float", 0.5, "Horizontal position, 0 (left) to 1 (right).", tensor=True),
    Arg("crop_pos_y", "float", 0.5, "Vertical position, 0 (top) to 1 (bottom).", tensor=True),
    Arg("crop_pos_z", "float", 0.5, "Position along the depth, 0 to 1.", tensor=True),
    Arg("crop_w", "float", 0.0, "Window width; with `crop_h`.", tensor=True),
)
_KEPT = tuple(arg for arg in RESIZE_ARGS if arg.name not in ("image_type", "save_attrs"))


@register
class ResizeCropMirror(Resize):
    schema = Schema(
        name="resize_crop_mirror",
        aliases=("fast_resize_crop_mirror",),
        old_defaults={"fast_resize_crop_mirror": {"antialias": False}},
        doc="""Resizes, crops and mirrors images in one pass. Only the window is resampled.

        The size is given as for ``resize``, the window as for ``crop``, in pixels of the resized image; a window beyond the image
        repeats its border pixels. Layouts and element types are those of ``resize``.""",
        accepts=Resize.schema.accepts,
        gives=(Output(type=argument("dtype")),),
        args=(
            *_KEPT,
            *_CROP_ARGS,
            Arg("mirror", "int", 0, "Axes to flip: 1 horizontal, 2 vertical, 4 depth, or a sum of these.", tensor=True),
            Arg("rounding", "str", "round", 'How the window\'s start becomes an integer: "round" (half away from zero) or "truncate".',
                choices=crop_rules.ROUNDINGS),
        ),
        devices=("cpu", "gpu"),
    )

    def __init__(self, spec: Spec, environment: Environment):
        crop_rules.check_window_arguments(spec)
        super().__init__(spec, environment)

    def _fixed_extents(self, spec: Spec) -> list[int] | None:
        return None  # the crop's share of the resized image depends on the arguments

    def _geometry(self, spatial: np.ndarray, arguments: Arguments, iteration: Iteration) -> rules.Geometry:
        whole = super()._geometry(spatial, arguments, iteration)
        assert whole.lo is not None and whole.hi is not None
        windows, anchors = self._windows(whole.extents, arguments)
        # In float32. The order of operations, scale first, is the one with the least rounding error.
        per_pixel = (whole.hi - whole.lo) / whole.extents
        lo, hi = whole.lo + per_pixel * anchors, whole.lo + per_pixel * (anchors + windows)
        untouched = (anchors == 0) & (windows == whole.extents)
        lo, hi = np.where(untouched, whole.lo, lo), np.where(untouched, whole.hi, hi)
        bits = np.array([4, 2, 1][3 - spatial.shape[1] :])
        flip = (arguments.scalars("mirror", np.int64)[:, None] & bits) != 0
        return rules.Geometry(windows, np.where(flip, hi, lo), np.where(flip, lo, hi))

    def _windows(self, extents: np.ndarray, arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        """(window extents, anchors), int64[samples, axes]."""
        count, axes = extents.shape
        requested = np.zeros((count, 3), np.float32)
        if arguments.given("crop"):
            values = crop_rules.two_or_three(arguments.vectors("crop"))
            requested[:, 3 - values.shape[1] :] = values
        elif arguments.given("crop_w"):
            requested = np.stack([arguments.scalars(name) for name in ("crop_d", "crop_h", "crop_w")], axis=1)
        names = ("crop_pos_z", "crop_pos_y", "crop_pos_x")[3 - axes :]
        position = np.stack([arguments.scalars(name) for name in names], axis=1)
        windows = crop_rules.window_shape(extents, requested[:, 3 - axes :])
        wrong = ~((position >= 0) & (position <= 1))
        if wrong.any():
            i, axis = (int(where[0]) for where in np.nonzero(wrong))
            raise SampleError(i, f"`{names[axis]}` is {position[i, axis]:g}, outside 0 to 1")
        return windows, crop_rules.window_anchor(extents, windows, position, self.spec.constant("rounding"))
