"""Positions of slices for a whole batch: from the arguments start/end/shape (absolute or relative), or from the inputs anchor and shape.

Shared by operators that cut a window named by axes (``decoders.image_slice``, ``slice``). Precision and rounding are those of DALI 2.4,
which was measured with coordinates on halves. Named relative starts and ends are products in float32. Positional anchors and shapes are
products in float64, and so is an end computed from a relative start and a relative shape. All are rounded half away from zero.
"""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import INTEGERS
from ..base import Arg, Arguments, SampleError, Spec, refuse_where

SLICE_ARGS = (
    Arg("axes", "int_list", [1, 0], "Axes that the coordinates are for; negative ones count from the back.", tensor=True),
    Arg("axis_names", "layout", "WH", "The axes by their letters in the layout; excludes `axes`."),
    Arg("start", "int_list", None, "First coordinates (elements).", tensor=True),
    Arg("rel_start", "float_list", None, "First coordinates, as fractions of the extents.", tensor=True),
    Arg("end", "int_list", None, "End coordinates, exclusive (elements).", tensor=True),
    Arg("rel_end", "float_list", None, "End coordinates, exclusive, as fractions of the extents.", tensor=True),
    Arg("shape", "int_list", None, "Extents of the window (elements).", tensor=True),
    Arg("rel_shape", "float_list", None, "Extents of the window, as fractions of the input's.", tensor=True),
    Arg("normalized_anchor", "bool", True, "Whether a positional anchor of floats is relative; integers are always elements."),
    Arg("normalized_shape", "bool", True, "Whether a positional shape of floats is relative; integers are always elements."),
)
_STARTS, _ENDS = ("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")
COORDINATES = (*INTEGERS, DALIDataType.FLOAT, DALIDataType.FLOAT64)
"""Element types of the inputs anchor and shape."""


def check_slice(spec: Spec) -> None:
    """Raise ValueError for invalid combinations of arguments and inputs. Called by an operator's constructor."""
    if spec.given("axes") and spec.given("axis_names"):
        raise ValueError("`axes` and `axis_names` are mutually exclusive")
    starts, ends = [name for name in _STARTS if spec.given(name)], [name for name in _ENDS if spec.given(name)]
    if len(starts) > 1:
        raise ValueError("`start` and `rel_start` are mutually exclusive")
    if len(ends) > 1:
        raise ValueError(f"`end`, `rel_end`, `shape` and `rel_shape` are mutually exclusive; given are {', '.join(ends)}")
    if spec.input_count > 1 and (starts or ends):
        raise ValueError(f"positional anchor and shape cannot be combined with `{(starts + ends)[0]}`")
    if spec.input_count == 2 or (spec.input_count == 1 and not starts and not ends):
        raise ValueError(
            "expected either two more inputs (anchor and shape) or named arguments (start or rel_start; end, rel_end, shape or rel_shape)"
        )


def slice_windows(
    spec: Spec, positional: list[Batch], arguments: Arguments, extents: np.ndarray, layout: str
) -> tuple[np.ndarray, np.ndarray]:
    """(anchors, window extents), int64[samples, ndim]. Unnamed axes are kept whole.

    positional   anchor and shape batches, or nothing
    extents      int64[samples, ndim], the shapes of the input; `layout` has a letter for each of these axes

    Windows may lie outside: see ``crop_rules.outside``. Raises ValueError or SampleError for axes that do not exist and for an end before
    its start.
    """
    axes, lengths = _axes(arguments, extents.shape[1], layout)
    used = np.arange(axes.shape[1]) < lengths[:, None]
    chosen = np.where(used, np.take_along_axis(extents, axes, 1), 0)
    start, end = _positional(spec, positional, chosen, lengths) if positional else _named(arguments, chosen, lengths)
    numbers = np.isfinite(start) & np.isfinite(end)
    refuse_where(~numbers, lambda i: f"slice coordinates must be numbers, got start={start[i].tolist()} end={end[i].tolist()}")
    late = "end coordinates can't be before start coordinates"
    refuse_where(end < start, lambda i: f"{late}: start={start[i].tolist()} end={end[i].tolist()}")
    first, last = rounded(start), rounded(end)
    anchors, windows = np.zeros_like(extents), extents.copy()
    rows, columns = np.nonzero(used)
    anchors[rows, axes[rows, columns]] = first[rows, columns]
    windows[rows, axes[rows, columns]] = (last - first)[rows, columns]
    return anchors, windows


def rounded(values: np.ndarray) -> np.ndarray:
    """Round `values` to int64, halves away from zero. Values are clipped to +-2**40, which no image reaches."""
    wide = np.nan_to_num(values.astype(np.float64))
    whole: np.ndarray = np.clip(np.sign(wide) * np.floor(np.abs(wide) + 0.5), -(2.0**40), 2.0**40).astype(np.int64)
    return whole


def _axes(arguments: Arguments, ndim: int, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Axis numbers int64[samples, most], and the number of valid ones per row, int64[samples]."""
    if not arguments.given("axis_names") and arguments.given("axes"):
        return arguments.chosen_axes("axes", ndim)
    names = arguments.constant("axis_names")
    missing = [name for name in names if name not in layout]
    if missing:
        raise ValueError(f"axis '{missing[0]}' is not present in the layout {layout!r}")
    axes = np.array([layout.index(name) for name in names], np.int64)
    if len(np.unique(axes)) != len(axes):
        raise ValueError(f"an axis occurs more than once in `axis_names`, {names!r}")
    return np.tile(axes, (arguments.count, 1)), np.full(arguments.count, len(axes))


def _positional(spec: Spec, positional: list[Batch], extents: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(start, end) float64 from the inputs anchor and shape."""
    anchor, shape = positional
    if anchor.dtype != shape.dtype:
        raise ValueError(f"anchor and shape should have the same type, got {anchor.dtype.name} and {shape.dtype.name}")
    whole = anchor.dtype in INTEGERS
    if not len(anchor):
        return np.zeros(extents.shape), np.zeros(extents.shape)
    start, size = _rows(anchor, lengths, "anchor"), _rows(shape, lengths, "shape")
    if not whole and spec.constant("normalized_anchor"):
        start = start * extents
    if not whole and spec.constant("normalized_shape"):
        size = size * extents
    return start, start + size


def _rows(batch: Batch, lengths: np.ndarray, what: str) -> np.ndarray:
    """float64[samples, most] of a batch of vectors with `most` elements; SampleError for another length."""
    rows = np.zeros((len(batch), int(lengths.max(initial=0))))
    for i, length in enumerate(lengths.tolist()):
        row = batch.sample(i).reshape(-1)
        if len(row) != length:
            raise SampleError(i, f"expected {length} elements for the slice's {what}, got {len(row)}")
        # Python numbers in a pipeline arrive as float64. DALI converts them to float32.
        rows[i, :length] = row.astype(np.float32) if row.dtype == np.float64 else row
    return rows


def _named(arguments: Arguments, extents: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(start, end) from the named arguments. If an argument has no values for a sample, it counts as not given for that sample."""
    size = extents.astype(np.float32)
    nothing = np.full(extents.shape, np.nan)

    def values(name: str, dtype: object) -> np.ndarray:
        return arguments.rows(name, lengths, np.zeros(extents.shape), dtype)

    def absent(name: str) -> np.ndarray:
        found: np.ndarray = np.isnan(arguments.rows(name, lengths, nothing, np.float64)).all(axis=1) & (lengths > 0)
        return found

    relative = values("rel_start", np.float32) if arguments.given("rel_start") else None
    if relative is not None:
        start = (relative * size).astype(np.float64)
    else:
        start = values("start", np.float64)
    end = None
    if arguments.given("rel_end"):
        name, end = "rel_end", (values("rel_end", np.float32) * size).astype(np.float64)
    elif arguments.given("end"):
        name, end = "end", values("end", np.float64)
    elif arguments.given("rel_shape"):
        name, part = "rel_shape", _not_negative(values("rel_shape", np.float32), "rel_shape")
        if relative is not None:
            end = (relative.astype(np.float64) + part.astype(np.float64)) * extents
        else:
            end = (start.astype(np.float32) + part * size).astype(np.float64)
    elif arguments.given("shape"):
        name, end = "shape", start + _not_negative(values("shape", np.float64), "shape")
    if end is None:
        return start, extents.astype(np.float64)
    return start, np.where(absent(name)[:, None], extents, end)


def _not_negative(values: np.ndarray, name: str) -> np.ndarray:
    refuse_where(values < 0, lambda i: f"`{name}` must not be negative, got {values[i].tolist()}")
    return values
