"""Colours and intensities. PIL pictures are changed by PIL's own functions, tensors by arithmetic with torchvision's rounding.

Tensors of floats have values from 0 to 1, tensors of integers up to the largest number of their type.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageOps
import torch

from .arguments import is_number
from .families import family, kernel
from .kinds import PIXELS, InputKind

_WEIGHTS = (0.2989, 0.587, 0.114)
"""Shares of red, green and blue in the brightness (ITU-R BT.601)."""


def largest(dtype: torch.dtype) -> float:
    """The value of white."""
    return 1 if dtype.is_floating_point or dtype == torch.bool else torch.iinfo(dtype).max


def _factor(value: object, name: str) -> float:
    if not is_number(value):
        raise TypeError(f"{name} is a number, got {value!r}")
    if value < 0:
        raise ValueError(f"{name} cannot be negative, got {value!r}")
    return float(value)


def _working(tensor: torch.Tensor) -> torch.Tensor:
    """Values for arithmetic: floats as they are, other types as float32."""
    return tensor if tensor.is_floating_point() else tensor.float()


def _limited(made: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Values between black and white, cut to the element type."""
    return made.clamp_(0, largest(dtype)).to(dtype)


def _blended(tensor: torch.Tensor, other: torch.Tensor, ratio: float) -> torch.Tensor:
    return _limited((_working(tensor) * ratio).add_(other, alpha=1.0 - ratio), tensor.dtype)


def _check_channels(tensor: torch.Tensor, what: str, allowed: tuple[int, ...] = (1, 3, 4)) -> int:
    channels = tensor.shape[-3]
    if channels not in allowed:
        raise TypeError(f"{what} takes {', '.join(map(str, allowed))} channels, got {channels}")
    return int(channels)


def brightness_of(tensor: torch.Tensor) -> torch.Tensor:
    """The brightness of colours [..., 3 or 4, height, width] as floats [..., 1, height, width]; integers are cut as in their type."""
    if tensor.shape[-3] == 1:
        return _working(tensor)
    values = _working(tensor)
    red, green, blue = values[..., 0, :, :], values[..., 1, :, :], values[..., 2, :, :]
    made = (red * _WEIGHTS[0]).add_(green, alpha=_WEIGHTS[1]).add_(blue, alpha=_WEIGHTS[2])[..., None, :, :]
    return made if tensor.is_floating_point() or tensor.dtype == torch.bool else made.floor_()


def colours_changed(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The first three channels changed; a fourth one, alpha, is kept."""
    if tensor.shape[-3] != 4:
        return change(tensor)
    return torch.cat([change(tensor[..., :3, :, :]), tensor[..., 3:, :, :]], -3)


# ------------------------------------------------------------------------------------------------------------- factors


@family
def adjust_brightness(inpt: object, brightness_factor: float, device: object = "cpu") -> object:
    """Multiply all values. 0 gives black, 1 the picture itself."""
    raise NotImplementedError


@family
def adjust_contrast(inpt: object, contrast_factor: float, device: object = "cpu") -> object:
    """Blend with the mean brightness. 0 gives gray, 1 the picture itself."""
    raise NotImplementedError


@family
def adjust_saturation(inpt: object, saturation_factor: float, device: object = "cpu") -> object:
    """Blend with the gray picture. 0 gives gray, 1 the picture itself."""
    raise NotImplementedError


@family
def adjust_hue(inpt: object, hue_factor: float, device: object = "cpu") -> object:
    """Turn the hue, in HSV. `hue_factor` is a share of the circle, from -0.5 to 0.5."""
    raise NotImplementedError


@family
def adjust_gamma(inpt: object, gamma: float, gain: float = 1, device: object = "cpu") -> object:
    """Raise values (from 0 to 1) to the power `gamma`, and multiply them by `gain`."""
    raise NotImplementedError


@family
def adjust_sharpness(inpt: object, sharpness_factor: float, device: object = "cpu") -> object:
    """Blend with a blurred picture. 0 gives the blurred picture, 1 the picture itself, 2 doubles the details."""
    raise NotImplementedError


@kernel(adjust_brightness, InputKind.PICTURE)
def _brightness_picture(picture: PIL.Image.Image, brightness_factor: object) -> PIL.Image.Image:
    return PIL.ImageEnhance.Brightness(picture).enhance(_factor(brightness_factor, "brightness_factor"))


@kernel(adjust_contrast, InputKind.PICTURE)
def _contrast_picture(picture: PIL.Image.Image, contrast_factor: object) -> PIL.Image.Image:
    return PIL.ImageEnhance.Contrast(picture).enhance(_factor(contrast_factor, "contrast_factor"))


@kernel(adjust_saturation, InputKind.PICTURE)
def _saturation_picture(picture: PIL.Image.Image, saturation_factor: object) -> PIL.Image.Image:
    return PIL.ImageEnhance.Color(picture).enhance(_factor(saturation_factor, "saturation_factor"))


@kernel(adjust_sharpness, InputKind.PICTURE)
def _sharpness_picture(picture: PIL.Image.Image, sharpness_factor: object) -> PIL.Image.Image:
    return PIL.ImageEnhance.Sharpness(picture).enhance(_factor(sharpness_factor, "sharpness_factor"))


@kernel(adjust_brightness, *PIXELS)
def _brightness_tensor(tensor: torch.Tensor, brightness_factor: object) -> torch.Tensor:
    factor = _factor(brightness_factor, "brightness_factor")
    _check_channels(tensor, "adjust_brightness")
    return colours_changed(tensor, lambda part: _limited(_working(part) * factor, part.dtype))


@kernel(adjust_contrast, *PIXELS)
def _contrast_tensor(tensor: torch.Tensor, contrast_factor: object) -> torch.Tensor:
    factor = _factor(contrast_factor, "contrast_factor")
    _check_channels(tensor, "adjust_contrast")
    return colours_changed(tensor, lambda part: _blended(part, brightness_of(part).mean((-3, -2, -1), keepdim=True), factor))


@kernel(adjust_saturation, *PIXELS)
def _saturation_tensor(tensor: torch.Tensor, saturation_factor: object) -> torch.Tensor:
    factor = _factor(saturation_factor, "saturation_factor")
    if _check_channels(tensor, "adjust_saturation") == 1:
        return tensor
    return colours_changed(tensor, lambda part: _blended(part, brightness_of(part), factor))


def _hue_factor(value: object) -> float:
    if not is_number(value):
        raise TypeError(f"hue_factor is a number, got {value!r}")
    if not -0.5 <= value <= 0.5:
        raise ValueError(f"hue_factor is within -0.5 and 0.5, got {value!r}")
    return float(value)


@kernel(adjust_hue, InputKind.PICTURE)
def _hue_picture(picture: PIL.Image.Image, hue_factor: object) -> PIL.Image.Image:
    factor = _hue_factor(hue_factor)
    if picture.mode in ("L", "1", "I", "F", "LA"):
        return picture
    hue, saturation, value = picture.convert("HSV").split()
    turned = PIL.Image.fromarray((np.asarray(hue).astype(np.int32) + int(factor * 255)).astype(np.uint8))
    made = PIL.Image.merge("HSV", (turned, saturation, value)).convert("RGB" if picture.mode == "RGBA" else picture.mode)
    if picture.mode == "RGBA":
        made.putalpha(picture.getchannel("A"))
    return made


@kernel(adjust_hue, *PIXELS)
def _hue_tensor(tensor: torch.Tensor, hue_factor: object) -> torch.Tensor:
    factor = _hue_factor(hue_factor)
    if _check_channels(tensor, "adjust_hue") == 1 or tensor.numel() == 0:
        return tensor
    return colours_changed(tensor, lambda part: from_unit(_turned(to_unit(part), factor), part.dtype))


def to_unit(tensor: torch.Tensor) -> torch.Tensor:
    """Values from 0 to 1."""
    return tensor if tensor.is_floating_point() else tensor.float() / largest(tensor.dtype)


def from_unit(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Values from 0 to 1 in an element type: each integer has an equal share of the interval."""
    if dtype.is_floating_point:
        return values.to(dtype)
    if dtype == torch.bool:
        return values > 0
    white = torch.iinfo(dtype).max
    if (values.dtype == torch.float32 and white >= 2**31 - 1) or (values.dtype == torch.float64 and white >= 2**63 - 1):
        raise RuntimeError(f"{values.dtype} has too few digits for {dtype}")
    return (values * (white + 1.0 - 1e-3)).to(dtype)


def _turned(colours: torch.Tensor, turn: float) -> torch.Tensor:
    """Colours with another hue. Formulas: A. R. Smith, "Color gamut transform pairs", 1978."""
    red, green, blue = colours.unbind(-3)
    high, low = colours.amax(-3), colours.amin(-3)
    spread = high - low
    flat = spread == 0
    divisor = torch.where(flat, torch.ones_like(spread), spread)
    saturation = spread / torch.where(flat, torch.ones_like(high), high)
    is_red, is_green = high == red, (high == green) & (high != red)
    sector = torch.where(
        is_red, (green - blue) / divisor, torch.where(is_green, (blue - red) / divisor + 2.0, (red - green) / divisor + 4.0)
    )
    hue = (sector / 6.0 + 1.0 + turn) % 1.0
    parts = hue * 6.0
    made = []
    for offset in (5.0, 3.0, 1.0):
        phase = (parts + offset) % 6.0
        made.append(high - high * saturation * torch.minimum(phase, 4.0 - phase).clamp(0.0, 1.0))
    return torch.stack(made, -3).clamp_(0.0, 1.0)


@kernel(adjust_gamma, InputKind.PICTURE)
def _gamma_picture(picture: PIL.Image.Image, gamma: object, gain: float = 1) -> PIL.Image.Image:
    power = _factor(gamma, "gamma")
    colours = picture if picture.mode in ("RGB", "L") else picture.convert("RGB")
    table = [int((255 + 1 - 1e-3) * gain * math.pow(value / 255.0, power)) for value in range(256)] * len(colours.getbands())
    made = colours.point(table)
    return made if picture.mode == colours.mode else made.convert(picture.mode)


@kernel(adjust_gamma, *PIXELS)
def _gamma_tensor(tensor: torch.Tensor, gamma: object, gain: float = 1) -> torch.Tensor:
    power = _factor(gamma, "gamma")
    return from_unit((to_unit(tensor).pow(power) * gain).clamp_(0.0, 1.0), tensor.dtype)


@kernel(adjust_sharpness, *PIXELS)
def _sharpness_tensor(tensor: torch.Tensor, sharpness_factor: object) -> torch.Tensor:
    factor = _factor(sharpness_factor, "sharpness_factor")
    _check_channels(tensor, "adjust_sharpness", (1, 3))
    height, width = tensor.shape[-2:]
    if height <= 2 or width <= 2 or tensor.numel() == 0:
        return tensor
    values = _working(tensor)
    planes = values.reshape(-1, 1, height, width)
    window = torch.full((1, 1, 3, 3), 1 / 13, dtype=values.dtype, device=values.device)
    window[0, 0, 1, 1] = 5 / 13
    inner = torch.nn.functional.conv2d(planes, window).reshape(*tensor.shape[:-2], height - 2, width - 2)
    if not tensor.is_floating_point():
        inner = inner.round()
    blurred = values.clone()
    blurred[..., 1:-1, 1:-1] = inner
    return _blended(tensor, blurred, factor)


# --------------------------------------------------------------------------------------------------------------- grays


def _gray_count(count: object) -> int:
    if count not in (1, 3):
        raise ValueError(f"num_output_channels is 1 or 3, got {count!r}")
    return int(count)


@family
def rgb_to_grayscale(inpt: object, num_output_channels: int = 1, device: object = "cpu") -> object:
    """The brightness of a picture, in one channel or three equal ones. Alpha is left out."""
    raise NotImplementedError


@kernel(rgb_to_grayscale, InputKind.PICTURE)
def _gray_picture(picture: PIL.Image.Image, num_output_channels: object = 1) -> PIL.Image.Image:
    gray = picture.convert("L")
    return gray if _gray_count(num_output_channels) == 1 else PIL.Image.merge("RGB", (gray, gray, gray))


@kernel(rgb_to_grayscale, *PIXELS)
def _gray_tensor(tensor: torch.Tensor, num_output_channels: object = 1) -> torch.Tensor:
    count = _gray_count(num_output_channels)
    if _check_channels(tensor, "rgb_to_grayscale") > 1:
        tensor = brightness_of(tensor).to(tensor.dtype)
    return tensor if count == 1 else tensor.repeat_interleave(3, -3)


def to_grayscale(inpt: object, num_output_channels: int = 1, device: object = "cpu") -> object:
    """The same as `rgb_to_grayscale`."""
    return rgb_to_grayscale(inpt, num_output_channels=num_output_channels, device=device)


@family
def grayscale_to_rgb(inpt: object, device: object = "cpu") -> object:
    """A picture of one channel with three equal ones. Colours stay as they are."""
    raise NotImplementedError


@kernel(grayscale_to_rgb, InputKind.PICTURE)
def _colours_picture(picture: PIL.Image.Image) -> PIL.Image.Image:
    return picture.convert("RGB")


@kernel(grayscale_to_rgb, *PIXELS)
def _colours_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.shape[-3] >= 3 else tensor[..., :1, :, :].repeat_interleave(3, -3)


# -------------------------------------------------------------------------------------------------------- intensities


@family
def invert(inpt: object, device: object = "cpu") -> object:
    """Exchange black and white."""
    raise NotImplementedError


@family
def posterize(inpt: object, bits: int, device: object = "cpu") -> object:
    """Keep the `bits` most significant bits of each value."""
    raise NotImplementedError


@family
def solarize(inpt: object, threshold: float, device: object = "cpu") -> object:
    """Invert the values from `threshold` on."""
    raise NotImplementedError


@family
def autocontrast(inpt: object, device: object = "cpu") -> object:
    """Stretch each channel, so that its darkest value is black and its brightest is white."""
    raise NotImplementedError


@family
def equalize(inpt: object, device: object = "cpu") -> object:
    """Equalize the histogram of each channel."""
    raise NotImplementedError


@family
def permute_channels(inpt: object, permutation: list[int], device: object = "cpu") -> object:
    """Reorder the channels: channel k of the result is channel `permutation[k]` of the input."""
    raise NotImplementedError


def _by_pil(function: Callable[..., PIL.Image.Image], picture: PIL.Image.Image, *given: float, **named: object) -> PIL.Image.Image:
    """A function of PIL. ValueError for modes that it does not have."""
    try:
        return function(picture, *given, **named)
    except (OSError, NotImplementedError) as error:
        raise ValueError(f"{function.__name__} has no mode {picture.mode}: {error}; convert the picture to L or RGB first") from error


@kernel(invert, InputKind.PICTURE)
def _invert_picture(picture: PIL.Image.Image) -> PIL.Image.Image:
    return _by_pil(PIL.ImageOps.invert, picture)


@kernel(invert, *PIXELS)
def _invert_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return 1.0 - tensor
    if tensor.dtype in (torch.uint8, torch.bool):
        return tensor.bitwise_not()
    return tensor.bitwise_xor(int(largest(tensor.dtype)))


@kernel(posterize, InputKind.PICTURE)
def _posterize_picture(picture: PIL.Image.Image, bits: int) -> PIL.Image.Image:
    return _by_pil(PIL.ImageOps.posterize, picture, bits)


@kernel(posterize, *PIXELS)
def _posterize_tensor(tensor: torch.Tensor, bits: int) -> torch.Tensor:
    if tensor.is_floating_point():
        levels = 1 << bits
        return (tensor * levels).floor_().clamp_(0, levels - 1) * (1.0 / levels)
    width = 1 if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max.bit_length()
    if bits >= width:
        return tensor
    return tensor & (((1 << bits) - 1) << (width - bits))


@kernel(solarize, InputKind.PICTURE)
def _solarize_picture(picture: PIL.Image.Image, threshold: float) -> PIL.Image.Image:
    return _by_pil(PIL.ImageOps.solarize, picture, threshold=threshold)


@kernel(solarize, *PIXELS)
def _solarize_tensor(tensor: torch.Tensor, threshold: float) -> torch.Tensor:
    if threshold > largest(tensor.dtype):
        raise TypeError(f"threshold is at most {largest(tensor.dtype)} for {tensor.dtype}, got {threshold}")
    return torch.where(tensor >= threshold, _invert_tensor(tensor), tensor)


@kernel(autocontrast, InputKind.PICTURE)
def _autocontrast_picture(picture: PIL.Image.Image) -> PIL.Image.Image:
    return _by_pil(PIL.ImageOps.autocontrast, picture)


@kernel(autocontrast, *PIXELS)
def _autocontrast_tensor(tensor: torch.Tensor) -> torch.Tensor:
    _check_channels(tensor, "autocontrast", (1, 3))
    if tensor.numel() == 0:
        return tensor
    values = _working(tensor)
    low, high = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    flat = low == high
    scale = largest(tensor.dtype) / torch.where(flat, torch.ones_like(low), high - low)
    made = torch.where(flat, values, (values - low) * scale)
    return _limited(made, tensor.dtype)


@kernel(equalize, InputKind.PICTURE)
def _equalize_picture(picture: PIL.Image.Image) -> PIL.Image.Image:
    return _by_pil(PIL.ImageOps.equalize, picture)


@kernel(equalize, *PIXELS)
def _equalize_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() == 0:
        return tensor
    levels = tensor if tensor.dtype == torch.uint8 else converted(tensor, torch.uint8, True)
    planes = levels.reshape(-1, levels.shape[-2] * levels.shape[-1])
    made = torch.stack([_equalized(plane) for plane in planes]).reshape(levels.shape)
    return made if tensor.dtype == torch.uint8 else converted(made, tensor.dtype, True)


def _equalized(plane: torch.Tensor) -> torch.Tensor:
    """One channel with an even histogram, as PIL does: the last level that occurs is not counted."""
    counts = torch.bincount(plane.long(), minlength=256)
    occupied = counts.nonzero()
    step = (int(counts.sum()) - int(counts[occupied[-1]])) // 255
    if step == 0:
        return plane
    before = torch.cat([counts.new_zeros(1), counts.cumsum(0)[:-1]])
    table = ((before + step // 2) // step).clamp_(0, 255).to(torch.uint8)
    return table[plane.long()]


@kernel(permute_channels, InputKind.PICTURE)
def _permute_picture(picture: PIL.Image.Image, permutation: list[int]) -> PIL.Image.Image:
    bands = picture.split()
    _check_permutation(permutation, len(bands))
    return PIL.Image.merge(picture.mode, [bands[k] for k in permutation])


@kernel(permute_channels, *PIXELS)
def _permute_tensor(tensor: torch.Tensor, permutation: list[int]) -> torch.Tensor:
    _check_permutation(permutation, tensor.shape[-3])
    return tensor.index_select(-3, torch.as_tensor(permutation, device=tensor.device))


def _check_permutation(permutation: list[int], channels: int) -> None:
    if sorted(permutation) != list(range(channels)):
        raise ValueError(f"permutation is an order of the channels 0 to {channels - 1}, got {permutation!r}")


def converted(tensor: torch.Tensor, dtype: torch.dtype, scale: bool) -> torch.Tensor:
    """A tensor in another element type. `scale`: black and white stay black and white."""
    if tensor.dtype == dtype or not scale:
        return tensor.to(dtype)
    old_float, new_float = tensor.is_floating_point(), dtype.is_floating_point
    if old_float:
        return tensor.to(dtype) if new_float else from_unit(tensor, dtype)
    if new_float:
        return tensor.to(dtype) / largest(tensor.dtype)
    if dtype == torch.bool:
        return tensor != 0
    old_bits, new_bits = int(largest(tensor.dtype)).bit_length(), int(largest(dtype)).bit_length()
    if tensor.dtype == torch.bool:
        return tensor.to(dtype) * int(largest(dtype))
    if new_bits >= old_bits:
        wide = tensor.to(torch.int64) << (new_bits - old_bits)
        return wide.to(dtype)
    return (tensor.to(torch.int64) >> (old_bits - new_bits)).to(dtype)
