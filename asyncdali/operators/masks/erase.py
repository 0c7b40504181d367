"""erase: regions of a sample filled with a value."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import DATA, Output
from ..base import Arg, Arguments, Iteration, Planned, SampleError, Schema, refuse_where, register
from ..moves.moving import MovingOperator
from ..moves.pieces import Pieces, dense_strides, fill_values, like, named_axes, normal_axes

_DEFAULT_LAYOUTS = {2: "HW", 3: "HWC", 4: "DHWC"}


@register
class Erase(MovingOperator):
    kernel_module = "erase_kernels"
    repeatable = True
    schema = Schema(
        name="erase",
        doc="""Fills regions of each sample with a value.

        `anchor` and `shape` list the regions of a sample one after another, with one number per axis. Samples may have different
        numbers of regions. Regions are clipped to the sample. Fractions of coordinates are dropped.

        Without `axes` and `axis_names`, the coordinates are for all axes of the layout but C, in the layout's order.""",
        accepts=(DATA,),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("anchor", "float_list", [], "Where the regions begin; by default at 0.", tensor=True),
            Arg("axes", "int_list", [1, 0], "The axes that the coordinates are for, by number; negative ones count from the back."),
            Arg("axis_names", "str", "HW", "The axes by their letters in the layout; used if given, instead of `axes`."),
            Arg("centered_anchor", "bool", False, "Whether `anchor` is the centre of a region."),
            Arg("fill_value", "float_list", [0.0], "The value: one, or one per channel (axis C of the layout).", tensor=True),
            Arg("normalized", "bool", False, "Whether `anchor` and `shape` are fractions of the extents."),
            Arg("normalized_anchor", "bool", False, "Whether `anchor` is a fraction of the extents."),
            Arg("normalized_shape", "bool", False, "Whether `shape` is a fraction of the extents."),
            Arg("shape", "float_list", [], "Extents of the regions.", tensor=True),
        ),
    )

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        axes = self._axes(source)
        begin, end = self._regions(source, axes, arguments)
        output = like(source)
        pieces = Pieces(output)
        pieces.add(source, source.shapes, dense_strides(source.shapes, source.itemsize))
        if begin.shape[1] and len(axes):
            values, offset, strides = self._fills(source, arguments)
            for k in range(begin.shape[1]):
                extents = source.shapes.copy()
                extents[:, axes] = end[:, k] - begin[:, k]
                target = (begin[:, k] * pieces.targets[:, axes]).sum(axis=1)
                # The offset of a region along the channels is also the offset of its fill values.
                pieces.add(values, extents, strides, offset + (begin[:, k] * strides[:, axes]).sum(axis=1), target_offset=target)
        return self.copied(pieces)

    def _axes(self, source: Batch) -> list[int]:
        if self.spec.given("axes") and not self.spec.given("axis_names"):
            return normal_axes(self.spec.constant("axes"), source.ndim)
        layout = source.layout or _DEFAULT_LAYOUTS.get(source.ndim, "")
        if self.spec.given("axis_names"):
            return named_axes(self.spec.constant("axis_names"), layout)
        if not layout:
            raise ValueError(f"{source.ndim}-D samples without a layout need `axes` or `axis_names`")
        return [axis for axis, letter in enumerate(layout) if letter != "C"]

    def _regions(self, source: Batch, axes: list[int], arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the regions, int64[samples, regions, axes], clipped to the sample; surplus regions are empty."""
        if self.spec.given("normalized") and (self.spec.given("normalized_anchor") or self.spec.given("normalized_shape")):
            raise ValueError("`normalized` excludes `normalized_anchor` and `normalized_shape`")
        shape, anchor = self._numbers("shape", arguments), self._numbers("anchor", arguments)
        given = self.spec.given("anchor")
        length, count = max(len(axes), 1), len(source)
        alike = not arguments.is_input("shape") and not arguments.is_input("anchor")
        shape = shape[:1] if alike else shape
        most = max((len(row) for row in shape), default=0) // length
        numbers = np.zeros((2, count, most, length), np.float32)
        for i, (extents, begins) in enumerate(zip(shape, anchor)):
            if (given and len(begins) != len(extents)) or len(extents) % length:
                raise SampleError(
                    i, f"`anchor` and `shape` must have equal lengths, a multiple of the number of axes ({len(axes)}); got {len(begins)} "
                    f"and {len(extents)}"
                )  # fmt: skip
            numbers[0, i].reshape(-1)[: len(extents)] = extents
            if given:
                numbers[1, i].reshape(-1)[: len(begins)] = begins
        if alike:
            numbers[:, 1:] = numbers[:, :1]
        sizes = source.shapes[:, None, axes].astype(np.float32)
        extents, begins = numbers
        if self.spec.constant("normalized") or self.spec.constant("normalized_shape"):
            extents = extents * sizes
        if self.spec.constant("normalized") or self.spec.constant("normalized_anchor"):
            begins = begins * sizes
        if self.spec.constant("centered_anchor"):
            begins = begins - extents / 2
        limit = source.shapes[:, None, axes]
        first = np.clip(np.nan_to_num(begins), -(2.0**31), 2.0**31).astype(np.int64)
        last = np.clip(np.nan_to_num(begins + extents), -(2.0**31), 2.0**31).astype(np.int64)
        begin = np.clip(first, 0, limit)
        return begin, np.clip(last, begin, limit)

    def _numbers(self, name: str, arguments: Arguments) -> list[np.ndarray]:
        """The values of an argument; each sample may have a different number."""
        if not arguments.is_input(name):
            return [np.array(arguments.constant(name), np.float32)] * arguments.count
        batch = arguments.batch(name)
        return [batch.sample(i).reshape(-1).astype(np.float32) for i in range(len(batch))]

    def _fills(self, source: Batch, arguments: Arguments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Fill values of all samples in one array, the start of each sample's values, and their strides."""
        alike = not arguments.is_input("fill_value")
        rows = self._numbers("fill_value", arguments)[: 1 if alike else None]
        counts = np.array([len(row) for row in rows] * (arguments.count if alike else 1), np.int64)
        values = fill_values(np.concatenate(rows), source.dtype)
        strides = np.zeros_like(source.shapes)
        layout = source.layout or _DEFAULT_LAYOUTS.get(source.ndim, "")
        for i in np.flatnonzero(counts != 1).tolist()[:1]:
            if "C" not in layout:
                raise SampleError(i, f"`fill_value` has {counts[i]} values, but there is no axis C in the layout {source.layout!r}")
            wrong = (counts != 1) & (counts != source.shapes[:, layout.index("C")])
            refuse_where(wrong, lambda k: f"`fill_value` has {counts[k]} values for {source.shapes[k, layout.index('C')]} channels")
            strides[:, layout.index("C")] = np.where(counts == 1, 0, values.itemsize)
        starts = np.zeros_like(counts) if alike else np.cumsum(counts) - counts
        return values, starts * values.itemsize, strides
