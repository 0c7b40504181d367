"""Pictures of arrays: colours of values, marks (boxes, masks, key points), and their compressed data."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PALETTE = np.array([
    (0, 0, 0), (245, 133, 24), (76, 120, 168), (84, 162, 75), (228, 87, 86), (114, 183, 178), (238, 202, 59), (178, 121, 162),
    (255, 157, 166), (157, 117, 93), (186, 176, 172), (31, 119, 255), (44, 160, 44), (214, 39, 140), (148, 103, 189), (140, 86, 75),
], np.uint8)  # fmt: skip
"""Colours of labels; 0 is the background."""
_HEAT = np.array([(68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140), (40, 174, 128), (94, 201, 98), (173, 220, 48),
                  (253, 231, 37)], np.float64)  # fmt: skip
"""The colours of matplotlib's viridis, at equal distances."""
_EXACT = 4096
"""Smaller pictures, and pictures of labels, are stored without loss."""
_QUALITY = 80
_NARROWEST = 8
"""A narrower array without a layout is a table, such as boxes."""
_MOST_MARKS = 200
_LABELS = 256


@dataclass(frozen=True)
class Marks:
    """Drawings on a picture. Coordinates up to 1 are fractions of its size; others are pixels.

    Attributes:
        boxes: left, top, right, bottom; float[n, 4].
        labels: one number per box; None: there are none.
        points: x, y; float[n, 2].
        outlines: corners of polygons; float[n, 2] each.
        masks: labels of the picture's pixels; int[height, width] each.
    """

    boxes: np.ndarray | None = None
    labels: np.ndarray | None = None
    points: np.ndarray | None = None
    outlines: Sequence[np.ndarray] = field(default_factory=tuple)
    masks: Sequence[np.ndarray] = field(default_factory=tuple)

    def __bool__(self) -> bool:
        return self.boxes is not None or self.points is not None or bool(self.outlines) or bool(self.masks)


def picture_of(array: np.ndarray, layout: str) -> np.ndarray | None:
    """uint8[height, width, 1 or 3] of an array that can be shown as a picture; None for others.

    Labels get colours. Floats in a layout that has no rows and columns of pixels (spectrograms) become a map of colours, low frequencies
    at the bottom.
    """
    if layout.startswith("C") or (not layout and array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4)):
        array = np.moveaxis(array, 0, -1)
    plain = array.ndim == 2 and layout in ("", "ft", "tf")
    if plain and min(array.shape) < _NARROWEST:
        return None
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or min(array.shape[:2]) < 2 or array.dtype.kind not in "buif":
        return None
    array = array[..., :3]
    if array.shape[2] == 1 and (coloured := _labels(array[..., 0])) is not None:
        return coloured
    if array.dtype != np.uint8:
        array = _scaled(array, plain)
    if plain and array.shape[2] == 1:
        array = _heat()[array[..., 0]]
        array = array.swapaxes(0, 1)[::-1] if layout == "tf" else array[::-1] if layout == "ft" else array
    return np.ascontiguousarray(array)


def _labels(plane: np.ndarray) -> np.ndarray | None:
    """The colours of a plane of few labels; None for other planes."""
    if plane.dtype.kind not in "bui" or (plane.dtype == np.uint8 and int(plane.max()) >= len(PALETTE)):
        return None
    if plane.dtype.kind != "b" and (int(plane.min()) < 0 or int(plane.max()) >= _LABELS):
        return None
    numbers = plane.astype(np.intp)
    return PALETTE[np.where(numbers > 0, (numbers - 1) % (len(PALETTE) - 1) + 1, 0)]


def _scaled(array: np.ndarray, spectrum: bool) -> np.ndarray:
    """uint8 from the smallest to the largest finite value. Powers of spectrograms are shown as logarithms."""
    values = np.nan_to_num(array.astype(np.float32), nan=0, posinf=0, neginf=0)
    low, high = float(values.min()), float(values.max())
    if spectrum and low >= 0 and high > 50 * float(np.median(values)) > 0:
        values = np.log(np.maximum(values, high * 1e-8))
        low, high = float(values.min()), float(values.max())
    values -= low
    values *= 255 / max(high - low, 1e-12)
    return values.astype(np.uint8)


@functools.cache
def _heat() -> np.ndarray:
    places = np.linspace(0, len(_HEAT) - 1, 256)
    return np.stack([np.interp(places, np.arange(len(_HEAT)), channel) for channel in _HEAT.T], axis=1).astype(np.uint8)


def strip(frames: Sequence[np.ndarray], widest: int) -> np.ndarray:
    """Frames side by side, reduced to `widest` pixels each; uint8[height, width, 3]."""
    from PIL import Image

    reduced = []
    for frame in frames:
        image = Image.fromarray(frame[..., 0] if frame.shape[2] == 1 else frame).convert("RGB")
        image.thumbnail((widest, widest))
        reduced.append(np.asarray(image))
    gap = np.full((reduced[0].shape[0], 3, 3), 255, np.uint8)
    parts = [part for frame in reduced for part in (gap, frame)][1:]
    return np.concatenate(parts, axis=1)


def data_uri(pixels: np.ndarray, widest: int, marks: Marks | None = None) -> tuple[str, int, int]:
    """The picture as a data URI, at most `widest` pixels wide and high, and its width and height."""
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    whole = image.size
    if max(whole) > widest:
        image.thumbnail((widest, widest))
    if marks:
        image = _marked(image.convert("RGB"), marks, whole)
    kind, options = _storage(pixels)
    place = io.BytesIO()
    image.save(place, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(place.getvalue()).decode()}", image.width, image.height


def _storage(pixels: np.ndarray) -> tuple[str, dict[str, int]]:
    """The format and its options: without loss for small pictures, and where Pillow has no WebP."""
    from PIL import features

    if pixels.shape[0] * pixels.shape[1] <= _EXACT or not features.check("webp"):
        return "PNG", {}
    return "WEBP", {"quality": _QUALITY, "method": 1}


def _marked(image: Any, marks: Marks, whole: tuple[int, int]) -> Any:
    """The picture with its marks. `whole`: the size that coordinates in pixels refer to."""
    from PIL import Image, ImageDraw

    for mask in marks.masks:
        labels = Image.fromarray((np.asarray(mask).astype(np.int64) & 255).astype(np.uint8)).resize(image.size, Image.Resampling.NEAREST)
        coloured = _labels(np.asarray(labels).astype(np.int32))
        assert coloured is not None
        pixels = np.asarray(image).astype(np.uint16)
        image = Image.fromarray(np.where((coloured > 0).any(axis=2, keepdims=True), (2 * pixels + coloured) // 3, pixels).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    width = max(1, max(image.size) // 150)
    for k, outline in enumerate(marks.outlines):
        corners = _on(outline, image.size, whole)
        if len(corners) > 1:
            draw.line([*map(tuple, corners), tuple(corners[0])], fill=_colour(k + 1), width=width)
    if marks.boxes is not None:
        for k, (left, top, right, bottom) in enumerate(_on(marks.boxes.reshape(-1, 2), image.size, whole).reshape(-1, 4).tolist()):
            colour = _colour(k + 1 if marks.labels is None else int(marks.labels[k]))
            place = [min(left, right), min(top, bottom), max(left, right), max(top, bottom)]
            if place[:2] == place[2:]:  # what `pad` has added
                continue
            draw.rectangle(place, outline=colour, width=width)
            if marks.labels is not None:
                draw.text((place[0] + width + 1, place[1] + width), str(int(marks.labels[k])), fill=colour)
    if marks.points is not None:
        radius = max(2, max(image.size) // 100)
        for k, (x, y) in enumerate(_on(marks.points, image.size, whole).tolist()):
            draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=_colour(k + 1), outline=(255, 255, 255))
    return image


def _on(points: np.ndarray, size: tuple[int, int], whole: tuple[int, int]) -> np.ndarray:
    """Coordinates in a picture that was reduced from `whole` to `size`."""
    points = np.nan_to_num(np.asarray(points, np.float64))
    scale = np.array(size if not points.size or points.max() <= 1.001 else (size[0] / whole[0], size[1] / whole[1]))
    most = 4.0 * max(size)
    found: np.ndarray = np.clip(points * scale, -most, most)
    return found


def _colour(number: int) -> tuple[int, int, int]:
    red, green, blue = PALETTE[1 + (number - 1) % (len(PALETTE) - 1)].tolist()
    return red, green, blue


def marks_of(arrays: Sequence[np.ndarray], layouts: Sequence[str], form: str = "") -> Marks:
    """The marks among the outputs of a sample: the first boxes (float[n, 4]) with labels (int[n] or int[n, 1]), key points (float[n, 2]) or
    the vertices of polygons (int[n, 3]), and masks of the size of a picture.

    `form`: "xyXY" (two corners) or "xyWH" (corner and size) of boxes. If it is empty, boxes whose second corner lies before the first one
    are taken for sizes.
    """
    boxes = next((array for array in arrays if _is_table(array, 4, "f")), None)
    labels = None
    if boxes is not None:
        boxes = _corners(boxes[:_MOST_MARKS], form)
        shapes = (len(boxes),), (len(boxes), 1)
        labels = next((array.ravel() for array in arrays if array.dtype.kind in "ui" and array.shape in shapes), None)
    points = next((array for array in arrays if _is_table(array, 2, "f")), None)
    polygons = next((array for array in arrays if _is_table(array, 3, "i")), None)
    outlines: list[np.ndarray] = []
    if points is not None and polygons is not None:
        outlines = [points[first:last] for _, first, last in polygons[:_MOST_MARKS].tolist() if 0 <= first < last <= len(points)]
        points = None
    pictures = [_extents(array, layout) for array, layout in zip(arrays, layouts, strict=True) if _is_picture(array)]
    masks = [array.reshape(array.shape[:2]) for array in arrays if _is_mask(array) and array.shape[:2] in pictures]
    return Marks(boxes, labels, None if points is None else points[:_MOST_MARKS], outlines, masks)


def _is_table(array: np.ndarray, columns: int, kind: str) -> bool:
    return array.ndim == 2 and array.shape[1] == columns and len(array) > 0 and array.dtype.kind == kind


def _is_picture(array: np.ndarray) -> bool:
    return array.ndim == 3 and (array.shape[2] == 3 or array.shape[0] == 3)


def _extents(array: np.ndarray, layout: str) -> tuple[int, ...]:
    return array.shape[1:] if layout.startswith("C") or (not layout and array.shape[2] != 3) else array.shape[:2]


def _is_mask(array: np.ndarray) -> bool:
    if not array.size or array.dtype.kind not in "bui" or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 1)):
        return False
    return array.dtype.kind == "b" or 0 <= int(array.min()) <= int(array.max()) < _LABELS


def _corners(boxes: np.ndarray, form: str) -> np.ndarray:
    """Boxes as two corners."""
    if form == "xyWH" or (not form and bool((boxes[:, 2:] < boxes[:, :2]).any())):
        return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return boxes
