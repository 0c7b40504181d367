"""Where slices lie: the arguments start/end/shape (absolute or relative) and positional anchor/shape, over a whole batch.

Shared by operators that cut a window named by axes (``decoders.image_slice``, ``slice``). Precision and rounding are those of DALI 2.4
(probed with coordinates on halves): named relative starts and ends are products in float32; positional anchors and shapes, and the
end made of a relative start and a relative shape, in float64. All are rounded half away from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import INTEGERS
from ..base import Arg, Arguments, SampleError, Spec

SLICE_ARGS = (
    Arg("axes", "int_list", [1, 0], "Axes that the coordinates are for; negative ones count from the back.", tensor=True),
    Arg("axis_names", "layout", "WH", "The same by layout letters; give one of the two."),
    Arg("start", "int_list", None, "First coordinates (elements).", tensor=True),
    Arg("rel_start", "float_list", None, "First coordinates, as fractions of the extents.", tensor=True),
    Arg("end", "int_list", None, "Coordinates past the last (elements).", tensor=True),
    Arg("rel_end", "float_list", None, "Coordinates past the last, as fractions of the extents.", tensor=True),
    Arg("shape", "int_list", None, "Extents of the window (elements).", tensor=True),
    Arg("rel_shape", "float_list", None, "Extents of the window, as fractions of the input's.", tensor=True),
    Arg("normalized_anchor", "bool", True, "Whether a positional anchor of floats is relative; integers are always elements."),
    Arg("normalized_shape", "bool", True, "Whether a positional shape of floats is relative; integers are always elements."),
)
_STARTS, _ENDS = ("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")
COORDINATES = (*INTEGERS, DALIDataType.FLOAT, DALIDataType.FLOAT64)
"""Element types of anchors and shapes that are inputs."""


def check_slice(spec: Spec) -> None:
    """Refuse combinations of arguments and inputs that have no meaning: ValueError. For an operator's constructor."""
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
    """(anchors, window extents), int64[samples, ndim]; axes that are not named stay whole.

    positional   anchor and shape batches, or nothing
    extents      int64[samples, ndim], the shapes of what is cut; `layout` has a letter for each of these axes

    Windows may lie outside: see ``crop_rules.outside``. Raises ValueError or SampleError for axes that do not exist and for ends before
    starts.
    """
    axes = _axes(arguments, extents.shape[1], layout)
    chosen = np.take_along_axis(extents, axes, 1)
    start, end = _positional(spec, positional, chosen) if positional else _named(arguments, chosen)
    numbers = np.isfinite(start) & np.isfinite(end)
    if not numbers.all():
        i = int(np.flatnonzero(~numbers.all(axis=1))[0])
        raise SampleError(i, f"slice coordinates must be numbers, got start={start[i].tolist()} end={end[i].tolist()}")
    if (end < start).any():
        i = int(np.flatnonzero((end < start).any(axis=1))[0])
        raise SampleError(i, f"end coordinates can't be before start coordinates: start={start[i].tolist()} end={end[i].tolist()}")
    first, last = rounded(start), rounded(end)
    anchors, windows = np.zeros_like(extents), extents.copy()
    np.put_along_axis(anchors, axes, first, 1)
    np.put_along_axis(windows, axes, last - first, 1)
    return anchors, windows


def rounded(values: np.ndarray) -> np.ndarray:
    """int64 of `values`, halves away from zero; what no image can reach is clipped to +-2**40."""
    wide = np.nan_to_num(values.astype(np.float64))
    return np.clip(np.sign(wide) * np.floor(np.abs(wide) + 0.5), -(2.0**40), 2.0**40).astype(np.int64)


def _axes(arguments: Arguments, ndim: int, layout: str) -> np.ndarray:
    """int64[samples, n] axis numbers, checked."""
    count = arguments.count
    if arguments.given("axis_names") or not arguments.given("axes"):
        names = arguments.constant("axis_names")
        missing = [name for name in names if name not in layout]
        if missing:
            raise ValueError(f"axis '{missing[0]}' is not present in the layout {layout!r}")
        axes = np.tile(np.array([layout.index(name) for name in names], np.int64), (count, 1))
    else:
        axes = np.array(arguments.vectors("axes", dtype=np.int64))
    wrong = (axes < -ndim) | (axes >= ndim)
    if wrong.any():
        raise ValueError(f"axis {int(axes[wrong][0])} is out of range; expected -{ndim} to {ndim - 1}")
    axes = np.where(axes < 0, axes + ndim, axes)
    ordered = np.sort(axes, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise ValueError(f"an axis occurs more than once in the axes {axes[0].tolist()}")
    return axes


def _positional(spec: Spec, positional: list[Batch], extents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(start, end) float64 from the inputs anchor and shape."""
    anchor, shape = positional
    if anchor.dtype != shape.dtype:
        raise ValueError(f"anchor and shape should have the same type, got {anchor.dtype.name} and {shape.dtype.name}")
    whole = anchor.dtype in INTEGERS
    start, size = _rows(anchor, extents.shape[1], "anchor"), _rows(shape, extents.shape[1], "shape")
    if not whole and spec.constant("normalized_anchor"):
        start = start * extents
    if not whole and spec.constant("normalized_shape"):
        size = size * extents
    return start, start + size


def _rows(batch: Batch, length: int, what: str) -> np.ndarray:
    """float64[samples, length] of a batch of vectors; SampleError on another length."""
    rows = np.empty((len(batch), length))
    for i in range(len(batch)):
        row = batch.sample(i).reshape(-1)
        if len(row) != length:
            raise SampleError(i, f"expected {length} elements for the slice's {what}, got {len(row)}")
        # Numbers written in the pipeline arrive as float64 and mean float32 ones.
        rows[i] = row.astype(np.float32) if row.dtype == np.float64 else row
    return rows


def _named(arguments: Arguments, extents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(start, end) from the named arguments."""
    length, size = extents.shape[1], extents.astype(np.float32)

    def values(name: str, dtype: Any) -> np.ndarray:
        return arguments.vectors(name, length, dtype)

    relative = values("rel_start", np.float32) if arguments.given("rel_start") else None
    if relative is not None:
        start = (relative * size).astype(np.float64)
    else:
        start = values("start", np.float64) if arguments.given("start") else np.zeros(extents.shape)
    if arguments.given("rel_end"):
        end = (values("rel_end", np.float32) * size).astype(np.float64)
    elif arguments.given("end"):
        end = values("end", np.float64)
    elif arguments.given("rel_shape"):
        part = _not_negative(values("rel_shape", np.float32), "rel_shape")
        if relative is not None:
            end = (relative.astype(np.float64) + part.astype(np.float64)) * extents
        else:
            end = (start.astype(np.float32) + part * size).astype(np.float64)
    elif arguments.given("shape"):
        end = start + _not_negative(values("shape", np.float64), "shape")
    else:
        end = extents.astype(np.float64)
    return start, end


def _not_negative(values: np.ndarray, name: str) -> np.ndarray:
    if (values < 0).any():
        i = int(np.flatnonzero((values < 0).any(axis=1))[0])
        raise SampleError(i, f"`{name}` must not be negative, got {values[i].tolist()}")
    return values
