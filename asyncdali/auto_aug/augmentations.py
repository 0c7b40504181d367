"""The operations of automatic augmentations.

The operations take uint8 images or videos (layouts HWC, FHWC), on the CPU or the GPU. Magnitude ranges come from the algorithms' papers
unless a docstring names another one. ``operation.augmentation(mag_range=...)`` gives a copy with another range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import fn, types
from ..data_node import DataNode
from .core import augmentation

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
_SAME = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)


# --------------------------------------------------------------------------------------------------- parameters of magnitudes


def warp_x_param(magnitude: object) -> list[object]:
    """The vector (x, y) of a shift or shear along x."""
    return [magnitude, 0]


def warp_y_param(magnitude: object) -> list[object]:
    """The vector (x, y) of a shift or shear along y."""
    return [0, magnitude]


def shift_enhance_range(magnitude: float) -> float:
    """The factor 1 + `magnitude`, for magnitudes around 0."""
    return 1 + magnitude


def sharpness_kernel(magnitude: float) -> np.ndarray:
    """The 3x3 sharpening filter of strength `magnitude`. 0 gives the image, -1 the smoothed image. FLOAT."""
    weights: np.ndarray = -magnitude * _SMOOTH + (1 + magnitude) * _SAME
    return weights.astype(np.float32)


def sharpness_kernel_shifted(magnitude: float) -> np.ndarray:
    """As :func:`sharpness_kernel` for magnitudes around 1."""
    return sharpness_kernel(magnitude - 1)


def poster_mask_uint8(magnitude: float) -> np.ndarray:
    """The mask of the `magnitude` highest bits of a byte, at least one."""
    bits = min(max(int(np.round(magnitude)), 1), 8)
    return np.array(256 - 2 ** (8 - bits), np.uint8)


def solarize_add_shift(shift: int) -> np.ndarray:
    """The number that is added to dark pixels, as UINT8. ValueError from 128 on: the sum would not fit."""
    if shift >= 128:
        raise ValueError(f"solarize_add adds to pixels below 128, so the magnitude must be below 128, got {shift}")
    return np.array(shift, np.uint8)


# ------------------------------------------------------------------------------------------------------------------- geometry


def _warped(data: DataNode, matrix: DataNode, fill_value: Any, interp_type: Any) -> DataNode:
    return fn.warp_affine(data, matrix=matrix, fill_value=fill_value, interp_type=interp_type, inverse_map=False)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_x_param)
def shear_x(data: DataNode, shear: DataNode, fill_value: object = 128, interp_type: object = None) -> DataNode:
    """Shears along x."""
    return _warped(data, fn.transforms.shear(shear=shear), fill_value, interp_type)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_y_param)
def shear_y(data: DataNode, shear: DataNode, fill_value: object = 128, interp_type: object = None) -> DataNode:
    """Shears along y."""
    return _warped(data, fn.transforms.shear(shear=shear), fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_x_param)
def translate_x(
    data: DataNode, rel_offset: DataNode, shape: DataNode | Sequence[float], fill_value: object = 128, interp_type: object = None
) -> DataNode:
    """Shifts along x by a part of the width; `shape`: (height, width, ...) of each sample."""
    return _warped(data, fn.transforms.translation(offset=rel_offset * shape[1]), fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_y_param)
def translate_y(
    data: DataNode, rel_offset: DataNode, shape: DataNode | Sequence[float], fill_value: object = 128, interp_type: object = None
) -> DataNode:
    """Shifts along y by a part of the height; `shape`: (height, width, ...) of each sample."""
    return _warped(data, fn.transforms.translation(offset=rel_offset * shape[0]), fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_x_param, name="translate_x")
def translate_x_no_shape(data: DataNode, offset: DataNode, fill_value: object = 128, interp_type: object = None) -> DataNode:
    """Shifts along x by pixels."""
    return _warped(data, fn.transforms.translation(offset=offset), fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_y_param, name="translate_y")
def translate_y_no_shape(data: DataNode, offset: DataNode, fill_value: object = 128, interp_type: object = None) -> DataNode:
    """Shifts along y by pixels."""
    return _warped(data, fn.transforms.translation(offset=offset), fill_value, interp_type)


@augmentation(mag_range=(0, 30), randomly_negate=True)
def rotate(data: DataNode, angle: DataNode, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True) -> DataNode:
    """Rotates by degrees. The size stays unless `rotate_keep_size` is False."""
    return fn.rotate(data, angle=angle, fill_value=fill_value, interp_type=interp_type, keep_size=rotate_keep_size)


# --------------------------------------------------------------------------------------------------------------------- colour


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def brightness(data: DataNode, parameter: DataNode) -> DataNode:
    """Multiplies by a factor."""
    return fn.brightness(data, brightness=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def contrast(data: DataNode, parameter: DataNode) -> DataNode:
    """Multiplies the distance from the mean luminance by a factor."""
    mean = fn.reductions.mean(data, axis_names="HW", keep_dims=True)
    weights = types.Constant(_LUMA, device=data.device)
    centre = fn.reductions.sum(mean * weights, axes=[-1], keep_dims=True)
    return fn.cast_like(centre + (data - centre) * parameter, data)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def color(data: DataNode, parameter: DataNode) -> DataNode:
    """Multiplies the saturation by a factor."""
    return fn.saturation(data, saturation=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=sharpness_kernel, param_device="auto")
def sharpness(data: DataNode, kernel: DataNode) -> DataNode:
    """Sharpens or smooths with a 3x3 filter."""
    return fn.filter(data, kernel)


@augmentation(mag_range=(0, 4), mag_to_param=poster_mask_uint8, param_device="auto")
def posterize(data: DataNode, mask: DataNode) -> DataNode:
    """Keeps the highest bits."""
    return data & mask


@augmentation(mag_range=(256, 0), param_device="auto")
def solarize(data: DataNode, threshold: DataNode) -> DataNode:
    """Inverts pixels from a threshold on."""
    dark = data < threshold
    return fn.cast_like(dark * data + (dark ^ True) * (255 - data), data)


@augmentation(mag_range=(0, 110), mag_to_param=solarize_add_shift, param_device="auto")
def solarize_add(data: DataNode, shift: DataNode) -> DataNode:
    """Adds a number to pixels below 128."""
    return fn.cast_like(data + (data < 128) * shift, data)


@augmentation
def invert(data: DataNode, _: None) -> DataNode:
    """Inverts all pixels."""
    return fn.cast_like(255 - data, data)


@augmentation
def equalize(data: DataNode, _: None) -> DataNode:
    """Equalizes the histogram of each channel."""
    return fn.equalize(data)


@augmentation
def auto_contrast(data: DataNode, _: None) -> DataNode:
    """Stretches the values of each channel to 0..255. A channel with a single value stays."""
    lowest = fn.reductions.min(data, axis_names="HW", keep_dims=True)
    highest = fn.reductions.max(data, axis_names="HW", keep_dims=True)
    spread = highest - lowest
    flat = spread == 0
    scale = fn.cast(255, dtype=types.FLOAT) / (spread + flat)
    return fn.cast_like((data - lowest * (flat ^ True)) * (scale * (flat ^ True) + flat), data)


@augmentation
def identity(data: DataNode, _: None) -> DataNode:
    """Changes nothing."""
    return data
