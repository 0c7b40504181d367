"""Blur, noise and JPEG artefacts."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch

from .. import dynamic as ndd
from . import draws
from .arguments import is_integer, kernel_sizes, sigma_values
from .families import family, kernel
from .kinds import PIXELS, InputKind, levels_of, picture_like, tensor_of
from .resizing import as_type

_gaussian_blur: Callable[..., Any] = ndd.gaussian_blur
_OWN_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.float32)
"""Element types that are blurred as they are. Others are blurred as float32."""


def channels_last(samples: torch.Tensor) -> torch.Tensor:
    """Samples [samples, channels, height, width] as [samples, height, width, channels]. Stacking takes half the time of a permuted copy."""
    return torch.stack(samples.unbind(1), -1)


@family
def gaussian_blur(
    inpt: object, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None, device: object = "cpu"
) -> object:
    """Blur with a Gaussian window. The picture is reflected at its borders.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        kernel_size: the odd size of the window, or (width, height).
        sigma: the standard deviation in pixels, or (x, y); by default 0.15 * size + 0.35.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


def _window(kernel_size: object, sigma: object) -> tuple[tuple[int, int], tuple[float, float]]:
    sizes = kernel_sizes(kernel_size)
    return sizes, (sizes[0] * 0.15 + 0.35, sizes[1] * 0.15 + 0.35) if sigma is None else sigma_values(sigma)


@kernel(gaussian_blur, *PIXELS)
def _blur_tensor(tensor: torch.Tensor, kernel_size: object, sigma: object = None) -> torch.Tensor:
    sizes, deviations = _window(kernel_size, sigma)
    return blurred(tensor, sizes, deviations)


def blurred(tensor: torch.Tensor, sizes: tuple[int, int], deviations: tuple[float, float]) -> torch.Tensor:
    """A tensor blurred with a window of (width, height) and deviations (x, y)."""
    if tensor.numel() == 0:
        return tensor
    if tensor.dtype not in _OWN_TYPES:
        return as_type(blurred(tensor.float(), sizes, deviations), tensor.dtype)
    channels, height, width = tensor.shape[-3:]
    if tensor.is_cuda:
        return as_type(_convolved(tensor.float(), sizes, deviations), tensor.dtype)
    together = channels in (2, 3, 4)
    planes = channels_last(tensor.reshape(-1, channels, height, width)) if together else tensor.reshape(-1, height, width, 1)
    pixels = planes.contiguous().numpy()
    window, spread = np.array(sizes[::-1], np.int32), np.array(deviations[::-1], np.float32)
    if len(pixels) == 1:
        made = np.asarray(_gaussian_blur(ndd.as_tensor(pixels[0], layout="HWC"), window_size=window, sigma=spread))[None]
    else:
        made = np.asarray(ndd.as_tensor(_gaussian_blur(ndd.as_batch(pixels, layout="HWC"), window_size=window, sigma=spread)))
    result = torch.from_numpy(made)
    return (result.permute(0, 3, 1, 2) if together else result).reshape(tensor.shape)


def _convolved(values: torch.Tensor, sizes: tuple[int, int], deviations: tuple[float, float]) -> torch.Tensor:
    height, width = values.shape[-2:]
    planes = values.reshape(-1, 1, height, width)
    windows = []
    for size, deviation in zip(sizes, deviations, strict=True):
        places = torch.arange(size, dtype=torch.float32, device=values.device) - (size - 1) / 2
        window = torch.exp(-0.5 * (places / deviation) ** 2)
        windows.append(window / window.sum())
    x, y = sizes[0] // 2, sizes[1] // 2
    padded = torch.nn.functional.pad(planes, [x, x, y, y], mode="reflect")
    across = torch.nn.functional.conv2d(padded, windows[0].view(1, 1, 1, -1))
    return torch.nn.functional.conv2d(across, windows[1].view(1, 1, -1, 1)).reshape(values.shape)


@kernel(gaussian_blur, InputKind.PICTURE)
def _blur_picture(picture: PIL.Image.Image, kernel_size: object, sigma: object = None) -> PIL.Image.Image:
    sizes, deviations = _window(kernel_size, sigma)
    return picture_like(blurred(levels_of(picture), sizes, deviations), picture)


@family
def gaussian_noise(inpt: object, mean: float = 0.0, sigma: float = 0.1, clip: bool = True, device: object = "cpu") -> object:
    """Add normally distributed noise. `mean` and `sigma` are shares of white; `clip`: values stay between black and white."""
    raise NotImplementedError


@kernel(gaussian_noise, *PIXELS)
def _noise_tensor(tensor: torch.Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> torch.Tensor:
    if not tensor.is_floating_point() and tensor.dtype != torch.uint8:
        raise ValueError(f"gaussian_noise takes floats and uint8, got {tensor.dtype}")
    if sigma < 0:
        raise ValueError(f"sigma cannot be negative, got {sigma!r}")
    kind = torch.float32 if tensor.dtype == torch.uint8 else tensor.dtype
    noise = torch.empty(tensor.shape, dtype=kind, device=tensor.device).normal_(generator=draws.generator())
    if tensor.dtype == torch.uint8:
        made = tensor.to(torch.int16) + ((mean + noise * sigma) * 255).to(torch.int16)
        return made.clamp_(0, 255).to(torch.uint8) if clip else made.to(torch.uint8)
    made = tensor + mean + noise * sigma
    return made.clamp_(0.0, 1.0) if clip else made


@kernel(gaussian_noise, InputKind.PICTURE)
def _noise_picture(picture: PIL.Image.Image, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> PIL.Image.Image:
    return picture_like(_noise_tensor(levels_of(picture), mean, sigma, clip), picture)


@family
def jpeg(inpt: object, quality: int, device: object = "cpu") -> object:
    """Encode as JPEG with a quality from 1 to 100, and decode again."""
    raise NotImplementedError


def _through_jpeg(picture: PIL.Image.Image, quality: object) -> PIL.Image.Image:
    if not is_integer(quality) or not 1 <= quality <= 100:
        raise ValueError(f"quality is an integer from 1 to 100, got {quality!r}")
    memory = io.BytesIO()
    try:
        picture.save(memory, "JPEG", quality=int(quality))
    except OSError as error:
        raise ValueError(f"a picture of mode {picture.mode} cannot be a JPEG file: {error}; convert it to RGB first") from error
    memory.seek(0)
    made = PIL.Image.open(memory, formats=("JPEG",))
    made.load()
    return made


@kernel(jpeg, InputKind.PICTURE)
def _jpeg_picture(picture: PIL.Image.Image, quality: object) -> PIL.Image.Image:
    made = _through_jpeg(picture, quality)
    return PIL.Image.frombytes(made.mode, made.size, made.tobytes())


@kernel(jpeg, *PIXELS)
def _jpeg_tensor(tensor: torch.Tensor, quality: object) -> torch.Tensor:
    channels = tensor.shape[-3]
    if tensor.dtype != torch.uint8 or channels not in (1, 3):
        raise TypeError(f"jpeg takes uint8 tensors of 1 or 3 channels, got {tensor.dtype} and {channels} channels")
    samples = tensor.reshape(-1, *tensor.shape[-3:]).cpu().numpy()
    made = []
    for sample in samples:
        picture = PIL.Image.fromarray(sample[0] if channels == 1 else np.ascontiguousarray(sample.transpose(1, 2, 0)))
        made.append(tensor_of(_through_jpeg(picture, quality)))
    return torch.stack(made).reshape(tensor.shape).to(tensor.device) if made else tensor.clone()
