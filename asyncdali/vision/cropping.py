"""Flips, crops, pads, erasing: pixels are moved, and never computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch

from .arguments import ChannelsError, crop_size, fill_values, padding_mode, paddings, result_size, whole
from .boxes import moved_frame, scaled, shifted
from .enums import InterpolationMode, resizing_mode
from .families import CanvasFrame, family, kernel
from .kinds import PIXELS, RASTERS, InputKind, levels_of, moved, picture_like, picture_of, pixels_of
from .resizing import centred, resized_picture, resized_tensor

_FRAMES = (InputKind.BOXES, InputKind.POINTS)
FLIP_LEFT_RIGHT = PIL.Image.Transpose.FLIP_LEFT_RIGHT
FLIP_TOP_BOTTOM = PIL.Image.Transpose.FLIP_TOP_BOTTOM

# ---------------------------------------------------------------------------------------------------------------- flips


@family
def horizontal_flip(inpt: object, device: object = "cpu") -> object:
    """Exchange left and right."""
    raise NotImplementedError


@family
def vertical_flip(inpt: object, device: object = "cpu") -> object:
    """Exchange top and bottom."""
    raise NotImplementedError


@kernel(horizontal_flip, InputKind.PICTURE)
def _flip_picture(picture: PIL.Image.Image) -> PIL.Image.Image:
    return picture.transpose(FLIP_LEFT_RIGHT)


@kernel(vertical_flip, InputKind.PICTURE)
def _flip_picture_vertically(picture: PIL.Image.Image) -> PIL.Image.Image:
    return picture.transpose(FLIP_TOP_BOTTOM)


@kernel(horizontal_flip, *RASTERS)
def _flip_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return moved(tensor, lambda part: part.flip(-1))


@kernel(vertical_flip, *RASTERS)
def _flip_tensor_vertically(tensor: torch.Tensor) -> torch.Tensor:
    return moved(tensor, lambda part: part.flip(-2))


def _mirrored(values: torch.Tensor, frame: CanvasFrame, axis: int) -> torch.Tensor:
    extent = frame.canvas[1 - axis]

    def move(points: torch.Tensor) -> torch.Tensor:
        made = points.clone()
        made[..., axis] = (extent if frame.format is not None else extent - 1) - made[..., axis]
        return made

    return moved_frame(values, frame, frame.canvas, move, flips=True, clamps=False)


@kernel(horizontal_flip, *_FRAMES)
def _flip_frame(values: torch.Tensor, frame: CanvasFrame) -> torch.Tensor:
    return _mirrored(values, frame, 0)


@kernel(vertical_flip, *_FRAMES)
def _flip_frame_vertically(values: torch.Tensor, frame: CanvasFrame) -> torch.Tensor:
    return _mirrored(values, frame, 1)


# ---------------------------------------------------------------------------------------------------------------- pads


def reflected(before: int, size: int, after: int, mode: str) -> np.ndarray:
    """The source index of each pixel along a padded axis. Reflections repeat if the padding is larger than the picture."""
    index = np.arange(-before, size + after)
    if mode == "edge" or size == 1:
        return index.clip(0, size - 1)
    if mode == "symmetric":
        index = index % (2 * size)
        return np.where(index < size, index, 2 * size - 1 - index)
    index = index % (2 * size - 2)
    return np.where(index < size, index, 2 * size - 2 - index)


def fill_tensor(fill: object, tensor: torch.Tensor) -> torch.Tensor:
    """Fill values in the type of a tensor: 0-d, or [channels, 1, 1]. ChannelsError for a wrong number of values."""
    checked = 0 if fill is None else fill_values(fill)
    if not isinstance(checked, list):
        return torch.tensor(checked, dtype=tensor.dtype, device=tensor.device)
    if len(checked) not in (1, tensor.shape[-3]):
        raise ChannelsError(f"fill has {len(checked)} values for {tensor.shape[-3]} channels")
    return torch.tensor(checked, device=tensor.device).to(tensor.dtype)[:, None, None]


def padded_tensor(tensor: torch.Tensor, edges: tuple[int, int, int, int], fill: object, mode: str) -> torch.Tensor:
    """A tensor with more pixels at (left, top, right, bottom)."""
    left, top, right, bottom = edges
    height, width = tensor.shape[-2:]
    if mode != "constant":
        if 0 in (height, width):
            raise ValueError(f"a picture without pixels has no {mode} padding: its shape is {tuple(tensor.shape)}")
        rows = torch.from_numpy(reflected(top, height, bottom, mode)).to(tensor.device)
        columns = torch.from_numpy(reflected(left, width, right, mode)).to(tensor.device)
        return tensor.index_select(-2, rows).index_select(-1, columns)
    made = tensor.new_empty((*tensor.shape[:-2], height + top + bottom, width + left + right))
    made[...] = fill_tensor(fill, tensor)
    made[..., top : top + height, left : left + width] = tensor
    return made


def pixel_fill(fill: object, picture: PIL.Image.Image) -> Any:
    """A fill value as PIL takes it: a number for one channel, else a tuple. ChannelsError for a wrong number of values."""
    checked = 0 if fill is None else fill_values(fill)
    bands = len(picture.getbands())
    values = list(checked) if isinstance(checked, list) else [checked]
    if len(values) not in (1, bands):
        raise ChannelsError(f"fill has {len(values)} values for the {bands} channels of a picture of mode {picture.mode}")
    values = values * (bands if len(values) == 1 else 1)
    whole_values = values if picture.mode == "F" else [int(value) for value in values]
    return whole_values[0] if bands == 1 else tuple(whole_values)


def padded_picture(picture: PIL.Image.Image, edges: tuple[int, int, int, int], fill: object, mode: str) -> PIL.Image.Image:
    """A picture with more pixels at (left, top, right, bottom)."""
    left, top, right, bottom = edges
    if mode == "constant":
        color = pixel_fill(fill, picture)
        made = PIL.Image.new(picture.mode, (picture.width + left + right, picture.height + top + bottom), color)
        if picture.mode == "P":
            palette = picture.getpalette()
            if palette is not None:
                made.putpalette(palette)
        made.paste(picture, (left, top))
        return made
    rows = reflected(top, picture.height, bottom, mode)
    columns = reflected(left, picture.width, right, mode)
    return picture_of(np.ascontiguousarray(pixels_of(picture)[rows[:, None], columns[None]]), picture)


@family
def pad(
    inpt: object, padding: int | Sequence[int], fill: float | Sequence[float] | None = 0, padding_mode: str = "constant",
    device: object = "cpu",
) -> object:  # fmt: skip
    """Add pixels at the borders.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        padding: pixels at each border; or (left and right, top and bottom); or (left, top, right, bottom).
        fill: the value of new pixels: a number, or one for each channel.
        padding_mode: "constant", "edge", "reflect" or "symmetric". Reflections repeat if the padding is larger than the picture.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


@kernel(pad, InputKind.PICTURE)
def _pad_picture(picture: PIL.Image.Image, padding: object, fill: object = 0, padding_mode: object = "constant") -> PIL.Image.Image:
    return padded_picture(picture, paddings(padding), fill, _mode(padding_mode))


_mode = padding_mode


@kernel(pad, *PIXELS)
def _pad_tensor(tensor: torch.Tensor, padding: object, fill: object = 0, padding_mode: object = "constant") -> torch.Tensor:
    return padded_tensor(tensor, paddings(padding), fill, _mode(padding_mode))


@kernel(pad, InputKind.MASK)
def _pad_mask(mask: torch.Tensor, padding: object, fill: object = 0, padding_mode: object = "constant") -> torch.Tensor:
    value = fill if fill is None or isinstance(fill, (int, float)) else 0
    return padded_tensor(mask, paddings(padding), value, _mode(padding_mode))


@kernel(pad, *_FRAMES)
def _pad_frame(
    values: torch.Tensor, frame: CanvasFrame, padding: object, fill: object = 0, padding_mode: object = "constant"
) -> tuple[torch.Tensor, tuple[int, int]]:
    if _mode(padding_mode) not in ("constant",):
        raise ValueError(f"padding_mode {padding_mode!r} is not possible for boxes and key points: objects would be repeated")
    left, top, right, bottom = paddings(padding)
    canvas = frame.canvas[0] + top + bottom, frame.canvas[1] + left + right
    return shifted(values, frame, -left, -top, canvas), canvas


# --------------------------------------------------------------------------------------------------------------- crops


def cropped_tensor(tensor: torch.Tensor, top: int, left: int, height: int, width: int) -> torch.Tensor:
    """A window of a tensor. What lies outside is 0."""
    old_height, old_width = tensor.shape[-2:]
    if top >= 0 and left >= 0 and top + height <= old_height and left + width <= old_width:
        return tensor[..., top : top + height, left : left + width]
    made = tensor.new_zeros((*tensor.shape[:-2], height, width))
    first, last = max(top, 0), min(top + height, old_height)
    begin, end = max(left, 0), min(left + width, old_width)
    if first < last and begin < end:
        made[..., first - top : last - top, begin - left : end - left] = tensor[..., first:last, begin:end]
    return made


def window(top: object, left: object, height: object, width: object) -> tuple[int, int, int, int]:
    """The numbers of a window. TypeError if one is no integer, ValueError if it has no pixels."""
    made = whole(top, "top"), whole(left, "left"), whole(height, "height"), whole(width, "width")
    if made[2] <= 0 or made[3] <= 0:
        raise ValueError(f"height and width must be positive, got {made[2:]}")
    return made


def cropped_picture(picture: PIL.Image.Image, top: int, left: int, height: int, width: int) -> PIL.Image.Image:
    """A window of a picture. What lies outside is 0."""
    return picture.crop((left, top, left + width, top + height))


@family
def crop(inpt: object, top: int, left: int, height: int, width: int, device: object = "cpu") -> object:
    """Cut a window out. Pixels outside the picture are 0.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        top: the first row; it may be negative.
        left: the first column; it may be negative.
        height: rows.
        width: columns.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


@kernel(crop, InputKind.PICTURE)
def _crop_picture(picture: PIL.Image.Image, top: object, left: object, height: object, width: object) -> PIL.Image.Image:
    return cropped_picture(picture, *window(top, left, height, width))


@kernel(crop, *RASTERS)
def _crop_tensor(tensor: torch.Tensor, top: object, left: object, height: object, width: object) -> torch.Tensor:
    return cropped_tensor(tensor, *window(top, left, height, width))


@kernel(crop, *_FRAMES)
def _crop_frame(
    values: torch.Tensor, frame: CanvasFrame, top: object, left: object, height: object, width: object
) -> tuple[torch.Tensor, tuple[int, int]]:
    y, x, rows, columns = window(top, left, height, width)
    return shifted(values, frame, x, y, (rows, columns)), (rows, columns)


@family
def center_crop(inpt: object, output_size: int | Sequence[int], device: object = "cpu") -> object:
    """Cut a window out of the middle. Where the picture is smaller, pixels of value 0 are added.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        output_size: (height, width), or one number for both.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


@kernel(center_crop, InputKind.PICTURE)
def _center_picture(picture: PIL.Image.Image, output_size: object) -> PIL.Image.Image:
    size = crop_size(output_size)
    return cropped_picture(picture, *centred((picture.height, picture.width), size), *size)


@kernel(center_crop, *RASTERS)
def _center_tensor(tensor: torch.Tensor, output_size: object) -> torch.Tensor:
    size = crop_size(output_size)
    return cropped_tensor(tensor, *centred((tensor.shape[-2], tensor.shape[-1]), size), *size)


@kernel(center_crop, *_FRAMES)
def _center_frame(values: torch.Tensor, frame: CanvasFrame, output_size: object) -> tuple[torch.Tensor, tuple[int, int]]:
    size = crop_size(output_size)
    top, left = centred(frame.canvas, size)
    return shifted(values, frame, left, top, size), size


@family
def resized_crop(
    inpt: object, top: int, left: int, height: int, width: int, size: int | Sequence[int],
    interpolation: object = InterpolationMode.BILINEAR, antialias: bool | None = True, device: object = "cpu",
) -> object:  # fmt: skip
    """Cut a window out and resize it.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        top: the first row.
        left: the first column.
        height: rows.
        width: columns.
        size: (height, width) of the result, or one number: both for plain numbers, the shorter edge in a sequence.
        interpolation: see `resize`.
        antialias: see `resize`.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


@kernel(resized_crop, InputKind.PICTURE)
def _resized_crop_picture(
    picture: PIL.Image.Image, top: object, left: object, height: object, width: object, size: object,
    interpolation: object = InterpolationMode.BILINEAR, antialias: object = True,
) -> PIL.Image.Image:  # fmt: skip
    part = cropped_picture(picture, *window(top, left, height, width))
    return resized_picture(part, *result_size(size), resizing_mode(interpolation), bool(antialias))


@kernel(resized_crop, *PIXELS)
def _resized_crop_tensor(
    tensor: torch.Tensor, top: object, left: object, height: object, width: object, size: object,
    interpolation: object = InterpolationMode.BILINEAR, antialias: object = True,
) -> torch.Tensor:  # fmt: skip
    part = cropped_tensor(tensor, *window(top, left, height, width))
    return resized_tensor(part, *result_size(size), resizing_mode(interpolation), bool(antialias))


@kernel(resized_crop, InputKind.MASK)
def _resized_crop_mask(
    mask: torch.Tensor, top: object, left: object, height: object, width: object, size: object, interpolation: object = None,
    antialias: object = None,
) -> torch.Tensor:  # fmt: skip
    part = cropped_tensor(mask, *window(top, left, height, width))
    return resized_tensor(part, *result_size(size), InterpolationMode.NEAREST, False)


@kernel(resized_crop, *_FRAMES)
def _resized_crop_frame(
    values: torch.Tensor, frame: CanvasFrame, top: object, left: object, height: object, width: object, size: object,
    interpolation: object = None, antialias: object = None,
) -> tuple[torch.Tensor, tuple[int, int]]:  # fmt: skip
    y, x, rows, columns = window(top, left, height, width)
    new_rows, new_columns = result_size(size)
    part = CanvasFrame((rows, columns), frame.format, frame.clamping)
    inside = shifted(values, frame, x, y, (rows, columns))
    return scaled(inside, part, new_rows / rows, new_columns / columns, (new_rows, new_columns)), (new_rows, new_columns)


def five_windows(height: int, width: int, size: tuple[int, int]) -> list[tuple[int, int]]:
    """Top and left of the four corners and the centre. ValueError if the picture is smaller than a window."""
    rows, columns = size
    if rows > height or columns > width:
        raise ValueError(f"a crop of {size} is larger than the picture of {(height, width)}")
    return [(0, 0), (0, width - columns), (height - rows, 0), (height - rows, width - columns), centred((height, width), size)]


@family
def five_crop(inpt: object, size: int | Sequence[int], device: object = "cpu") -> object:
    """The windows at the four corners (top left, top right, bottom left, bottom right) and in the middle, as a tuple."""
    raise NotImplementedError


@family
def ten_crop(inpt: object, size: int | Sequence[int], vertical_flip: bool = False, device: object = "cpu") -> object:
    """The five windows of `five_crop`, and those of the picture that is flipped from left to right (or `vertical_flip`)."""
    raise NotImplementedError


@kernel(five_crop, InputKind.PICTURE)
def _five_picture(picture: PIL.Image.Image, size: object) -> tuple[PIL.Image.Image, ...]:
    wanted = crop_size(size)
    return tuple(cropped_picture(picture, *at, *wanted) for at in five_windows(picture.height, picture.width, wanted))


@kernel(five_crop, *PIXELS)
def _five_tensor(tensor: torch.Tensor, size: object) -> tuple[torch.Tensor, ...]:
    wanted = crop_size(size)
    return tuple(cropped_tensor(tensor, *at, *wanted) for at in five_windows(tensor.shape[-2], tensor.shape[-1], wanted))


@kernel(ten_crop, InputKind.PICTURE)
def _ten_picture(picture: PIL.Image.Image, size: object, vertical_flip: bool = False) -> tuple[PIL.Image.Image, ...]:
    flipped = picture.transpose(FLIP_TOP_BOTTOM if vertical_flip else FLIP_LEFT_RIGHT)
    return _five_picture(picture, size) + _five_picture(flipped, size)


@kernel(ten_crop, *PIXELS)
def _ten_tensor(tensor: torch.Tensor, size: object, vertical_flip: bool = False) -> tuple[torch.Tensor, ...]:
    return _five_tensor(tensor, size) + _five_tensor(moved(tensor, lambda part: part.flip(-2 if vertical_flip else -1)), size)


# -------------------------------------------------------------------------------------------------------------- erasing


@family
def erase(inpt: object, i: int, j: int, h: int, w: int, v: torch.Tensor, inplace: bool = False, device: object = "cpu") -> object:
    """Write values into a window.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        i: the first row.
        j: the first column.
        h: rows.
        w: columns.
        v: the values, which broadcast to [channels, h, w].
        inplace: whether a tensor is changed itself.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


@kernel(erase, *PIXELS)
def _erase_tensor(tensor: torch.Tensor, i: int, j: int, h: int, w: int, v: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    made = tensor if inplace else tensor.clone()
    made[..., i : i + h, j : j + w] = v
    return made


@kernel(erase, InputKind.PICTURE)
def _erase_picture(picture: PIL.Image.Image, i: int, j: int, h: int, w: int, v: torch.Tensor, inplace: bool = False) -> PIL.Image.Image:
    return picture_like(_erase_tensor(levels_of(picture), i, j, h, w, v, True), picture)

