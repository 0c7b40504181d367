"""Positions of crop windows, computed for a whole batch. Shared by ``crop`` and ``crop_mirror_normalize``."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..base import Spec

ROUNDINGS = ("round", "truncate")
POLICIES = ("error", "constant", "pad", "trim_to_shape")
BORDERS = {"edge": 1, "clamp": 1, "wrap": 2, "reflect": 3, "reflect_1001": 3, "reflect_101": 4}
"""Out-of-bounds policies that continue the input beyond its bounds (``crop`` only) -> their numbers in the kernel."""
LAYOUTS = ("HWC", "CHW", "DHWC", "CDHW", "FHWC", "FCHW", "CFHW", "FDHWC", "FCDHW", "CFDHW")
"""Layouts that the crop family accepts. Unlabelled data gets the first layout of its length."""


def check_window_arguments(spec: Spec) -> None:
    """Raise ValueError for invalid combinations and constants of `crop`, `crop_w`, `crop_h`, `crop_d` and `rounding`."""
    given = {name for name in ("crop", "crop_w", "crop_h", "crop_d") if spec.given(name)}
    if ("crop_w" in given) != ("crop_h" in given):
        raise ValueError("`crop_w` and `crop_h` arguments must be provided together")
    if "crop_d" in given and "crop_w" not in given:
        raise ValueError("`crop_d` argument must be provided together with `crop_w` and `crop_h`")
    if "crop" in given and len(given) > 1:
        raise ValueError("`crop` argument is not compatible with `crop_h`, `crop_w`, `crop_d`")
    if "crop" in spec.constants:
        two_or_three(np.asarray(spec.constants["crop"])[None])
    if spec.constant("rounding") not in ROUNDINGS:
        raise ValueError(f"`rounding` value {spec.constant('rounding')} is not supported. Supported values are {ROUNDINGS}")


def two_or_three(crop: np.ndarray) -> np.ndarray:
    """Return `crop` [samples, values]; ValueError unless it has two or three values."""
    if crop.shape[1] not in (2, 3):
        raise ValueError(f"`crop` argument should have 2 or 3 elements depending on the input data shape, got {crop.shape[1]}")
    return crop


def window_shape(extents: np.ndarray, requested: np.ndarray) -> np.ndarray:
    """int64 window extents: `requested` (float32, same shape) truncated; the whole axis if `requested` is not positive."""
    whole = np.trunc(requested.astype(np.float64)).astype(np.int64)
    return np.where(whole > 0, whole, extents)


def window_anchor(extents: np.ndarray, window: np.ndarray, position: np.ndarray, rounding: str) -> np.ndarray:
    """int64 start of windows: ``position * (extent - window)`` in float64, rounded half away from zero or truncated.

    The positions are float32. Float64 products round like DALI 2.4 in cases where a float32 product would be exactly a half (0.7f * 5).

    extents, window   int64[samples, axes];  position   float32[samples, axes] in 0..1
    """
    start = position.astype(np.float32).astype(np.float64) * (extents - window)
    whole: np.ndarray = np.trunc(start) if rounding == "truncate" else np.sign(start) * np.floor(np.abs(start) + 0.5)
    return whole.astype(np.int64)


def trimmed(extents: np.ndarray, anchor: np.ndarray, window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(anchor, window) clipped to the input: the policy "trim_to_shape"."""
    begin = np.clip(anchor, 0, extents)
    end = np.clip(anchor + window, 0, extents)
    return begin, end - begin


def outside(extents: np.ndarray, anchor: np.ndarray, window: np.ndarray) -> np.ndarray:
    """bool[samples]: which windows extend beyond the input."""
    found: np.ndarray = ((anchor < 0) | (anchor + window > extents)).any(axis=1)
    return found


def cut_early(source: Batch, output: Batch, anchors: np.ndarray, *, feeds: bool) -> bool:
    """Whether the operator that computes `source` computes only the windows, into `output`. The cropping operator then has no step.

    anchors   int64[samples, 3] of the windows, whose extents are those of `output`
    feeds     whether the reader of `output` may use a feed
    """
    if source.feed is None or source.layout != "HWC" or source.dtype != output.dtype:
        return False
    whole_pixels = (output.shapes[:, 2] == source.shapes[:, 2]).all()
    if not whole_pixels or (output.shapes <= 0).any() or outside(source.shapes, anchors, output.shapes).any():
        return False
    feed = source.feed.cut(output, anchors[:, :2], output.shapes[:, :2])
    output.feed = feed if feeds else None
    return feed is not None
