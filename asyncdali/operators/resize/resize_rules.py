"""Output extents and sampled region of ``resize``: arithmetic for a whole batch, without pixels.

All functions work on the *spatial* axes only, in tensor order (depth, height, width or height, width); arrays are [samples, axes].
The formulas were found by measuring DALI 2.4 with random arguments (``tests/parity/test_geometry_parity.py`` repeats this).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

LAYOUTS = ("HWC", "FHWC", "CHW", "FCHW", "CFHW", "DHWC", "FDHWC", "CDHW", "FCDHW", "CFDHW")
"""Layouts that resize accepts. Unlabelled data gets the first layout of its length."""
MODES = ("default", "stretch", "not_larger", "not_smaller")
ROUNDINGS = ("round", "truncate", "ceil")
SHORTEST = np.float32(0.1)
"""Least requested length in pixels, as in DALI. Shorter lengths would make filters as wide as thousands of images."""
SMALLEST_EXTENT = np.float32(1e-3)
"""Least width of a region of interest when an aspect ratio is computed from it."""


@dataclass(frozen=True)
class Geometry:
    """The parameters of a resize along each spatial axis.

    extents   int64[samples, axes], output extents; or one row for all samples
    lo, hi    float64[samples, axes], the source interval [lo, hi) in pixels that the output covers; hi < lo flips; None: the whole input
    """

    extents: np.ndarray
    lo: np.ndarray | None = None
    hi: np.ndarray | None = None


class Region(NamedTuple):
    """A region of interest, float32[samples, axes], in pixels; `relative`: in parts of the input's extents."""

    start: np.ndarray
    end: np.ndarray
    relative: bool = False


class SizeRules(NamedTuple):
    """How output extents follow from requested lengths.

    mode             one of MODES
    max_size         float32[axes], limits of the lengths (entries <= 0 do not limit); None: no limits
    subpixel_scale   the source interval is stretched by rounded / exact length, so that the scale is exactly the requested one
    rounding         how extents are rounded, one of ROUNDINGS; results are at least 1
    alignment        float32[samples, axes], the fixed point of the source interval: 0 its start, 1 its end; None: its middle
    """

    mode: str = "default"
    max_size: np.ndarray | None = None
    subpixel_scale: bool = True
    rounding: str = "round"
    alignment: np.ndarray | None = None


USUAL = SizeRules()


@cache
@cache
def spatial_axes(layout: str) -> tuple[int, int]:
    """First spatial axis of `layout` and their number (2, or 3 with "D"); they are always adjacent."""
    first = min(layout.index(axis) for axis in "DHW" if axis in layout)
    return first, sum(axis in layout for axis in "DHW")


def round_half_up(values: np.ndarray) -> np.ndarray:
    """Non-negative `values` rounded to the nearest integer, halves upwards, as int64."""
    return np.floor(values.astype(np.float64) + 0.5).astype(np.int64)


def rounded(lengths: np.ndarray, how: str) -> np.ndarray:
    """Rounded extents, at least 1; `how` is one of ROUNDINGS."""
    if how == "round":
        extents = round_half_up(lengths)
    else:
        extents = (np.floor if how == "truncate" else np.ceil)(lengths).astype(np.int64)
    positive: np.ndarray = np.maximum(extents, 1)
    return positive


def axis_lengths(region: np.ndarray, given: np.ndarray, mode: str, max_size: np.ndarray | None) -> np.ndarray:
    """Output lengths before rounding, float32[samples, axes].

    region     float32[samples, axes], extents of the source region, > 0
    given      float32[samples, axes], requested lengths, >= 0; 0 = not requested
    mode       one of MODES
    max_size   float32[axes] or None; limits of the lengths (entries <= 0 do not limit)

    default: axes that are not requested get the geometric mean of the scales of the others. stretch: they keep their extent. not_larger and
    not_smaller: all axes get the smallest or largest of the requested scales. Without any request, the size does not change.
    """
    asked = given > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = given / region
    any_asked = asked.any(axis=1, keepdims=True)
    if mode == "stretch":
        lengths = np.where(asked, given, region)
    elif mode == "default":
        lengths = np.where(asked, given, region * _mean_scale(scale, asked))
    else:
        return np.where(any_asked, _kept_aspect(region, given, scale, asked, mode, max_size), region)
    if max_size is not None:
        lengths = np.minimum(lengths, np.where(max_size > 0, max_size, np.inf).astype(np.float32))
    # Without a requested size, max_size has no effect.
    return np.where(any_asked, lengths, region)


def _mean_scale(scale: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Geometric mean of the requested scales, float32[samples, 1]."""
    product = np.where(asked, scale, 1).prod(axis=1, keepdims=True, dtype=np.float32)
    count = np.maximum(asked.sum(axis=1, keepdims=True), 1)
    mean: np.ndarray = np.where(count == 1, product, product ** (np.float32(1) / count.astype(np.float32)))
    return mean


def _kept_aspect(
    region: np.ndarray, given: np.ndarray, scale: np.ndarray, asked: np.ndarray, mode: str, max_size: np.ndarray | None
) -> np.ndarray:
    """Lengths with one scale for all axes: the smallest or largest requested scale, limited by `max_size`."""
    if mode == "not_larger":
        common = np.where(asked, scale, np.inf).min(axis=1, keepdims=True)
    else:
        common = np.where(asked, scale, 0).max(axis=1, keepdims=True)
    # An axis that decides the scale gets exactly the requested length, because region * (given / region) may be rounded.
    exact = np.where(asked, given, 0)
    decides = asked & (scale == common)
    lengths = region * common
    if max_size is not None:
        # As in DALI, the scale of a limit is float64, other scales are float32: nearest pixels depend on the last bit of a length.
        limit = np.where(max_size > 0, max_size, np.inf).astype(np.float64) / region
        strictest = limit.min(axis=1, keepdims=True)
        limited = strictest.astype(np.float32) < common
        exact = np.where(limited, max_size, exact)
        decides = np.where(limited, limit == strictest, decides)
        lengths = np.where(limited, region * strictest, lengths)
    return np.where(decides, exact, lengths).astype(np.float32)


def source_region(shape: np.ndarray, region: Region | None) -> tuple[np.ndarray, np.ndarray]:
    """Region of interest in pixels (lo, hi), float32[samples, axes]; by default the whole input."""
    size = shape.astype(np.float32)
    if region is None:
        return np.zeros_like(size), size
    lo, hi = region.start.astype(np.float32), region.end.astype(np.float32)
    if region.relative:
        lo, hi = lo * size, hi * size
    return lo, hi


def geometry(shape: np.ndarray, size: np.ndarray, rules: SizeRules = USUAL, interest: Region | None = None) -> Geometry:
    """Output extents and source intervals of a batch.

    shape      int64[samples, axes], spatial extents of the inputs
    size       float32[samples, axes], requested lengths; 0 = not requested, negative flips the axis
    interest   the region of interest; None: the whole input
    """
    lo, hi = source_region(shape, interest)
    region = np.maximum(np.abs(hi - lo), SMALLEST_EXTENT)
    # An axis without elements stays empty, so a length requested for it must not decide the scale of other axes.
    size = np.where(shape == 0, 0, size).astype(np.float32)
    absent = size == 0
    if rules.mode in ("not_larger", "not_smaller"):
        absent = absent & absent.all(axis=1, keepdims=True)
    # An axis without a requested length takes its sign from the region, so a reversed region is read in ascending order.
    flip = np.where(absent, hi < lo, np.signbit(size))
    lengths = np.maximum(axis_lengths(region, np.abs(size), rules.mode, rules.max_size), SHORTEST)
    extents = rounded(lengths, rules.rounding)
    lo, hi = np.where(flip, hi, lo), np.where(flip, lo, hi)
    if rules.subpixel_scale:
        # As in DALI, in float64 and rounded once: at the edge of a pixel the last bit decides the nearest one.
        lo, hi = lo.astype(np.float64), hi.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            stretch = np.where(lengths > 0, extents / lengths.astype(np.float64), 1)
        fixed = (lo + hi) * 0.5 if rules.alignment is None else lo + (hi - lo) * rules.alignment
        lo, hi = (fixed + (end - fixed) * stretch for end in (lo, hi))
        lo, hi = lo.astype(np.float32), hi.astype(np.float32)
    return Geometry(extents, lo.astype(np.float64), hi.astype(np.float64))
