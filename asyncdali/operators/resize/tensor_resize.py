"""tensor_resize: resize up to three axes of a tensor, whatever the axes mean."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ..accepts import Input, Output, argument, at_least
from ..base import Arg, Arguments, Iteration, Planned, Schema, Spec, register
from ..moves.pieces import named_axes, normal_axes
from . import resize_rules as rules
from .resize import RESIZE_ARGS, TYPES, Resize

_KEPT = (
    "antialias", "dtype", "interp_type", "mag_filter", "max_size", "min_filter", "minibatch_size", "roi_end", "roi_relative", "roi_start",
    "subpixel_scale", "temp_buffer_hint",
)  # fmt: skip
_MOST_AXES = 3
_WIDE = 4  # Along the last axis, the kernels are fast for at most this many channels.


@register
class TensorResize(Resize):
    repeatable = True
    schema = Schema(
        name="tensor_resize",
        aliases=("experimental.tensor_resize",),
        doc="""Resizes some axes of a tensor, by linear or other interpolation (see `resize`).

        The axes are given by `axes` or `axis_names` (all by default), their extents by `sizes` or by `scales`, in the order of the axes;
        a region by `roi_start` and `roi_end` alike. From the first to the last of them there may be three axes; adjacent unchanged
        axes in between count as one. Element types: UINT8, INT16, UINT16, FLOAT.""",
        accepts=(Input(TYPES, name="tensors", ranks=at_least(1)),),
        gives=(Output(type=argument("dtype")),),
        devices=("cpu", "gpu"),
        args=(
            *(arg for arg in RESIZE_ARGS if arg.name in _KEPT),
            Arg(
                "alignment", "float_list", [0.5],
                "Point of the region that keeps its place if a fractional size is rounded: 0 is its start, 1 its end; one number per axis, "
                "or one for all.",
                tensor=True,
            ),
            Arg("axes", "int_list", None, "The axes; negative ones count from the back."),
            Arg("axis_names", "layout", None, "The axes by their letters in the layout."),
            Arg(
                "mode", "str", "default",
                '"default" (missing extents take the mean scale of the others), "stretch" (they are not scaled); "not_larger", '
                '"not_smaller" (one scale for all, no extent above or below the given one; not with `scales`).',
            ),
            Arg("scales", "float_list", None, "Output extents per extent of the whole input; 0 = not given, negative flips.", tensor=True),
            Arg("size_rounding", "str", "round", 'Rounding of fractional extents: "round", "truncate" or "ceil".', choices=rules.ROUNDINGS),
            Arg("sizes", "float_list", None, "Output extents; 0 = not given, negative flips; one for all axes is enough.", tensor=True),
        ),
    )  # fmt: skip

    def _check_size_arguments(self, spec: Spec) -> None:
        if spec.given("sizes") == spec.given("scales"):
            raise ValueError("Need one of `sizes` or `scales`, but not both")
        if spec.given("axes") and spec.given("axis_names"):
            raise ValueError("`axes` and `axis_names` are mutually exclusive")
        self._mode = spec.constant("mode")
        if self._mode not in rules.MODES:
            raise ValueError(f"Invalid resize mode: {self._mode}; allowed are {', '.join(rules.MODES)}")
        if self._mode.startswith("not_") and spec.given("scales"):
            raise ValueError(f"`scales` cannot be given with the mode {self._mode!r}")
        if spec.constant("size_rounding") not in rules.ROUNDINGS:
            raise ValueError(f"`size_rounding` is {spec.constant('size_rounding')!r}; allowed are {', '.join(rules.ROUNDINGS)}")

    def _fixed_extents(self, spec: Spec) -> list[int] | None:
        return None

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        axes = self._axes(source)
        dtype = self._output_type(source.dtype)
        geometry = self._geometry(source.shapes[:, axes], arguments, iteration)
        shapes, first, whole = collapsed(source.shapes, axes, geometry)
        resampling = self._resampling.Resampling(shapes, first, whole, self._filters(arguments), bool(self.spec.constant("antialias")))
        extents = source.shapes.copy()
        extents[:, axes] = np.where(source.shapes[:, axes] > 0, geometry.extents, 0)
        output = Batch(extents, dtype, source.layout, device=source.device, source_info=source.source_info)
        return Planned([output], [resampling.step(source.addresses, output.addresses, storage_dtype(source.dtype), storage_dtype(dtype))])

    def _axes(self, source: Batch) -> list[int]:
        names, axes = self.spec.constant("axis_names"), self.spec.constant("axes")
        if names:
            return named_axes(names, source.layout)
        return list(range(source.ndim)) if axes is None else normal_axes(axes, source.ndim)

    def _size_rules(self, usual: rules.SizeRules, axes: int, arguments: Arguments) -> rules.SizeRules:
        return usual._replace(rounding=self.spec.constant("size_rounding"), alignment=arguments.vectors("alignment", axes))

    def _requested(self, spatial: np.ndarray, arguments: Arguments) -> np.ndarray:
        axes = spatial.shape[1]
        if arguments.given("sizes"):
            return arguments.vectors("sizes", axes)
        return arguments.vectors("scales", axes) * spatial.astype(np.float32)


def collapsed(shapes: np.ndarray, axes: list[int], geometry: rules.Geometry) -> tuple[np.ndarray, int, rules.Geometry]:
    """Express the resampling with few axes: (shapes of the inputs int64[samples, axes], first axis of the geometry, geometry).

    shapes    int64[samples, ndim]; `axes` are those of `geometry`, in any order
    ValueError if more than three axes remain between the first and the last resized axis.
    """
    columns = [axes.index(axis) for axis in sorted(axes)]
    extents = np.broadcast_to(geometry.extents, (len(shapes), len(axes)))
    lo, hi = geometry.lo, geometry.hi
    assert lo is not None and hi is not None
    own = shapes[:, axes]
    places = _places([axes[k] for k in columns])
    if len(places) > _MOST_AXES:
        columns = [k for k in columns if ((extents[:, k] != own[:, k]) | (lo[:, k] != 0) | (hi[:, k] != own[:, k])).any()]
        places = _places([axes[k] for k in columns])
    if len(places) > _MOST_AXES:
        raise ValueError(
            f"at most {_MOST_AXES} axes can be resized, counting unchanged axes in between; got axes {sorted(axes)} of "
            f"{shapes.shape[1]}, of which {[axes[k] for k in columns]} change"
        )
    begin = places[0].start if places else 0
    stop = places[-1].stop if places else 0
    outer, inner = shapes[:, :begin].prod(axis=1), shapes[:, stop:].prod(axis=1)
    kept = (
        np.stack([shapes[:, place.start : place.stop].prod(axis=1) for place in places], 1)
        if places
        else np.empty((len(shapes), 0), np.int64)
    )
    new, low, high = kept.copy(), np.zeros(kept.shape), kept.astype(np.float64)
    for k in columns:
        to = next(at for at, place in enumerate(places) if axes[k] in place)
        new[:, to], low[:, to], high[:, to] = extents[:, k], lo[:, k], hi[:, k]
    if not places or (len(places) == 1 and (inner > _WIDE).any()):  # Pixels of more than _WIDE elements become rows.
        one = np.ones((len(shapes), 1))
        kept, new = np.hstack([kept, one.astype(np.int64)]), np.hstack([new, one.astype(np.int64)])
        low, high = np.hstack([low, 0 * one]), np.hstack([high, one])
    return np.column_stack([outer, kept, inner]), 1, rules.Geometry(new, low, high)


def _places(axes: list[int]) -> list[range]:
    """Groups of axes from the first to the last of `axes` (sorted). Resized axes stay separate; adjacent axes between them are merged."""
    places: list[range] = []
    for axis in axes:
        if places and axis > places[-1].stop:
            places.append(range(places[-1].stop, axis))
        places.append(range(axis, axis + 1))
    return places
