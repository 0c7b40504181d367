"""Between PIL pictures, arrays and tensors; element types; normalization; sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch

from .arguments import ChannelsError, is_number, is_sequence
from .colors import converted
from .families import FIRST_NAMES, family, kernel
from .kinds import PIXELS, InputKind, described, kind_of, needed_tv_tensors, raw, size_of, tensor_of

# --------------------------------------------------------------------------------------------------------------- sizes


def channels_of(inpt: Any) -> int:
    """Number of channels of a picture or tensor."""
    kind = kind_of(inpt)
    if kind is InputKind.PICTURE:
        return len(inpt.getbands())
    if kind not in PIXELS or inpt.ndim < 2:
        raise TypeError(f"expected a PIL picture or a tensor of two or more dimensions, got {described(inpt)}")
    return 1 if inpt.ndim == 2 else int(inpt.shape[-3])


def get_dimensions(inpt: object) -> list[int]:
    """[channels, height, width] of a picture, tensor, image or video."""
    inpt = _readable(inpt)
    return [channels_of(inpt), *size_of(inpt)]


def get_size(inpt: object) -> list[int]:
    """[height, width] of an input; of boxes and key points that of their canvas."""
    return list(size_of(_readable(inpt)))


def get_image_size(inpt: object) -> list[int]:
    """[width, height] of a picture or tensor."""
    height, width = size_of(_readable(inpt))
    return [width, height]


def get_num_channels(inpt: object) -> int:
    """Number of channels of a picture, tensor, image or video."""
    return channels_of(_readable(inpt))


def get_num_frames(inpt: Any) -> int:
    """Number of frames of a video [..., frames, channels, height, width]."""
    if kind_of(inpt) not in (InputKind.TENSOR, InputKind.VIDEO) or inpt.ndim < 4:
        raise TypeError(f"get_num_frames takes a video [..., frames, channels, height, width], got {described(inpt)}")
    return int(inpt.shape[-4])


def _readable(inpt: Any) -> Any:
    """Tensors of dynamic mode as torch tensors [channels, height, width]; other inputs as they are."""
    layout = getattr(inpt, "layout", None)
    if isinstance(layout, str) and hasattr(inpt, "torch") and kind_of(inpt) is None:
        tensor = inpt.torch()
        if layout.endswith("HWC"):
            tensor = tensor.movedim(-1, -3)
        return tensor
    return inpt


def is_pure_tensor(inpt: object) -> bool:
    """Whether a value is a tensor of torch without a class of torchvision."""
    return kind_of(inpt) is InputKind.TENSOR


# ---------------------------------------------------------------------------------------------------------- to tensors


def pil_to_tensor(inpt: object = None, **named: object) -> torch.Tensor:
    """The pixels of a PIL picture as a tensor [channels, height, width], values and element type as they are.

    Raises:
        TypeError: if the input is no PIL picture.
    """
    picture = _input(inpt, named, "pil_to_tensor")
    if kind_of(picture) is not InputKind.PICTURE:
        raise TypeError(f"pil_to_tensor takes a PIL picture, got {described(picture)}")
    return tensor_of(picture)


def to_tensor(inpt: object = None, **named: object) -> torch.Tensor:
    """A PIL picture or an array [height, width, channels] as a tensor [channels, height, width]; bytes become floats from 0 to 1.

    Raises:
        TypeError: if the input is neither.
        ValueError: if an array has other than two or three dimensions.
    """
    value = _input(inpt, named, "to_tensor")
    if isinstance(value, np.ndarray):
        if value.ndim not in (2, 3):
            raise ValueError(f"to_tensor takes arrays of two or three dimensions, got shape {value.shape}")
        pixels = value[..., None] if value.ndim == 2 else value
        made = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
        return made.to(torch.get_default_dtype()) / 255 if made.dtype == torch.uint8 else made
    if kind_of(value) is not InputKind.PICTURE:
        raise TypeError(f"to_tensor takes a PIL picture or an array, got {described(value)}")
    made = tensor_of(value)
    if value.mode.startswith("I;16"):
        return made.to(torch.int16)
    if value.mode == "1":
        return made.to(torch.get_default_dtype())
    return made.to(torch.get_default_dtype()) / 255 if made.dtype == torch.uint8 else made


def to_image(inpt: object = None, **named: object) -> torch.Tensor:
    """A PIL picture, an array [..., height, width, channels] or a tensor as torchvision's Image [..., channels, height, width].

    Raises:
        ImportError: if torchvision cannot be imported.
    """
    value = _input(inpt, named, "to_image")
    image = needed_tv_tensors("to_image").Image
    if isinstance(value, np.ndarray):
        pixels = np.atleast_3d(value)
        return image(torch.from_numpy(np.ascontiguousarray(np.moveaxis(pixels, -1, -3))))
    kind = kind_of(value)
    if kind is InputKind.PICTURE:
        return image(tensor_of(value))
    if isinstance(value, torch.Tensor):
        return image(raw(value))
    raise TypeError(f"to_image takes a PIL picture, an array or a tensor, got {described(value)}")


def _input(inpt: Any, named: dict[str, Any], name: str) -> Any:
    for key in named:
        if key not in FIRST_NAMES:
            raise TypeError(f"{name} has no argument {key!r}")
        inpt = named[key]
    return inpt


# --------------------------------------------------------------------------------------------------------- to pictures

_MODES = {
    (1, "uint8"): "L", (1, "int16"): "I;16", (1, "uint16"): "I;16", (1, "int32"): "I", (1, "float32"): "F",
    (2, "uint8"): "LA", (3, "uint8"): "RGB", (4, "uint8"): "RGBA",
}  # fmt: skip
_ALLOWED = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV", "LAB"), 4: ("RGBA", "CMYK", "RGBX")}


def to_pil_image(inpt: object = None, mode: str | None = None, input_layout: str = "CHW", **named: object) -> PIL.Image.Image:
    """A tensor or an array as a PIL picture.

    Args:
        inpt: a tensor [channels, height, width] or [height, width], or an array [height, width, channels] or [height, width].
            Floats have values from 0 to 1 and are multiplied by 255, unless `mode` is "F".
        mode: PIL's mode; by default it follows from channels and element type.
        input_layout: "CHW" or "HWC": the axes of a tensor.

    Raises:
        TypeError: for other inputs and element types.
        ValueError: for other shapes, and for modes that do not fit.
    """
    value = _input(inpt, named, "to_pil_image")
    if input_layout not in ("CHW", "HWC"):
        raise ValueError(f"input_layout is 'CHW' or 'HWC', got {input_layout!r}")
    if isinstance(value, torch.Tensor):
        plain = raw(value).cpu()
        pixels = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
        if pixels.ndim == 3 and input_layout == "CHW":
            pixels = pixels.transpose(1, 2, 0)
    elif isinstance(value, np.ndarray):
        pixels = value
    else:
        raise TypeError(f"to_pil_image takes a tensor or an array, got {described(value)}")
    if pixels.ndim not in (2, 3):
        raise ValueError(f"to_pil_image takes tensors and arrays of two or three dimensions, got shape {tuple(value.shape)}")
    if pixels.dtype.kind == "f" and mode != "F":
        pixels = np.multiply(pixels, 255, dtype=np.result_type(pixels, np.float32)).astype(np.uint8)
    elif pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * 255
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    channels = pixels.shape[-1]
    if channels > 4:
        raise ValueError(f"a picture has at most 4 channels, got {channels}")
    if mode == "F" and channels == 1:
        pixels = pixels.astype(np.float32)
    natural = _MODES.get((channels, pixels.dtype.name))
    if natural is None:
        raise TypeError(f"to_pil_image has no mode for {channels} channels of {pixels.dtype}")
    if mode is not None and mode != natural:
        if channels == 1 or mode not in _ALLOWED[channels]:
            allowed = _ALLOWED.get(channels, (natural,))
            raise ValueError(f"mode {mode!r} does not fit {channels} channels of {pixels.dtype}; allowed are {', '.join(allowed)}")
        natural = mode
    dense = np.ascontiguousarray(pixels[..., 0] if channels == 1 else pixels)
    if natural == "I;16":
        dense = dense.astype(np.uint16)
    return PIL.Image.frombytes(natural, (dense.shape[1], dense.shape[0]), dense.tobytes())


# ------------------------------------------------------------------------------------------------------- element types


@family
def to_dtype(inpt: object, dtype: torch.dtype = torch.float32, scale: bool = False, device: object = "cpu") -> object:
    """An input in another element type. `scale`: values of pictures are scaled, so that black and white stay black and white."""
    raise NotImplementedError


@kernel(to_dtype, *PIXELS)
def _pixels_to_dtype(tensor: torch.Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> torch.Tensor:
    return converted(tensor, dtype, scale)


@kernel(to_dtype, InputKind.MASK)
def _mask_to_dtype(tensor: torch.Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> torch.Tensor:
    return tensor.to(dtype)


@kernel(to_dtype, InputKind.BOXES, InputKind.POINTS)
def _frame_to_dtype(tensor: torch.Tensor, frame: object, dtype: torch.dtype = torch.float32, scale: bool = False) -> torch.Tensor:
    return tensor.to(dtype)


def convert_image_dtype(image: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor in another element type, scaled so that black and white stay black and white."""
    return converted(raw(image), dtype, True)


# ------------------------------------------------------------------------------------------------------- normalization


def statistics(values: object, name: str) -> list[float]:
    """Numbers, one for each channel. TypeError if they are no sequence."""
    if isinstance(values, (np.ndarray, torch.Tensor)):
        values = values.tolist()
    if not is_sequence(values) or not all(map(is_number, values)):
        raise TypeError(f"{name} is a sequence of numbers, got {values!r}")
    if not values:
        raise ValueError(f"{name} has no numbers")
    return [float(value) for value in values]


def checked_statistics(mean: object, std: object, inplace: object) -> tuple[list[float], list[float]]:
    """Means and deviations. ValueError for a deviation of 0, NotImplementedError for `inplace`."""
    deviations, means = statistics(std, "std"), statistics(mean, "mean")
    if 0.0 in deviations:
        raise ValueError(f"std cannot be 0, got {std!r}")
    if inplace:
        raise NotImplementedError("inplace=True is not supported: results are new tensors")
    return means, deviations


@family
def normalize(inpt: object, mean: Sequence[float], std: Sequence[float], inplace: bool = False, device: object = "cpu") -> object:
    """Subtract `mean` and divide by `std`: one number for all channels, or one for each.

    Integers give float32. PIL pictures are a TypeError: convert them first.
    """
    raise NotImplementedError


@kernel(normalize, *PIXELS)
def _normalize_tensor(tensor: torch.Tensor, mean: object, std: object, inplace: object = False) -> torch.Tensor:
    means, deviations = checked_statistics(mean, std, inplace)
    return normalized(tensor, means, deviations)


def normalized(tensor: torch.Tensor, means: list[float], deviations: list[float]) -> torch.Tensor:
    """See `normalize`."""
    channels = tensor.shape[-3]
    if len(means) not in (1, channels) or len(deviations) not in (1, channels):
        raise ChannelsError(f"mean and std have {len(means)} and {len(deviations)} values for {channels} channels")
    values = tensor if tensor.is_floating_point() else tensor.float()
    mean = torch.tensor(means, dtype=values.dtype, device=values.device)[:, None, None]
    std = torch.tensor(deviations, dtype=values.dtype, device=values.device)[:, None, None]
    return (values - mean).div_(std)


# -------------------------------------------------------------------------------------------------------------- videos


@family
def uniform_temporal_subsample(inpt: object, num_samples: int, device: object = "cpu") -> object:
    """`num_samples` frames of a video [..., frames, channels, height, width] at equal distances, the first and the last among them."""
    raise NotImplementedError


@kernel(uniform_temporal_subsample, InputKind.TENSOR, InputKind.VIDEO)
def _subsample(video: torch.Tensor, num_samples: int) -> torch.Tensor:
    if video.ndim < 4:
        raise TypeError(f"a video has frames, channels, height and width as its last dimensions, got shape {tuple(video.shape)}")
    last = video.shape[-4] - 1
    indices = torch.linspace(0, last, num_samples, device=video.device).clamp_(0, last).long()
    return video.index_select(-4, indices)
