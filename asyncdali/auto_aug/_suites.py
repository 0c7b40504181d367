"""Common parts of the algorithms: operations with their ranges of magnitudes, and checks of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import augmentations as a
from .core._augmentation import Augmentation


def is_integer(value: object) -> bool:
    """Whether a value is an integer of Python or NumPy."""
    return isinstance(value, (int, np.integer))


def check_bins(num_magnitude_bins: Any) -> None:
    """ValueError unless the value is a positive integer."""
    if not is_integer(num_magnitude_bins) or num_magnitude_bins < 1:
        raise ValueError(f"num_magnitude_bins must be a positive integer, got {num_magnitude_bins!r}")


def translations(
    use_shape: bool, max_translate_abs: object, max_translate_rel: object, default_abs: float, default_rel: float
) -> tuple[Augmentation, Augmentation]:
    """translate_x and translate_y with magnitudes up to the given or default limits. ValueError for limits of the other kind."""
    if not isinstance(use_shape, bool):
        raise TypeError(f"use_shape must be True or False, got {use_shape!r}")
    if use_shape:
        if max_translate_abs is not None:
            raise ValueError("max_translate_abs, in pixels, cannot be used together with shapes; use max_translate_rel")
        height, width = _height_and_width(default_rel if max_translate_rel is None else max_translate_rel)
        return a.translate_x.augmentation((0, width)), a.translate_y.augmentation((0, height))
    if max_translate_rel is not None:
        raise ValueError("max_translate_rel, relative to the size, needs shapes; give `shape`, or use max_translate_abs")
    height, width = _height_and_width(default_abs if max_translate_abs is None else max_translate_abs)
    return a.translate_x_no_shape.augmentation((0, width)), a.translate_y_no_shape.augmentation((0, height))


def ranged(
    shear: float, angle: float, factor: tuple[float, float], bits: tuple[int, int], threshold: tuple[int, int], signed: bool = True
) -> list[Augmentation]:
    """The operations with magnitudes, without translations.

    Magnitudes of `factor` are differences from 1 of either sign if `signed`, else the factors themselves.
    """
    to_factor, to_kernel = (a.shift_enhance_range, a.sharpness_kernel) if signed else (None, a.sharpness_kernel_shifted)
    return [
        a.shear_x.augmentation((0, shear), True),
        a.shear_y.augmentation((0, shear), True),
        a.rotate.augmentation((0, angle), True),
        *(operation.augmentation(factor, signed, to_factor) for operation in (a.brightness, a.contrast, a.color)),
        a.sharpness.augmentation(factor, signed, to_kernel),
        a.posterize.augmentation(bits, False, a.poster_mask_uint8),
        a.solarize.augmentation(threshold, False),
    ]


def published() -> list[Augmentation]:
    """:func:`ranged` with the magnitudes of AutoAugment's paper: a larger bin is not always a stronger operation."""
    return ranged(0.3, 30, (0.1, 1.9), (0, 4), (0, 256), signed=False)


def _height_and_width(limit: Any) -> tuple[float, float]:
    if isinstance(limit, (tuple, list, np.ndarray)):
        if len(limit) != 2:
            raise ValueError(f"the limit of translations must be a number or a pair (height, width), got {limit!r}")
        return limit[0], limit[1]
    return limit, limit


def without(suite: Sequence[Augmentation], excluded: Sequence[str] | None, caller: str) -> list[Augmentation]:
    """The augmentations whose names are not excluded. ValueError for a name that no augmentation has."""
    if not excluded:
        return list(suite)
    names = [augmentation.name for augmentation in suite]
    unknown = [name for name in excluded if name not in names]
    if unknown:
        raise ValueError(f"{caller}: excluded names {unknown[0]!r}, which is not in the suite; the suite has {', '.join(names)}")
    return [augmentation for augmentation in suite if augmentation.name not in excluded]


def warp_arguments(suite: Sequence[Augmentation], fill_value: object, interp_type: object, shape: object) -> dict[str, object]:
    """The given arguments of warps that some augmentation of the suite reads."""
    from .core._args import named_parameters

    read = {parameter.name for augmentation in suite for parameter in named_parameters(augmentation.op)}
    given = {name: value for name, value in (("fill_value", fill_value), ("interp_type", interp_type)) if name in read}
    if shape is not None and "shape" in read:
        given["shape"] = shape
    return given
