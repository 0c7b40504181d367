"""Arithmetic of boxes and key points.

All geometry of boxes is done with their corners [..., 4] as (left, top, right, bottom) in float64, which is exact for all types of boxes.
Key points are (x, y). Results have the element type of the input. Rotated formats are a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .families import CanvasFrame
from .kinds import InputKind, described, kind_of, needed_tv_tensors, raw, wrapped


def format_name(given: object) -> str:
    """The name of a format: "XYXY", "XYWH" or "CXCYWH". TypeError for rotated boxes."""
    name = str(getattr(given, "name", given)).upper()
    if name not in ("XYXY", "XYWH", "CXCYWH"):
        raise TypeError(f"boxes of the format {name} are not supported; supported are XYXY, XYWH and CXCYWH")
    return name


def corners_of(boxes: torch.Tensor, given: object) -> torch.Tensor:
    """Boxes as (left, top, right, bottom), float64."""
    name = format_name(given)
    values = boxes.double()
    if name == "XYXY":
        return values
    first, second = values[..., :2], values[..., 2:]
    if name == "XYWH":
        return torch.cat([first, first + second], -1)
    return torch.cat([first - second / 2, first + second / 2], -1)


def boxes_of(corners: torch.Tensor, given: object, dtype: torch.dtype) -> torch.Tensor:
    """Corners in a format and element type. Integers are cut, as torch does."""
    name = format_name(given)
    first, second = corners[..., :2], corners[..., 2:]
    if name == "XYWH":
        corners = torch.cat([first, second - first], -1)
    elif name == "CXCYWH":
        corners = torch.cat([(first + second) / 2, second - first], -1)
    return corners.to(dtype)


def clamped_corners(corners: torch.Tensor, canvas: tuple[int, int]) -> torch.Tensor:
    """Corners inside a canvas."""
    height, width = canvas
    made = corners.clone()
    made[..., 0::2].clamp_(0, width)
    made[..., 1::2].clamp_(0, height)
    return made


def clamped_points(points: torch.Tensor, canvas: tuple[int, int]) -> torch.Tensor:
    """Points inside a canvas, on its last pixel at most."""
    height, width = canvas
    made = points.clone()
    made[..., 0].clamp_(0, width - 1)
    made[..., 1].clamp_(0, height - 1)
    return made


def moved_frame(
    values: torch.Tensor, frame: CanvasFrame, canvas: tuple[int, int], move: Callable[[torch.Tensor], torch.Tensor], flips: bool = False,
    clamps: bool = True,
) -> torch.Tensor:  # fmt: skip
    """Boxes or points whose coordinates are moved by a function of (x, y) pairs [..., 2].

    `flips`: the function exchanges sides, so left and right, top and bottom are sorted again. `clamps`: boxes to the new canvas.
    """
    if frame.format is None:
        return move(values.double()).to(values.dtype)
    corners = corners_of(values, frame.format)
    made = move(corners.reshape(*corners.shape[:-1], 2, 2))
    if flips:
        made = torch.cat([made.amin(-2, keepdim=True), made.amax(-2, keepdim=True)], -2)
    made = made.reshape(corners.shape)
    if clamps and frame.clamping is not None:
        made = clamped_corners(made, canvas)
    return boxes_of(made, frame.format, values.dtype)


def scaled(values: torch.Tensor, frame: CanvasFrame, ratio_y: float, ratio_x: float, canvas: tuple[int, int]) -> torch.Tensor:
    """Boxes or points in a picture of another size."""
    ratio = torch.tensor([ratio_x, ratio_y], dtype=torch.float64)
    return moved_frame(values, frame, canvas, lambda points: points * ratio.to(points.device), clamps=False)


def shifted(values: torch.Tensor, frame: CanvasFrame, left: float, top: float, canvas: tuple[int, int]) -> torch.Tensor:
    """Boxes or points after the picture's origin has moved to (left, top)."""
    offset = torch.tensor([left, top], dtype=torch.float64)
    return moved_frame(values, frame, canvas, lambda points: points - offset.to(points.device))


def hull(values: torch.Tensor, frame: CanvasFrame, canvas: tuple[int, int], move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The smallest upright boxes around boxes whose four corners are moved; points are moved."""
    if frame.format is None:
        return moved_frame(values, frame, canvas, move)
    corners = corners_of(values, frame.format)
    left, top, right, bottom = corners.unbind(-1)
    four = torch.stack([torch.stack(pair, -1) for pair in ((left, top), (right, top), (right, bottom), (left, bottom))], -2)
    moved = move(four)
    made = torch.cat([moved.amin(-2), moved.amax(-2)], -1)
    if frame.clamping is not None:
        made = clamped_corners(made, canvas)
    return boxes_of(made, frame.format, values.dtype)


# ------------------------------------------------------------------------------------------------------------ functions


def convert_bounding_box_format(
    inpt: torch.Tensor, old_format: object = None, new_format: object = None, inplace: bool = False
) -> torch.Tensor:
    """Boxes in another format.

    Args:
        inpt: BoundingBoxes, or a tensor [..., 4] with `old_format`.
        old_format: the format of a plain tensor.
        new_format: a BoundingBoxFormat or its name: "XYXY", "XYWH", "CXCYWH".
        inplace: whether the result is also written into the input.

    Raises:
        TypeError: if `new_format` is missing, or for rotated formats.
        ValueError: if a tensor has no `old_format`, or boxes have one.
    """
    if new_format is None:
        raise TypeError("convert_bounding_box_format needs new_format")
    kind = kind_of(inpt)
    if kind is InputKind.BOXES:
        if old_format is not None:
            raise ValueError("boxes know their format; old_format is for plain tensors")
        old_format = inpt.format
    elif kind is not InputKind.TENSOR:
        raise TypeError(f"convert_bounding_box_format takes boxes or a tensor, got {described(inpt)}")
    elif old_format is None:
        raise ValueError("a plain tensor needs old_format")
    values = raw(inpt)
    if format_name(old_format) == format_name(new_format):
        made = values
    else:
        made = boxes_of(corners_of(values, old_format), new_format, values.dtype)
    if inplace:
        values.copy_(made)
        made = values
    if kind is not InputKind.BOXES:
        return made
    return wrapped(made, inpt, format=_as_format(new_format))


def _as_format(given: object) -> object:
    return needed_tv_tensors("convert_bounding_box_format").BoundingBoxFormat[format_name(given)]


def _frame(inpt: Any, format: object, canvas_size: Any, what: str) -> CanvasFrame:
    kind = kind_of(inpt)
    if kind in (InputKind.BOXES, InputKind.POINTS):
        if canvas_size is not None or format is not None:
            raise ValueError(f"{what}: boxes and key points know their canvas and format; give these for plain tensors only")
        return CanvasFrame(tuple(inpt.canvas_size), getattr(inpt, "format", None))
    if kind is not InputKind.TENSOR:
        raise TypeError(f"{what} takes boxes, key points or a tensor, got {described(inpt)}")
    if canvas_size is None:
        raise ValueError(f"{what}: a plain tensor needs canvas_size")
    return CanvasFrame((int(canvas_size[0]), int(canvas_size[1])), format)


def clamp_bounding_boxes(
    inpt: torch.Tensor, format: object = None, canvas_size: object = None, clamping_mode: object = "auto"
) -> torch.Tensor:
    """Boxes cut at the borders of the canvas.

    Args:
        inpt: BoundingBoxes, or a tensor [..., 4] with `format` and `canvas_size` (height, width).
        clamping_mode: "soft" or "hard", which are the same for upright boxes; None: boxes stay as they are; "auto": that of the boxes.
    """
    frame = _frame(inpt, format, canvas_size, "clamp_bounding_boxes")
    if frame.format is None:
        raise ValueError("clamp_bounding_boxes: a plain tensor needs format")
    mode = getattr(inpt, "clamping_mode", "soft") if clamping_mode == "auto" else clamping_mode
    if mode not in (None, "soft", "hard"):
        raise ValueError(f"clamping_mode is 'soft', 'hard', 'auto' or None, got {clamping_mode!r}")
    values = raw(inpt)
    if mode is None:
        return inpt
    made = boxes_of(clamped_corners(corners_of(values, frame.format), frame.canvas), frame.format, values.dtype)
    return wrapped(made, inpt)


def clamp_keypoints(inpt: torch.Tensor, canvas_size: object = None) -> torch.Tensor:
    """Key points moved onto the canvas: KeyPoints, or a tensor [..., 2] with `canvas_size` (height, width)."""
    frame = _frame(inpt, None, canvas_size, "clamp_keypoints")
    return wrapped(clamped_points(raw(inpt), frame.canvas), inpt)


def valid_boxes(inpt: torch.Tensor, format: object, canvas_size: object, min_size: float, min_area: float) -> torch.Tensor:
    """Which boxes are large enough and lie inside the canvas, as a mask."""
    frame = _frame(inpt, format, canvas_size, "sanitize_bounding_boxes")
    if frame.format is None:
        raise ValueError("sanitize_bounding_boxes: a plain tensor needs format")
    corners = corners_of(raw(inpt), frame.format)
    sizes = corners[..., 2:] - corners[..., :2]
    height, width = frame.canvas
    large = (sizes >= min_size).all(-1) & (sizes.prod(-1) >= min_area)
    limits = torch.tensor([width, height, width, height], dtype=torch.float64, device=corners.device)
    return large & (corners >= 0).all(-1) & (corners <= limits).all(-1)


def sanitize_bounding_boxes(
    bounding_boxes: torch.Tensor, format: object = None, canvas_size: object = None, min_size: float = 1.0, min_area: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes without those that are small or leave the canvas, and the mask of those that are kept.

    Args:
        bounding_boxes: BoundingBoxes, or a tensor [boxes, 4] with `format` and `canvas_size`.
        min_size: least width and height.
        min_area: least area.
    """
    valid = valid_boxes(bounding_boxes, format, canvas_size, min_size, min_area)
    return wrapped(raw(bounding_boxes)[valid], bounding_boxes), valid


def valid_points(inpt: torch.Tensor, canvas_size: object) -> torch.Tensor:
    """Which key points lie on the canvas; of shape [points, ..., 2] all points of an instance must."""
    frame = _frame(inpt, None, canvas_size, "sanitize_keypoints")
    points = raw(inpt)
    height, width = frame.canvas
    inside = (points[..., 0] >= 0) & (points[..., 0] < width) & (points[..., 1] >= 0) & (points[..., 1] < height)
    return inside if inside.ndim < 2 else inside.flatten(1).all(1)


def sanitize_keypoints(key_points: torch.Tensor, canvas_size: object = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Key points without those that leave the canvas, and the mask of those that are kept."""
    valid = valid_points(key_points, canvas_size)
    return wrapped(raw(key_points)[valid], key_points), valid

