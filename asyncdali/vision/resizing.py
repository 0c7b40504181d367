"""Resizing.

PIL pictures of mode L and RGB are resized by asyncdali's operator `resize`, which takes a third of PIL's time for a photograph. Tensors are
resized by torch, which took 500 us for a photograph of three planes where the operator took 700. PIL itself does what torchvision's results
need PIL for: NEAREST, alpha (PIL multiplies by alpha first), and other modes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch

from .. import dynamic as ndd
from .. import types
from .arguments import resize_size
from .boxes import scaled
from .enums import PIL_CODES, InterpolationMode, resizing_mode
from .families import CanvasFrame, family, kernel
from .kinds import PIXELS, InputKind

_FILTERS = {
    InterpolationMode.BILINEAR: types.INTERP_LINEAR, InterpolationMode.BICUBIC: types.INTERP_CUBIC,
    InterpolationMode.LANCZOS: types.INTERP_LANCZOS3,
}  # fmt: skip
_resize: Callable[..., Any] = ndd.resize
_OWN_TYPES = (torch.uint8, torch.int16, torch.uint16, torch.float32)
"""Element types of the operator. Others are resized as float32."""


def resized_size(size: object, max_size: object, height: int, width: int) -> tuple[int, int]:
    """Height and width of the result of a resize."""
    first, second, longest = resize_size(size, max_size)
    if first is not None and second is not None:
        return first, second
    short, long = (height, width) if height <= width else (width, height)
    if first is None:
        assert longest is not None
        new_short, new_long = int(longest * short / long), longest
    else:
        new_short, new_long = first, int(first * long / short)
        if longest is not None and new_long > longest:
            new_short, new_long = int(longest * new_short / new_long), longest
    return (new_short, new_long) if height <= width else (new_long, new_short)


def as_array(made: Any) -> np.ndarray:
    """The values of a Tensor. ``numpy.asarray`` tries three other protocols first, which takes 4 us."""
    values: np.ndarray = made.__array__()
    return values


def own_pixels(picture: PIL.Image.Image) -> np.ndarray:
    """The pixels of a picture of mode L or RGB [height, width, channels], writable, so that a call takes them without another copy."""
    return np.frombuffer(bytearray(picture.tobytes()), np.uint8).reshape(picture.height, picture.width, -1)


def filtered(pixels: np.ndarray, height: int, width: int, mode: InterpolationMode, antialias: bool) -> np.ndarray:
    """Pixels [height, width, channels], or samples of these, resized by the operator."""
    size = np.array([height, width], np.float32)
    if pixels.ndim == 3:
        return as_array(_resize(pixels, size=size, interp_type=_FILTERS[mode], antialias=antialias))
    made = _resize(ndd.as_batch(pixels), size=size, interp_type=_FILTERS[mode], antialias=antialias)
    return np.asarray(ndd.as_tensor(made))


def corner_indices(new: int, old: int, device: torch.device) -> torch.Tensor:
    """The pixel that NEAREST takes for each pixel of the result: the one at the corner."""
    scale = torch.tensor(old / new, dtype=torch.float32)
    return (torch.arange(new, dtype=torch.float32) * scale).floor().long().clamp_(max=old - 1).to(device)


def as_type(made: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Computed float32 values in an element type: integers are rounded and clamped."""
    if made.dtype == dtype or dtype.is_floating_point:
        return made.to(dtype)
    if dtype == torch.bool:
        return made.round() != 0
    limits = torch.iinfo(dtype)
    return made.round().clamp(limits.min, limits.max).to(dtype)


def resized_tensor(tensor: torch.Tensor, height: int, width: int, mode: InterpolationMode, antialias: bool) -> torch.Tensor:
    """A tensor [..., channels, height, width] in another size."""
    old_height, old_width = tensor.shape[-2:]
    if (old_height, old_width) == (height, width):
        return tensor
    shape = (*tensor.shape[:-2], height, width)
    if 0 in shape or 0 in tensor.shape:
        if 0 in tensor.shape[-2:]:
            raise ValueError(f"a picture without pixels cannot be resized: its shape is {tuple(tensor.shape)}")
        return tensor.new_empty(shape)
    if mode is InterpolationMode.NEAREST:
        rows = corner_indices(height, old_height, tensor.device)
        columns = corner_indices(width, old_width, tensor.device)
        return tensor.index_select(-2, rows).index_select(-1, columns)
    samples = tensor.reshape(-1, *tensor.shape[-3:])
    if mode is InterpolationMode.LANCZOS:
        return _by_lanczos(samples, height, width, antialias).reshape(shape)
    direct = tensor.dtype in (torch.float32, torch.float64) or (tensor.dtype == torch.uint8 and not tensor.is_cuda)
    values = samples if direct else samples.float()
    name = "bicubic" if mode is InterpolationMode.BICUBIC else "bilinear"
    made = torch.nn.functional.interpolate(values, [height, width], mode=name, antialias=antialias, align_corners=False)
    return as_type(made, tensor.dtype).reshape(shape)


def _by_lanczos(samples: torch.Tensor, height: int, width: int, antialias: bool) -> torch.Tensor:
    """Samples [samples, channels, height, width] by asyncdali's operator: torch has no such filter."""
    if samples.is_cuda:
        raise NotImplementedError("LANCZOS resizes PIL pictures and tensors on the CPU")
    if samples.dtype not in _OWN_TYPES:
        return as_type(_by_lanczos(samples.float(), height, width, antialias), samples.dtype)
    planes = samples.reshape(-1, *samples.shape[-2:], 1).contiguous()
    return torch.from_numpy(filtered(planes.numpy(), height, width, InterpolationMode.LANCZOS, antialias))


def resized_picture(picture: PIL.Image.Image, height: int, width: int, mode: InterpolationMode, antialias: bool) -> PIL.Image.Image:
    """A PIL picture in another size."""
    if picture.size == (width, height):
        return picture
    if mode is InterpolationMode.NEAREST or picture.mode not in ("L", "RGB"):
        return picture.resize((width, height), PIL_CODES[mode])
    made = filtered(own_pixels(picture), height, width, mode, antialias)
    return PIL.Image.frombytes(picture.mode, (width, height), made)


class WindowedResize:
    """A resize of PIL pictures of mode L or RGB of which only a window in the middle is computed.

    Args:
        size: size and max_size of the resize.
        window: height and width of the window.
        mode: the interpolation.
        antialias: whether shrinking averages all pixels.
    """

    def __init__(self, size: tuple[object, object], window: tuple[int, int], mode: InterpolationMode, antialias: bool):
        self._size, self._window = size, window
        self._arguments = {"size": list(window), "interp_type": _FILTERS[mode], "antialias": antialias}
        self.region = functools.lru_cache(64)(self._region)

    def _region(self, height: int, width: int) -> tuple[object, object] | None:
        """Where the window lies in a picture of a size; None: the whole cannot be done in one step."""
        size = resized_size(*self._size, height, width)
        if size == (height, width) or self._window[0] > size[0] or self._window[1] > size[1]:
            return None
        scale = np.array([height / size[0], width / size[1]])
        start = np.array(centred(size, self._window))
        return ndd.as_tensor((start * scale).astype(np.float32)), ndd.as_tensor(((start + self._window) * scale).astype(np.float32))

    def __call__(self, picture: PIL.Image.Image, region: tuple[object, object]) -> PIL.Image.Image:
        """The window, for the region of a picture's size."""
        made = _resize(own_pixels(picture), roi_start=region[0], roi_end=region[1], **self._arguments)
        return PIL.Image.frombytes(picture.mode, (self._window[1], self._window[0]), as_array(made))


def centred(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """Top and left of a window in the middle. A larger window has the odd pixel of its margin at the bottom and right, as torchvision."""
    top, left = (
        -((wanted - extent) // 2) if wanted > extent else round((extent - wanted) / 2.0) for extent, wanted in zip(old, new, strict=True)
    )
    return top, left


@family
def resize(
    inpt: object, size: int | Sequence[int] | None, interpolation: object = InterpolationMode.BILINEAR, max_size: int | None = None,
    antialias: bool | None = True, device: object = "cpu",
) -> object:  # fmt: skip
    """Change the size of pictures, masks, boxes, key points and videos.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        size: (height, width); or the size of the shorter edge; or None with `max_size`, the size of the longer edge.
        interpolation: NEAREST, BILINEAR, BICUBIC or LANCZOS. Masks are always resized with NEAREST.
        max_size: the longer edge is at most so long; only with the size of the shorter edge.
        antialias: whether shrinking averages all pixels.
        device: where the work is done: "cpu" or "gpu".

    Returns:
        The same kind of input in the new size.

    Raises:
        ValueError: for sizes that are not positive integers.
        NotImplementedError: for other interpolations.
    """
    raise NotImplementedError


@kernel(resize, InputKind.PICTURE)
def _resize_picture(
    picture: PIL.Image.Image, size: object, interpolation: object = InterpolationMode.BILINEAR, max_size: object = None,
    antialias: object = True,
) -> PIL.Image.Image:  # fmt: skip
    height, width = resized_size(size, max_size, picture.height, picture.width)
    return resized_picture(picture, height, width, resizing_mode(interpolation), bool(antialias))


@kernel(resize, *PIXELS)
def _resize_tensor(
    tensor: torch.Tensor, size: object, interpolation: object = InterpolationMode.BILINEAR, max_size: object = None,
    antialias: object = True,
) -> torch.Tensor:  # fmt: skip
    height, width = resized_size(size, max_size, tensor.shape[-2], tensor.shape[-1])
    return resized_tensor(tensor, height, width, resizing_mode(interpolation), bool(antialias))


@kernel(resize, InputKind.MASK)
def _resize_mask(
    mask: torch.Tensor, size: object, interpolation: object = None, max_size: object = None, antialias: object = None
) -> torch.Tensor:
    height, width = resized_size(size, max_size, mask.shape[-2], mask.shape[-1])
    return resized_tensor(mask, height, width, InterpolationMode.NEAREST, False)


@kernel(resize, InputKind.BOXES, InputKind.POINTS)
def _resize_frame(
    values: torch.Tensor, frame: CanvasFrame, size: object, interpolation: object = None, max_size: object = None, antialias: object = None
) -> tuple[torch.Tensor, tuple[int, int]]:
    height, width = resized_size(size, max_size, *frame.canvas)
    return scaled(values, frame, height / frame.canvas[0], width / frame.canvas[1], (height, width)), (height, width)
