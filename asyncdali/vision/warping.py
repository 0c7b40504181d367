"""Affine maps, rotations, perspective, elastic distortion. Tensors are sampled by torch's `grid_sample`, PIL pictures by PIL.

Coordinates are continuous: pixel k reaches from k to k + 1. A map takes a place in the result to its source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch

from .arguments import ChannelsError, fill_values, is_number, is_sequence
from .boxes import hull, moved_frame
from .cropping import pixel_fill
from .enums import PIL_CODES, InterpolationMode, interpolation_mode
from .families import CanvasFrame, family, kernel
from .kinds import PIXELS, InputKind, levels_of, moved, picture_like
from .resizing import as_type

_FRAMES = (InputKind.BOXES, InputKind.POINTS)
_SAMPLING = {InterpolationMode.NEAREST: "nearest", InterpolationMode.BILINEAR: "bilinear"}


def affine_matrix(
    centre: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> np.ndarray:
    """The map of a picture that is sheared, scaled, turned by `angle` degrees around a centre and moved: from source to result, 3 x 3.

    The shear along y turns horizontal edges back by its angle; the shear along x slants vertical edges.
    """
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    along = np.array([math.cos(turn - shear_y), math.sin(turn - shear_y)]) / math.cos(shear_y)
    down = np.array([-math.sin(turn), math.cos(turn)]) - along * math.tan(shear_x)
    made = np.eye(3)
    made[:2, :2] = np.stack([along, down], 1) * scale
    made[:2, 2] = np.array(centre) + np.array(translate) - made[:2, :2] @ np.array(centre)
    return made


def sampled(tensor: torch.Tensor, grid: torch.Tensor, mode: InterpolationMode, fill: object) -> torch.Tensor:
    """A tensor [..., channels, height, width] at the places of `grid` [rows, columns, 2], each from -1 to 1.

    Places outside have the value `fill`, and mix with pixels of the border as far as they overlap.
    """
    if mode not in _SAMPLING:
        raise ValueError(f"tensors are sampled with NEAREST or BILINEAR, got {mode.name}; convert the tensor to a PIL picture for BICUBIC")
    channels, height, width = tensor.shape[-3:]
    shape = (*tensor.shape[:-2], *grid.shape[:2])
    if 0 in tensor.shape:
        return tensor.new_empty(shape)
    values = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    planes = values.reshape(-1, channels, height, width)
    checked = None if fill is None else fill_values(fill)
    if checked is not None:
        planes = torch.cat([planes, planes.new_ones((planes.shape[0], 1, height, width))], 1)
    places = grid.to(values.dtype).expand(planes.shape[0], *grid.shape)
    made = torch.nn.functional.grid_sample(planes, places, mode=_SAMPLING[mode], padding_mode="zeros", align_corners=False)
    if checked is not None:
        made, inside = made[:, :-1], made[:, -1:]
        numbers = checked if isinstance(checked, list) else [checked]
        if len(numbers) not in (1, channels):
            raise ChannelsError(f"fill has {len(numbers)} values for {channels} channels")
        filled = torch.tensor(numbers, dtype=values.dtype, device=values.device).view(1, -1, 1, 1)
        if mode is InterpolationMode.NEAREST:
            made = torch.where(inside < 0.5, filled, made)
        else:
            made = made * inside + filled * (1.0 - inside)
    return as_type(made, tensor.dtype).reshape(shape)


def affine_grid(matrix: np.ndarray, old: tuple[int, int], new: tuple[int, int], device: torch.device) -> torch.Tensor:
    """Sources of all pixels of the result. `matrix`: from result to source, 2 x 3, both measured from their centres."""
    rows = torch.arange(new[0], dtype=torch.float32, device=device) + (0.5 - new[0] * 0.5)
    columns = torch.arange(new[1], dtype=torch.float32, device=device) + (0.5 - new[1] * 0.5)
    theta = torch.tensor(matrix, dtype=torch.float32, device=device)
    half = torch.tensor([old[1] * 0.5, old[0] * 0.5], dtype=torch.float32, device=device)
    base = torch.ones((new[0], new[1], 3), dtype=torch.float32, device=device)
    base[..., 0], base[..., 1] = columns, rows[:, None]
    return base.view(-1, 3).matmul((theta / half[:, None]).T).view(new[0], new[1], 2)


def warped_tensor(
    tensor: torch.Tensor, source_to_result: np.ndarray, new: tuple[int, int], mode: InterpolationMode, fill: object
) -> torch.Tensor:
    """A tensor after a map that is measured from the centres of input and result."""
    inverse = np.linalg.inv(source_to_result)[:2]
    grid = affine_grid(inverse, (tensor.shape[-2], tensor.shape[-1]), new, tensor.device)
    return sampled(tensor, grid, mode, fill)


def moved_points(points: torch.Tensor, matrix: np.ndarray) -> torch.Tensor:
    """(x, y) pairs after a map, 3 x 3."""
    theta = torch.tensor(matrix, dtype=torch.float64, device=points.device)
    made = torch.cat([points, torch.ones_like(points[..., :1])], -1) @ theta.T
    return made[..., :2] / made[..., 2:]


# -------------------------------------------------------------------------------------------------------------- affine


def _pair(value: object, name: str) -> list[float]:
    if is_number(value):
        return [float(value), 0.0]
    if not is_sequence(value) or not all(map(is_number, value)):
        raise TypeError(f"{name} is a number or a pair, got {value!r}")
    if len(value) not in (1, 2):
        raise ValueError(f"{name} is a number or a pair, got {value!r}")
    return [float(value[0]), float(value[-1])]


def _affine_arguments(
    angle: object, translate: object, scale: object, shear: object, centre: object
) -> tuple[float, list[float], float, list[float]]:
    if not is_number(angle):
        raise TypeError(f"angle is a number of degrees, got {angle!r}")
    if not is_sequence(translate) or not all(map(is_number, translate)):
        raise TypeError(f"translate is a pair (x, y) of pixels, got {translate!r}")
    if len(translate) != 2:
        raise ValueError(f"translate is a pair (x, y) of pixels, got {translate!r}")
    if not is_number(scale) or scale <= 0:
        raise ValueError(f"scale is a positive number, got {scale!r}")
    _check_centre(centre)
    return float(angle), [float(value) for value in translate], float(scale), _pair(shear, "shear")


def _check_centre(centre: object) -> None:
    if centre is None:
        return
    if not is_sequence(centre) or not all(map(is_number, centre)):
        raise TypeError(f"center is a pair (x, y), got {centre!r}")
    if len(centre) != 2:
        raise ValueError(f"center is a pair (x, y), got {centre!r}")


def _from_centre(centre: Any, size: tuple[int, int]) -> tuple[float, float]:
    """A centre of rotation, measured from the centre of the picture."""
    return (0.0, 0.0) if centre is None else (centre[0] - size[1] * 0.5, centre[1] - size[0] * 0.5)


def _absolute(centre: Any, size: tuple[int, int]) -> tuple[float, float]:
    return (size[1] * 0.5, size[0] * 0.5) if centre is None else (float(centre[0]), float(centre[1]))


@family
def affine(
    inpt: object, angle: float, translate: list[float], scale: float, shear: list[float],
    interpolation: object = InterpolationMode.NEAREST, fill: object = None, center: list[float] | None = None, device: object = "cpu",
) -> object:  # fmt: skip
    """Turn, move, scale and shear around a centre; the size stays.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        angle: degrees, clockwise.
        translate: (x, y) in pixels.
        scale: a positive factor.
        shear: degrees along x and y, or along x only.
        interpolation: NEAREST or BILINEAR; BICUBIC too for PIL pictures. Masks are always sampled with NEAREST.
        fill: the value of pixels outside: a number, or one for each channel.
        center: (x, y) in pixels; by default the middle.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


@kernel(affine, InputKind.PICTURE)
def _affine_picture(
    picture: PIL.Image.Image, angle: object, translate: object, scale: object, shear: object,
    interpolation: object = InterpolationMode.NEAREST, fill: object = None, center: object = None,
) -> PIL.Image.Image:  # fmt: skip
    turn, move, factor, slant = _affine_arguments(angle, translate, scale, shear, center)
    size = (picture.height, picture.width)
    inverse = np.linalg.inv(affine_matrix(_absolute(center, size), turn, move, factor, slant))
    return _transformed(picture, PIL.Image.Transform.AFFINE, inverse[:2].ravel().tolist(), interpolation, fill)


def _transformed(
    picture: PIL.Image.Image, kind: Any, coefficients: Sequence[float], interpolation: object, fill: object
) -> PIL.Image.Image:
    code: Any = PIL_CODES[interpolation_mode(interpolation)]
    return picture.transform(picture.size, kind, coefficients, code, fillcolor=pixel_fill(fill, picture))


@kernel(affine, *PIXELS)
def _affine_tensor(
    tensor: torch.Tensor, angle: object, translate: object, scale: object, shear: object,
    interpolation: object = InterpolationMode.NEAREST, fill: object = None, center: object = None,
) -> torch.Tensor:  # fmt: skip
    turn, move, factor, slant = _affine_arguments(angle, translate, scale, shear, center)
    size = (tensor.shape[-2], tensor.shape[-1])
    matrix = affine_matrix(_from_centre(center, size), turn, move, factor, slant)
    return warped_tensor(tensor, matrix, size, interpolation_mode(interpolation), fill)


@kernel(affine, InputKind.MASK)
def _affine_mask(
    mask: torch.Tensor, angle: object, translate: object, scale: object, shear: object, interpolation: object = None, fill: object = None,
    center: object = None,
) -> torch.Tensor:  # fmt: skip
    return _as_picture(mask, lambda part: _affine_tensor(part, angle, translate, scale, shear, InterpolationMode.NEAREST, fill, center))


def _as_picture(mask: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A mask [..., height, width] changed as a picture. Masks of several objects are its channels, for a fill value of each."""
    return change(mask) if mask.ndim > 2 else change(mask[None])[0]


@kernel(affine, *_FRAMES)
def _affine_frame(
    values: torch.Tensor, frame: CanvasFrame, angle: object, translate: object, scale: object, shear: object, interpolation: object = None,
    fill: object = None, center: object = None,
) -> tuple[torch.Tensor, tuple[int, int]]:  # fmt: skip
    turn, move, factor, slant = _affine_arguments(angle, translate, scale, shear, center)
    matrix = affine_matrix(_absolute(center, frame.canvas), turn, move, factor, slant)
    return hull(values, frame, frame.canvas, lambda points: moved_points(points, matrix)), frame.canvas


# -------------------------------------------------------------------------------------------------------------- rotate


@family
def rotate(
    inpt: object, angle: float, interpolation: object = InterpolationMode.NEAREST, expand: bool = False,
    center: list[float] | None = None, fill: object = None, device: object = "cpu",
) -> object:  # fmt: skip
    """Turn counter-clockwise by `angle` degrees.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        angle: degrees, counter-clockwise.
        interpolation: NEAREST or BILINEAR; BICUBIC too for PIL pictures. Masks are always sampled with NEAREST.
        expand: whether the result is so large that it holds the whole picture.
        center: (x, y) in pixels; by default the middle.
        fill: the value of pixels outside: a number, or one for each channel.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


def _turned(angle: object, centre: object) -> float:
    if not is_number(angle):
        raise TypeError(f"angle is a number of degrees, got {angle!r}")
    _check_centre(centre)
    return float(angle) % 360.0


def _expanded(turn: float, size: tuple[int, int]) -> tuple[int, int]:
    """Height and width of a picture that holds the whole of another one that is turned."""
    height, width = size
    if turn % 90 == 0:
        return (height, width) if turn % 180 == 0 else (width, height)
    matrix = affine_matrix((0.0, 0.0), -turn, [0.0, 0.0], 1.0, [0.0, 0.0])
    half = np.array([[-width, -height, 2], [-width, height, 2], [width, height, 2], [width, -height, 2]]) * 0.5
    places = (half @ matrix.T)[:, :2] + half[2, :2]
    low = np.floor(np.trunc(places.min(0) / 1e-4) * 1e-4)
    high = np.ceil(np.trunc(places.max(0) / 1e-4) * 1e-4)
    return int(high[1] - low[1]), int(high[0] - low[0])


@kernel(rotate, InputKind.PICTURE)
def _rotate_picture(
    picture: PIL.Image.Image, angle: object, interpolation: object = InterpolationMode.NEAREST, expand: bool = False,
    center: Any = None, fill: object = None,
) -> PIL.Image.Image:  # fmt: skip
    code: Any = PIL_CODES[interpolation_mode(interpolation)]
    turn = _turned(angle, center)
    return picture.rotate(turn, code, bool(expand), None if center is None else tuple(center), fillcolor=pixel_fill(fill, picture))


@kernel(rotate, *PIXELS)
def _rotate_tensor(
    tensor: torch.Tensor, angle: object, interpolation: object = InterpolationMode.NEAREST, expand: bool = False, center: object = None,
    fill: object = None,
) -> torch.Tensor:  # fmt: skip
    turn = _turned(angle, center)
    size = (tensor.shape[-2], tensor.shape[-1])
    mode = interpolation_mode(interpolation)
    if (turn % 90 == 0 and expand) or (turn % 180 == 0 and center is None):
        return moved(tensor, lambda part: torch.rot90(part, int(turn) // 90, (-2, -1)))
    matrix = affine_matrix((0.0, 0.0) if expand else _from_centre(center, size), -turn, [0.0, 0.0], 1.0, [0.0, 0.0])
    new = _expanded(turn, size) if expand else size
    return warped_tensor(tensor, matrix, new, mode, fill)


@kernel(rotate, InputKind.MASK)
def _rotate_mask(
    mask: torch.Tensor, angle: object, interpolation: object = None, expand: bool = False, center: object = None, fill: object = None
) -> torch.Tensor:
    return _as_picture(mask, lambda part: _rotate_tensor(part, angle, InterpolationMode.NEAREST, expand, center, fill))


@kernel(rotate, *_FRAMES)
def _rotate_frame(
    values: torch.Tensor, frame: CanvasFrame, angle: object, interpolation: object = None, expand: bool = False, center: object = None,
    fill: object = None,
) -> tuple[torch.Tensor, tuple[int, int]]:  # fmt: skip
    turn = _turned(angle, center)
    canvas = frame.canvas
    matrix = affine_matrix(_absolute(None if expand else center, canvas), -turn, [0.0, 0.0], 1.0, [0.0, 0.0])
    if expand:
        height, width = _expanded(turn, canvas)
        matrix[:2, 2] += [(width - canvas[1]) * 0.5, (height - canvas[0]) * 0.5]
        canvas = height, width
    return hull(values, frame, canvas, lambda points: moved_points(points, matrix)), canvas


# --------------------------------------------------------------------------------------------------------- perspective


def perspective_matrix(startpoints: object, endpoints: object, coefficients: Any) -> np.ndarray:
    """The map from result to source, 3 x 3, that takes four points of the result to four of the source."""
    if coefficients is not None:
        if startpoints is not None or endpoints is not None:
            raise ValueError("give startpoints and endpoints, or coefficients, not both")
        if len(coefficients) != 8:
            raise ValueError(f"a perspective has 8 coefficients, got {len(coefficients)}")
        return np.array([*coefficients, 1.0], np.float64).reshape(3, 3)
    if startpoints is None or endpoints is None:
        raise ValueError("perspective needs startpoints and endpoints, or coefficients")
    source, result = np.array(startpoints, np.float64), np.array(endpoints, np.float64)
    if source.shape != (4, 2) or result.shape != (4, 2):
        raise ValueError(f"startpoints and endpoints are four pairs (x, y) each, got shapes {source.shape} and {result.shape}")
    rows = []
    for (x, y), (u, v) in zip(result, source, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    solved = np.linalg.lstsq(np.array(rows), source.ravel(), rcond=None)[0]
    return np.array([*solved.astype(np.float32).tolist(), 1.0]).reshape(3, 3)


@family
def perspective(
    inpt: object, startpoints: Sequence[Sequence[int]] | None, endpoints: Sequence[Sequence[int]] | None,
    interpolation: object = InterpolationMode.BILINEAR, fill: object = None, coefficients: Sequence[float] | None = None,
    device: object = "cpu",
) -> object:  # fmt: skip
    """Look at a picture from another place.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        startpoints: four points (x, y) of the input: top left, top right, bottom right, bottom left.
        endpoints: where these points are in the result.
        interpolation: NEAREST or BILINEAR; BICUBIC too for PIL pictures. Masks are always sampled with NEAREST.
        fill: the value of pixels outside: a number, or one for each channel.
        coefficients: eight numbers of the map from result to input instead of the points.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


@kernel(perspective, InputKind.PICTURE)
def _perspective_picture(
    picture: PIL.Image.Image, startpoints: object, endpoints: object, interpolation: object = InterpolationMode.BILINEAR,
    fill: object = None, coefficients: object = None,
) -> PIL.Image.Image:  # fmt: skip
    matrix = perspective_matrix(startpoints, endpoints, coefficients)
    return _transformed(picture, PIL.Image.Transform.PERSPECTIVE, matrix.ravel()[:8].tolist(), interpolation, fill)


@kernel(perspective, *PIXELS)
def _perspective_tensor(
    tensor: torch.Tensor, startpoints: object, endpoints: object, interpolation: object = InterpolationMode.BILINEAR, fill: object = None,
    coefficients: object = None,
) -> torch.Tensor:  # fmt: skip
    matrix = torch.tensor(perspective_matrix(startpoints, endpoints, coefficients), dtype=torch.float32, device=tensor.device)
    height, width = tensor.shape[-2:]
    places = torch.ones((height, width, 3), dtype=torch.float32, device=tensor.device)
    places[..., 0] = torch.arange(width, device=tensor.device) + 0.5
    places[..., 1] = (torch.arange(height, device=tensor.device) + 0.5)[:, None]
    source = places.view(-1, 3) @ matrix.T
    half = torch.tensor([width * 0.5, height * 0.5], dtype=torch.float32, device=tensor.device)
    grid = (source[:, :2] / source[:, 2:] / half - 1.0).view(height, width, 2)
    return sampled(tensor, grid, interpolation_mode(interpolation), fill)


@kernel(perspective, InputKind.MASK)
def _perspective_mask(
    mask: torch.Tensor, startpoints: object, endpoints: object, interpolation: object = None, fill: object = None,
    coefficients: object = None,
) -> torch.Tensor:  # fmt: skip
    return _as_picture(
        mask, lambda part: _perspective_tensor(part, startpoints, endpoints, InterpolationMode.NEAREST, fill, coefficients)
    )


@kernel(perspective, *_FRAMES)
def _perspective_frame(
    values: torch.Tensor, frame: CanvasFrame, startpoints: object, endpoints: object, interpolation: object = None, fill: object = None,
    coefficients: object = None,
) -> torch.Tensor:  # fmt: skip
    matrix = perspective_matrix(startpoints, endpoints, coefficients)
    try:
        forward = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        raise RuntimeError("the perspective has no inverse, so boxes and key points cannot be moved") from None
    return hull(values, frame, frame.canvas, lambda points: moved_points(points, forward))


# ------------------------------------------------------------------------------------------------------------- elastic


@family
def elastic(
    inpt: object, displacement: torch.Tensor, interpolation: object = InterpolationMode.BILINEAR, fill: object = None,
    device: object = "cpu",
) -> object:  # fmt: skip
    """Move each pixel by a displacement of its own.

    Args:
        inpt: a PIL picture, a tensor [..., channels, height, width], or a tv_tensor.
        displacement: a tensor [1, height, width, 2]: (x, y) in halves of the picture's width and height.
        interpolation: NEAREST or BILINEAR. Masks are always sampled with NEAREST.
        fill: the value of pixels outside: a number, or one for each channel.
        device: where the work is done: "cpu" or "gpu".
    """
    raise NotImplementedError


def _checked_displacement(displacement: object, size: tuple[int, int]) -> torch.Tensor:
    if not isinstance(displacement, torch.Tensor):
        raise TypeError(f"displacement is a tensor, got {displacement!r}")
    if tuple(displacement.shape) != (1, *size, 2):
        raise ValueError(f"displacement has the shape {(1, *size, 2)}, got {tuple(displacement.shape)}")
    return displacement[0]


@kernel(elastic, *PIXELS)
def _elastic_tensor(
    tensor: torch.Tensor, displacement: object, interpolation: object = InterpolationMode.BILINEAR, fill: object = None
) -> torch.Tensor:
    size = (tensor.shape[-2], tensor.shape[-1])
    moves = _checked_displacement(displacement, size)
    grid = affine_grid(np.eye(3)[:2], size, size, tensor.device) + moves.to(tensor.device)
    return sampled(tensor, grid, interpolation_mode(interpolation), fill)


@kernel(elastic, InputKind.MASK)
def _elastic_mask(mask: torch.Tensor, displacement: object, interpolation: object = None, fill: object = None) -> torch.Tensor:
    return _as_picture(mask, lambda part: _elastic_tensor(part, displacement, InterpolationMode.NEAREST, fill))


@kernel(elastic, InputKind.PICTURE)
def _elastic_picture(
    picture: PIL.Image.Image, displacement: object, interpolation: object = InterpolationMode.BILINEAR, fill: object = None
) -> PIL.Image.Image:
    return picture_like(_elastic_tensor(levels_of(picture), displacement, interpolation, fill), picture)


@kernel(elastic, *_FRAMES)
def _elastic_frame(
    values: torch.Tensor, frame: CanvasFrame, displacement: object, interpolation: object = None, fill: object = None
) -> torch.Tensor:
    """Each point moves against the displacement of the pixel that it is in, which is the inverse for smooth displacements."""
    height, width = frame.canvas
    moves = _checked_displacement(displacement, frame.canvas).double().to(values.device)
    half = torch.tensor([width * 0.5, height * 0.5], dtype=torch.float64, device=values.device)

    def move(points: torch.Tensor) -> torch.Tensor:
        columns = points[..., 0].long().clamp(0, width - 1)
        rows = points[..., 1].long().clamp(0, height - 1)
        return points - moves[rows, columns] * half

    return hull(values, frame, frame.canvas, move) if frame.format is not None else moved_frame(values, frame, frame.canvas, move)


elastic_transform = elastic
"""Another name of `elastic`."""
