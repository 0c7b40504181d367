"""COCO annotations as tables: read from JSON files, and stored in folders of preprocessed arrays."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...system.files import replace_file
from ..containers.indices import read_bytes
from ..remote.remote import exists
from .coco_tables import DRAWING, POLYGON, RUNS

_INT32 = 2**31
_LARGEST = float(np.finfo(np.float32).max)
_LARGEST_IMAGE = 1 << 28
"""Most pixels of a mask."""


class Ragged:
    """Rows of an array, several per image: those of image `i` are ``rows[starts[i] : starts[i] + counts[i]]``."""

    def __init__(self, rows: np.ndarray, counts: np.ndarray, starts: np.ndarray | None = None):
        # Compiled code reads the arrays by their addresses.
        self.rows, self.counts = np.ascontiguousarray(rows), np.ascontiguousarray(counts, np.int64)
        self.starts = np.cumsum(self.counts) - self.counts if starts is None else np.ascontiguousarray(starts, np.int64)

    @classmethod
    def of(cls, lists: Sequence[Sequence[Any]], dtype: Any, width: int) -> Ragged:
        """Make a table from a list of rows per image. `width` 0: rows are single numbers."""
        counts = np.array([len(rows) for rows in lists], np.int64)
        flat = [row for rows in lists for row in rows]
        return cls(np.array(flat, dtype).reshape(-1, width) if width else np.array(flat, dtype).reshape(-1), counts)

    def of_image(self, index: int) -> np.ndarray:
        """The rows of one image."""
        start = int(self.starts[index])
        return self.rows[start : start + int(self.counts[index])]


@dataclass
class Annotations:
    """The annotations of all images, in the order of the images' numbers.

    `polygons` has rows of (mask of the image, first vertex, end vertex), `rles` rows of (mask, height, width, first run, end run) of
    `runs`. A mask has the number of its box in the image.
    """

    names: list[str]
    boxes: Ragged
    labels: Ragged
    ids: np.ndarray | None = None
    heights: np.ndarray | None = None
    widths: np.ndarray | None = None
    polygons: Ragged | None = None
    vertices: Ragged | None = None
    rles: Ragged | None = None
    runs: np.ndarray | None = None


@dataclass
class Options:
    """Options: which annotations are read, and how."""

    ltrb: bool = False
    ratio: bool = False
    include_iscrowd: bool = True
    skip_empty: bool = False
    size_threshold: float = 0.1
    polygons: bool = False
    pixels: bool = False
    remap: bool = True
    images: list[str] | None = None

    @property
    def sized(self) -> str:
        """The argument that needs the sizes of images; "": none does."""
        return "ratio" if self.ratio else "pixelwise_masks" if self.pixels else ""


# ------------------------------------------------------------------------------------------------------------------------- JSON


class _Image:
    __slots__ = ("boxes", "height", "id", "labels", "name", "polygons", "rles", "vertices", "width")

    def __init__(self, number: int, name: str, height: int, width: int):
        self.id, self.name, self.height, self.width = number, name, height, width
        self.boxes: list[tuple[float, ...]] = []
        self.labels: list[int] = []
        self.polygons: list[tuple[int, int, int]] = []
        self.vertices: list[tuple[float, float]] = []
        self.rles: list[tuple[int, int, int, list[int]]] = []


def _loaded(path: str) -> dict[str, object]:
    try:
        data = json.loads(read_bytes(path, "JSON annotations file"))
    except (ValueError, RecursionError) as error:
        raise RuntimeError(f"Error parsing JSON file {path}: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("images", []), list) or not data.get("images"):
        raise RuntimeError(f"No files found. {path} lists no images; the file does not have the format of COCO annotations")
    for name in ("categories", "annotations"):
        if not isinstance(data.get(name, []), list):
            raise RuntimeError(f"{path}: {name!r} is not a list; the file does not have the format of COCO annotations")
    return data


@contextlib.contextmanager
def _naming(path: str, kind: str, number: int) -> Iterator[None]:
    """Adds the place to errors raised inside."""
    try:
        yield
    except KeyError as error:
        raise RuntimeError(f"{path}: {kind} {number} has no {error}") from None
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise RuntimeError(f"{path}: {kind} {number} is malformed: {error}") from None


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or not -_INT32 <= value < _INT32:
        raise ValueError(f"{value!r} is not a 32-bit integer")
    return int(value)


def _number(value: object) -> float:
    """A number that is finite as float32: JSON writers of Python also write NaN and Infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_LARGEST <= value <= _LARGEST:
        shown = repr(value)
        raise ValueError(f"{shown if len(shown) < 40 else f'{shown[:40]}...'} is not a finite number (of 32 bits)")
    return float(value)


def _object(entry: object) -> dict[str, object]:
    if not isinstance(entry, dict):
        raise ValueError("the entry is not an object with names and values")
    return entry


def _extent(entry: dict[str, object], name: str, options: Options) -> int:
    """The height or the width of an image; 0 if it is missing and nothing needs it."""
    if entry.get(name) is None:
        if options.sized:
            raise ValueError(f"the entry has no {name!r}, which `{options.sized}` needs")
        return 0
    return _integer(entry[name])


def _images(data: dict[str, Any], path: str, options: Options) -> dict[int, _Image]:
    found: dict[int, _Image] = {}
    for number, entry in enumerate(data["images"]):
        with _naming(path, "image", number):
            height, width = (_extent(_object(entry), name, options) for name in ("height", "width"))
            image = _Image(_integer(entry["id"]), entry["file_name"], height, width)
            if not isinstance(image.name, str) or "\n" in image.name or "\0" in image.name:
                raise ValueError(f"{image.name!r} is not a file name")
            if image.height < 0 or image.width < 0:
                raise ValueError(f"the image has the size {image.width} x {image.height}")
            if image.id in found:
                raise ValueError(f"another image has the id {image.id}, too")
            found[image.id] = image
    return found


def _classes(data: dict[str, Any], path: str) -> dict[int, int]:
    """Label of each category: its index in the list, from 1."""
    labels: dict[int, int] = {}
    for number, entry in enumerate(data.get("categories", [])):
        if not isinstance(entry, dict) or "id" not in entry:
            raise RuntimeError(f"Missing category ID in the JSON annotations file: category {number} of {path}")
        with _naming(path, "category", number):
            labels[_integer(entry["id"])] = number + 1
    return labels


def _box(entry: dict[str, object], image: _Image, options: Options) -> tuple[float, ...] | None:
    given = entry["bbox"]
    if not isinstance(given, list) or len(given) != 4:
        raise ValueError(f"`bbox` must contain exactly 4 values (x, y, width, height), got {str(given)[:60]}")
    x, y, width, height = map(_number, given)
    # As in DALI, compare as float32: float32(0.1) is not 0.1.
    if np.float32(width) < np.float32(options.size_threshold) or np.float32(height) < np.float32(options.size_threshold):
        return None
    box = np.array([x, y, width, height], np.float32)
    if options.ltrb:
        box[2:] += box[:2]
    if options.ratio:
        box /= _size_of(image)[[0, 1, 0, 1]]
    row = box.tolist()
    if not all(map(math.isfinite, row)):
        raise ValueError(f"the box {given} does not fit 32-bit floats")
    return tuple(row)


def _size_of(image: _Image) -> np.ndarray:
    """Width and height, which `ratio` divides by."""
    if not image.width or not image.height:
        raise ValueError(f"the image has the size {image.width} x {image.height}, so there are no fractions of it (`ratio`)")
    return np.array([image.width, image.height], np.float32)


def _add_masks(segmentation: Any, mask: int, image: _Image, options: Options) -> None:
    if isinstance(segmentation, dict):
        size, counts = segmentation["size"], segmentation["counts"]
        height, width = (_integer(value) for value in size)
        image.rles.append((mask, height, width, check_runs(decode_runs(counts), height, width)))
        return
    for polygon in segmentation or ():
        if not isinstance(polygon, list) or len(polygon) % 2:
            raise ValueError("a polygon is not a list of pairs of numbers")
        try:
            numbers = [_number(value) for value in polygon]
        except ValueError as error:
            raise ValueError(f"a polygon is not a list of pairs of numbers: {error}") from None
        first = len(image.vertices)
        if options.ratio and not options.pixels:
            scaled = np.array(numbers, np.float32).reshape(-1, 2) / _size_of(image)
            image.vertices += [(x, y) for x, y in scaled.tolist()]
        else:
            image.vertices += zip(numbers[::2], numbers[1::2], strict=True)
        image.polygons.append((mask, first, len(image.vertices)))


def decode_runs(counts: object) -> list[int]:
    """Run lengths from a list, or from the COCO tools' compressed text: 5 bits per character, differences to the run before the last."""
    if isinstance(counts, list):
        return [_integer(count) for count in counts]
    if not isinstance(counts, str):
        raise ValueError("the counts of a mask are neither a list nor a text")
    runs: list[int] = []
    at = 0
    data = counts.encode("latin-1")
    while at < len(data):
        value, shift = 0, 0
        while True:
            if at >= len(data) or shift > 60:
                raise ValueError("the counts of a mask are truncated")
            digit = data[at] - 48
            if not 0 <= digit < 64:
                raise ValueError("the counts of a mask have a character that the COCO tools do not write")
            at += 1
            value |= (digit & 0x1F) << shift
            shift += 5
            if not digit & 0x20:
                break
        if digit & 0x10:
            value |= -1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
    return runs


def check_runs(runs: list[int], height: int, width: int) -> list[int]:
    """Return `runs`; ValueError if they do not fit their image."""
    if height < 0 or width < 0 or any(run < 0 for run in runs) or sum(runs) > height * width:
        raise ValueError(f"the runs of a mask do not fit its size of {height} x {width}")
    return runs


def _annotate(data: dict[str, Any], images: dict[int, _Image], path: str, options: Options) -> None:
    labels = _classes(data, path)
    for number, entry in enumerate(data.get("annotations", [])):
        with _naming(path, "annotation", number):
            image = images.get(_integer(_object(entry)["image_id"]))
            if image is None or (not options.include_iscrowd and _integer(entry.get("iscrowd", 0) or 0)):
                continue
            box = _box(entry, image, options)
            if box is None:
                continue
            category = _integer(entry["category_id"])
            if (options.polygons or options.pixels) and "segmentation" in entry:
                _add_masks(entry["segmentation"], len(image.boxes), image, options)
            image.boxes.append(box)
            image.labels.append(labels.get(category, 0) if options.remap else category)


def _chosen(images: dict[int, _Image], options: Options) -> list[_Image]:
    if options.images is None:
        chosen = [images[number] for number in sorted(images)]
    else:
        by_name: dict[str, _Image] = {}
        for image in images.values():
            by_name.setdefault(image.name, image)
        chosen = [by_name[name] for name in options.images if name in by_name]
    return [image for image in chosen if image.boxes] if options.skip_empty else chosen


def read_json(path: str, options: Options) -> Annotations:
    """The annotations of a COCO file. RuntimeError names the file and the invalid entry."""
    data = _loaded(path)
    images = _images(data, path, options)
    with np.errstate(over="ignore"):  # checked box by box
        _annotate(data, images, path, options)
    chosen = _chosen(images, options)
    rles = [[(mask, height, width, 0, 0) for mask, height, width, _ in image.rles] for image in chosen]
    table = Ragged.of(rles, np.int64, 5)
    runs = [runs for image in chosen for *_, runs in image.rles]
    ends = np.cumsum([len(item) for item in runs], dtype=np.int64) if runs else np.empty(0, np.int64)
    table.rows[:, 4] = ends
    table.rows[1:, 3] = ends[:-1]
    return Annotations(
        [image.name for image in chosen],
        Ragged.of([image.boxes for image in chosen], np.float32, 4),
        Ragged.of([image.labels for image in chosen], np.int32, 0),
        np.array([image.id for image in chosen], np.int32),
        np.array([image.height for image in chosen], np.int32),
        np.array([image.width for image in chosen], np.int32),
        Ragged.of([image.polygons for image in chosen], np.int32, 3),
        Ragged.of([image.vertices for image in chosen], np.float32, 2),
        table,
        np.array([run for item in runs for run in item], np.int64),
    )


# ------------------------------------------------------------------------------------------------------------ preprocessed files


def save(annotations: Annotations, folder: str, polygons: bool, pixels: bool, ids: bool) -> None:
    """Write the tables in DALI's format: a count and the raw array, little-endian. Empty arrays are not written."""
    if not os.path.isdir(folder):
        raise RuntimeError(f"the folder for preprocessed annotations does not exist: {folder}")

    def write(name: str, array: np.ndarray, kind: str, per_row: int = 1) -> None:
        if array.size:
            replace_file(os.path.join(folder, f"{name}.dat"), np.uint32(array.size // per_row).tobytes() + array.astype(kind).tobytes())

    boxes, labels = annotations.boxes, annotations.labels
    write("offsets", boxes.starts, "<i4")
    write("boxes", boxes.rows, "<f4")
    write("labels", labels.rows, "<i4")
    write("counts", boxes.counts, "<i4")
    replace_file(os.path.join(folder, "filenames.dat"), b"".join(os.fsencode(name) + b"\n" for name in annotations.names))
    if polygons or pixels:
        shapes, vertices = annotations.polygons, annotations.vertices
        assert shapes is not None and vertices is not None
        write("polygon_data", shapes.rows, "<i4", 3)
        write("polygon_offset", shapes.starts, "<i8")
        write("polygons_count", shapes.counts, "<i8")
        write("vertices", vertices.rows, "<f4", 2)
        write("vertices_offset", vertices.starts, "<i8")
        write("vertices_count", vertices.counts, "<i8")
    if pixels:
        _save_masks(annotations, folder, write)
    if ids:
        assert annotations.ids is not None
        write("original_ids", annotations.ids, "<i4")


def _save_masks(annotations: Annotations, folder: str, write: Callable[..., None]) -> None:
    rles, runs = annotations.rles, annotations.runs
    assert rles is not None and runs is not None and annotations.heights is not None and annotations.widths is not None
    if len(rles.rows):
        masks = [
            np.array([height, width, end - start], "<u8").tobytes() + runs[start:end].astype("<u4").tobytes()
            for _, height, width, start, end in rles.rows.tolist()
        ]
        replace_file(os.path.join(folder, "masks_rles.dat"), np.uint32(len(rles.rows)).tobytes() + b"".join(masks))
    write("masks_rles_idx", rles.rows[:, 0], "<i4")
    write("masks_offset", rles.starts, "<i8")
    write("mask_count", rles.counts, "<i8")
    write("heights", annotations.heights, "<i4")
    write("widths", annotations.widths, "<i4")


def load(folder: str, polygons: bool, pixels: bool, ids: bool) -> Annotations:
    """Read the files of :func:`save` (or of DALI). RuntimeError names a missing or mismatched file."""

    def read(name: str, kind: str, width: int = 1, empty: bool = True) -> np.ndarray:
        path = os.path.join(folder, f"{name}.dat")
        if empty and not exists(path):
            return np.empty(0, kind)
        data = read_bytes(path, "preprocessed annotations")
        count = int.from_bytes(data[:4], "little")
        if len(data) < 4 or len(data) - 4 != count * width * np.dtype(kind).itemsize:
            raise RuntimeError(f"{path} is damaged: the file is not an array of {count} elements")
        return np.frombuffer(data, kind, offset=4)

    listing = read_bytes(os.path.join(folder, "filenames.dat"), "preprocessed annotations")
    names = [os.fsdecode(name) for name in listing.split(b"\n") if name]
    counts, starts = read("counts", "<i4", empty=False), read("offsets", "<i4", empty=False)
    boxes, labels = read("boxes", "<f4"), read("labels", "<i4")
    if len(boxes) % 4 or len(boxes) // 4 != len(labels):
        raise RuntimeError(f"{folder}/boxes.dat does not fit labels.dat: {len(boxes)} numbers for {len(labels)} boxes")
    result = Annotations(names, Ragged(boxes.reshape(-1, 4), counts, starts), Ragged(labels, counts, starts))
    check = [(result.boxes, "offsets.dat")]
    if polygons or pixels:
        shapes = read("polygon_data", "<i4", 3).reshape(-1, 3)
        result.polygons = Ragged(shapes, read("polygons_count", "<i8"), read("polygon_offset", "<i8"))
        result.vertices = Ragged(read("vertices", "<f4", 2).reshape(-1, 2), read("vertices_count", "<i8"), read("vertices_offset", "<i8"))
        check += [(result.polygons, "polygon_offset.dat"), (result.vertices, "vertices_offset.dat")]
    if pixels:
        rows, result.runs = _load_runs(os.path.join(folder, "masks_rles.dat"))
        masks = read("masks_rles_idx", "<i4")
        if len(masks) != len(rows):
            raise RuntimeError(f"{folder}/masks_rles_idx.dat does not fit masks_rles.dat")
        result.rles = Ragged(np.column_stack([masks.astype(np.int64), rows]), read("mask_count", "<i8"), read("masks_offset", "<i8"))
        result.heights, result.widths = read("heights", "<i4"), read("widths", "<i4")
        check.append((result.rles, "masks_offset.dat"))
        if len(result.heights) != len(names) or len(result.widths) != len(names) or (result.heights < 0).any() or (result.widths < 0).any():
            raise RuntimeError(f"{folder}/heights.dat or widths.dat does not fit filenames.dat")
    if ids:
        result.ids = read("original_ids", "<i4")
        if len(result.ids) != len(names):
            raise RuntimeError(f"{folder}/original_ids.dat does not fit filenames.dat")
    for table, name in check:
        _check_table(table, len(names), os.path.join(folder, name))
    for numbers, name in ((result.boxes, "boxes.dat"), (result.vertices, "vertices.dat")):
        if numbers is not None and not np.isfinite(numbers.rows).all():
            raise RuntimeError(f"{os.path.join(folder, name)} is damaged: row {_first_infinite(numbers.rows)} is not finite")
    return result


def _first_infinite(rows: np.ndarray) -> int:
    return int(np.argmax(~np.isfinite(rows).all(1)))


def _check_table(table: Ragged, images: int, path: str) -> None:
    fits = len(table.counts) == images == len(table.starts)
    if not fits or ((table.counts < 0) | (table.starts < 0) | (table.counts > len(table.rows) - table.starts)).any():
        raise RuntimeError(f"{path} is damaged: the file does not fit filenames.dat, or refers to rows that do not exist")


def _load_runs(path: str) -> tuple[np.ndarray, np.ndarray]:
    """((height, width, first run, end run) of each mask, all runs)."""
    if not exists(path):
        return np.empty((0, 4), np.int64), np.empty(0, np.int64)
    data = read_bytes(path, "preprocessed annotations")
    rows, pieces, at, total = [], [], 4, 0
    for _ in range(int.from_bytes(data[:4], "little")):
        if len(data) - at < 24:
            raise RuntimeError(f"{path} is damaged: the file ends within a mask")
        height, width, count = (int(value) for value in np.frombuffer(data, "<u8", 3, at))
        at += 24
        if count > (len(data) - at) // 4 or height >= _INT32 or width >= _INT32:
            raise RuntimeError(f"{path} is damaged: the file ends within a mask")
        runs = np.frombuffer(data, "<u4", count, at).astype(np.int64)
        if int(runs.sum()) > height * width:
            raise RuntimeError(f"{path} is damaged: the runs of a mask do not fit its size of {height} x {width}")
        rows.append((height, width, total, total + count))
        pieces.append(runs)
        at, total = at + 4 * count, total + count
    return np.array(rows, np.int64).reshape(-1, 4), np.concatenate(pieces or [np.empty(0, np.int64)])


# --------------------------------------------------------------------------------------------------------------- pixelwise masks


@dataclass
class Drawings:
    """The shapes drawn into each image's mask, in order: rows of DRAWING."""

    steps: Ragged
    vertices: np.ndarray
    runs: np.ndarray


def drawings(annotations: Annotations, source: str) -> Drawings:
    """All shapes, sorted by label: where classes overlap, the larger label is on top. Label 0 is not drawn.

    RuntimeError for masks that belong to no box, do not have their image's size, or are too large.
    """
    shapes, vertices, rles = annotations.polygons, annotations.vertices, annotations.rles
    assert shapes is not None and vertices is not None and rles is not None and annotations.runs is not None
    assert annotations.heights is not None and annotations.widths is not None
    steps: list[list[tuple[int, ...]]] = []
    for index in range(len(annotations.names)):
        labels = annotations.labels.of_image(index)
        height, width = int(annotations.heights[index]), int(annotations.widths[index])
        if height * width > _LARGEST_IMAGE:
            raise RuntimeError(f"{source}: image {annotations.names[index]!r} is {width} x {height}; a mask of this size cannot be drawn")
        points, first = int(vertices.counts[index]), int(vertices.starts[index])
        own = [(mask, POLYGON, first + a, first + b, 0 <= a <= b <= points) for mask, a, b in shapes.of_image(index).tolist()]
        own += [(mask, RUNS, a, b, (h, w) == (height, width)) for mask, h, w, a, b in rles.of_image(index).tolist()]
        for mask, *_, fits in own:
            if not fits or not 0 <= mask < len(labels):
                raise RuntimeError(f"{source}: mask {mask} of image {annotations.names[index]!r} does not fit the image")
        drawn = sorted((int(labels[mask]), kind, a, b) for mask, kind, a, b, _ in own)
        steps.append([DRAWING.entries(label=label, kind=kind, first=a, end=b) for label, kind, a, b in drawn if label != 0])
    return Drawings(Ragged.of(steps, np.int64, DRAWING.words), np.ascontiguousarray(vertices.rows, np.float32), annotations.runs)


