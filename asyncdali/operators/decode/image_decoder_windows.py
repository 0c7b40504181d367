"""Windows of the cropping decoders."""

from __future__ import annotations

import numpy as np

from ..base import Arg, Arguments, SampleError, Spec
from ..crop import crop_rules

CROP_ARGS = (
    Arg("crop", "float_list", None, "Window extents (height, width); a value of 0 or less means the whole axis.", tensor=True),
    Arg("crop_d", "float", 0.0, "Accepted with `crop_w` and `crop_h`; images have no depth.", tensor=True),
    Arg("crop_h", "float", 0.0, "Window height; with `crop_w`.", tensor=True),
    Arg("crop_w", "float", 0.0, "Window width; with `crop_h`.", tensor=True),
    Arg("crop_pos_x", "float", 0.5, "Horizontal position, 0 (left) to 1 (right).", tensor=True),
    Arg("crop_pos_y", "float", 0.5, "Vertical position, 0 (top) to 1 (bottom).", tensor=True),
    Arg("crop_pos_z", "float", 0.5, "Position along the depth, 0 to 1; images have no depth.", tensor=True),
    Arg("rounding", "str", "round", 'How the window\'s start becomes an integer: "round" (half away from zero) or "truncate".',
        choices=crop_rules.ROUNDINGS),
)  # fmt: skip


def check_crop(spec: Spec) -> None:
    """Raise ValueError for invalid combinations and constants of :data:`CROP_ARGS`. Called by an operator's constructor."""
    crop_rules.check_window_arguments(spec)
    for name in ("crop_pos_x", "crop_pos_y", "crop_pos_z"):
        if name in spec.constants and not 0 <= spec.constants[name] <= 1:
            raise ValueError(f"`{name}` is {spec.constants[name]}, outside 0 to 1")


def crop_windows(spec: Spec, arguments: Arguments, extents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(anchors, window extents), int64[samples, 2] as (y, x), for images of `extents`. Windows may lie outside.

    Raises SampleError for positions outside 0 to 1, ValueError for a `crop` of other than 2 or 3 values.
    """
    if arguments.given("crop"):
        requested = crop_rules.two_or_three(arguments.vectors("crop"))[:, -2:]  # A leading depth is ignored.
    else:
        requested = np.stack([arguments.scalars("crop_h"), arguments.scalars("crop_w")], axis=1)
    position = np.stack([arguments.scalars("crop_pos_y"), arguments.scalars("crop_pos_x")], axis=1)
    wrong = ~((position >= 0) & (position <= 1))
    if wrong.any():
        i, axis = (int(where[0]) for where in np.nonzero(wrong))
        raise SampleError(i, f"`crop_pos_{'yx'[axis]}` is {position[i, axis]:g}, outside 0 to 1")
    windows = crop_rules.window_shape(extents, requested)
    return crop_rules.window_anchor(extents, windows, position, spec.constant("rounding")), windows


def check_windows(anchors: np.ndarray, windows: np.ndarray, extents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(anchors, windows); SampleError for the first window that is empty or leaves its image. Arguments are int64[samples, 2] as (y, x)."""
    wrong = crop_rules.outside(extents, anchors, windows) | (windows <= 0).any(axis=1)
    if not wrong.any():
        return anchors, windows
    i = int(np.flatnonzero(wrong)[0])
    (y, x), (h, w) = anchors[i].tolist(), windows[i].tolist()
    height, width = extents[i].tolist()
    what = "is empty" if h <= 0 or w <= 0 else f"is not valid for image dimensions [{height} x {width}]"
    raise SampleError(i, f"the cropping window [{y}..{y + h}, {x}..{x + w}] {what}")
