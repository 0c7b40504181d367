"""random_bbox_crop: random crops with a required overlap with boxes, and the boxes in them."""

from __future__ import annotations

import logging

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.tables import SAMPLES, Field, Table
from ...sampling.random_streams import StreamPosition
from ...sampling.stream_tables import POSITION, position_words
from ...types import DALIDataType
from ..accepts import CHOSEN, ELEMENTS, Input, Output, at_least
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, refuse_where, register
from ..random.random import StreamOperator
from .rows import all_rows, first_rows, rows_batch, taken_rows

BBOX_CROP = Table(
    "BBOX_CROP",
    POSITION,
    SAMPLES,
    Field("axes", "int64", "dimensions of a box"),
    Field("boxes", "float32[all, 2, axes]", "low corner and high corner of all samples' boxes"),
    Field("firsts", "int64[samples + 1]", "first box of each sample"),
    Field("thresholds", "float32[threshold_count]", "least overlaps"),
    Field("threshold_count", "int64", "number of thresholds"),
    Field("no_crop", "int64", "1: leaving the image whole is one more choice"),
    Field("attempts", "int64", "proposals for each threshold that is picked"),
    Field("all_attempts", "int64", "proposals of a sample; -1: without limit"),
    Field("scaling", "float32[2]", "range of the window's extents"),
    Field("aspects", "float32[aspect_count, 2]", "ranges of aspect ratios"),
    Field("aspect_count", "int64", "number of ranges"),
    Field("crop_shapes", "int64[samples, axes]", "extents of the window in pixels, or 0"),
    Field("input_shapes", "int64[samples, axes]", "extents of the image in pixels, or 0"),
    Field("need_all", "int64", "1: all boxes must overlap the window enough; 0: one box"),
    Field("iou", "int64", "1: overlaps are intersections over unions; 0: over the box"),
    Field("prune", "float32[1]", "the least part of a box in the window, or 0: the centre decides"),
    Field("anchors", "float32[samples, axes]", "low corners of the windows; written by the kernel"),
    Field("extents", "float32[samples, axes]", "of the windows; written by the kernel"),
    Field("kept", "int64[samples]", "boxes that are left; written by the kernel"),
    Field("indices", "int32[all]", "numbers of these boxes in their samples; written by the kernel"),
    Field("moved", "float32[all, 2, axes]", "these boxes in their windows; written by the kernel"),
    Field("settled", "int64[1]", "samples that got the best of all proposals, for none was good enough; written by the kernel"),
)

log = logging.getLogger("asyncdali")

_METRICS = ("iou", "overlap")
_STARTS, _ENDS, _SIZES = "xyz", "XYZ", "WHD"


@register
class RandomBBoxCrop(StreamOperator):
    reads = (0, 1)
    eager = True
    schema = Schema(
        name="random_bbox_crop",
        doc="""Draws a crop window with a given overlap with boxes. Boxes are moved into the window; boxes outside are dropped.

        Inputs: boxes, FLOAT [n, 4] or [n, 6], relative to the image; optionally labels, [n, ...].
        Outputs: anchor and shape of the window (FLOAT, x first; relative, or in pixels with `crop_shape`), the boxes that are left, their
        labels (if given), their indices (INT32, with `output_bbox_indices`).
        Windows are drawn until the overlap of one reaches the threshold. A new threshold is drawn from `thresholds` for every
        `num_attempts` windows. Streams are DALI's, bit for bit, for the same seed.""",
        accepts=(Input((DALIDataType.FLOAT,), name="boxes", ranks=(2,)), Input(ELEMENTS, name="labels", ranks=at_least(1))),
        gives=(
            Output(DALIDataType.FLOAT, 1, ""), Output(DALIDataType.FLOAT, 1, ""), Output(DALIDataType.FLOAT, 2, ""),
            Output(CHOSEN, CHOSEN, ""),
        ),
        inputs=(1, 2),
        input_names=("boxes", "labels"),
        outputs=lambda constants: 3 + bool(constants.get("output_bbox_indices")),
        output_per_optional_input=True,
        seeded=True,
        args=(
            Arg("all_boxes_above_threshold", "bool", True, "All boxes must overlap the window enough, or one.", stream=True),
            Arg("allow_no_crop", "bool", True, "Leaving the image whole is one more choice beside the thresholds.", stream=True),
            Arg(
                "aspect_ratio", "float_list", [1.0, 1.0],
                "Range of the window's width / height; for 3-D boxes one range or three (x/y, x/z, y/z).", stream=True,
            ),
            Arg("bbox_layout", "layout", None, 'Meaning of a box\'s numbers: a permutation of "xyXY", "xyWH", "xyzXYZ" or "xyzWHD".'),
            Arg(
                "bbox_prune_threshold", "float", None,
                "Boxes with less than this part in the window are dropped; by default boxes whose centre is outside.", stream=True,
            ),
            Arg("crop_shape", "int_list", None, "Shape of the window in pixels; needs `input_shape`.", tensor=True, stream=True),
            Arg("input_shape", "int_list", None, "Shape of the image in pixels, for aspect ratios in pixels.", tensor=True, stream=True),
            Arg("ltrb", "bool", True, 'Deprecated: False is `bbox_layout="xyWH"`.'),
            Arg("num_attempts", "int", 1, "Proposals for each threshold that is picked.", stream=True),
            Arg("output_bbox_indices", "bool", False, "One more output: the indices of the boxes that are left."),
            Arg("quiet", "bool", False, "Do not log a warning if no window reached the threshold and the best window is used."),
            Arg("scaling", "float_list", [1.0, 1.0], "Range of the window's extents, relative to the image.", stream=True),
            Arg("shape_layout", "layout", None, 'Order of `crop_shape` and `input_shape`, "WH" or "WHD" by default.', stream=True),
            Arg("threshold_type", "str", "iou", 'The overlap: "iou", or "overlap" (the part of the box in the window).', stream=True,
                choices=_METRICS),
            Arg("thresholds", "float_list", [0.0], "Least overlaps; one is picked at random.", stream=True),
            Arg("total_num_attempts", "int", -1, "Number of windows after which the best one is used; -1: no limit.", stream=True),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._check(spec)
        from . import random_bbox_crop_kernels, rows_kernels

        self._kernel = random_bbox_crop_kernels.draw_crops
        self._kernel.compile()
        self._find_corners = random_bbox_crop_kernels.find_corners
        self._find_corners.compile()
        self._quiet = bool(spec.constant("quiet"))
        self._layouts: dict[int, _BoxLayout] = {}
        self._arrays = {name: np.array(spec.constant(name), np.float32) for name in ("thresholds", "scaling", "aspect_ratio")}
        prune = spec.constant("bbox_prune_threshold")
        if prune is not None:
            self._arrays["prune"] = np.array([prune], np.float32)
        self._constants = self._constant_words(spec)
        self._gather_rows = rows_kernels.gather_rows
        self._gather_rows.compile()

    def _constant_words(self, spec: Spec) -> dict[str, int]:
        """The words of BBOX_CROP that are equal in all iterations."""
        at = {name: address_of(array) for name, array in self._arrays.items()}
        return {
            "thresholds": at["thresholds"], "threshold_count": len(self._arrays["thresholds"]),
            "no_crop": bool(spec.constant("allow_no_crop")) and not spec.given("crop_shape"), "attempts": spec.constant("num_attempts"),
            "all_attempts": spec.constant("total_num_attempts"), "scaling": at["scaling"], "aspects": at["aspect_ratio"],
            "aspect_count": len(self._arrays["aspect_ratio"]) // 2, "need_all": bool(spec.constant("all_boxes_above_threshold")),
            "iou": spec.constant("threshold_type") == "iou", "prune": at.get("prune", 0),
        }  # fmt: skip

    @staticmethod
    def _check(spec: Spec) -> None:
        if spec.given("bbox_layout") and spec.given("ltrb"):
            raise ValueError("`ltrb` is deprecated; give only `bbox_layout`")
        if spec.given("crop_shape"):
            both = [name for name in ("scaling", "aspect_ratio") if spec.given(name)]
            if both:
                raise ValueError(f"`{both[0]}` is incompatible with providing the crop shape explicitly")
            if not spec.given("input_shape"):
                raise ValueError("`input_shape` is required when providing the crop shape explicitly")
            if spec.given("allow_no_crop") and spec.constant("allow_no_crop"):
                raise ValueError(
                    "`allow_no_crop=True` contradicts `crop_shape`, the shape of every window; leave out one of the two arguments"
                )
        scaling, aspects, thresholds = spec.constant("scaling"), spec.constant("aspect_ratio"), spec.constant("thresholds")
        if len(scaling) != 2 or not 0 <= scaling[0] <= scaling[1]:
            raise ValueError(f"`scaling` must be two numbers with 0 <= smallest <= largest, got {scaling}")
        if len(aspects) not in (2, 6) or any(not 0 < a <= b for a, b in zip(aspects[::2], aspects[1::2], strict=True)):
            raise ValueError(f"`aspect_ratio` must be one or three pairs with 0 < smallest <= largest, got {aspects}")
        if not thresholds or not all(0 <= threshold <= 1 for threshold in thresholds):
            raise ValueError(f"`thresholds` must be numbers from 0 to 1, at least one; got {thresholds}")
        if spec.constant("num_attempts") <= 0:
            raise ValueError(f"`num_attempts` must be positive, got {spec.constant('num_attempts')}")
        if spec.constant("threshold_type") not in _METRICS:
            raise ValueError(f"`threshold_type` is {spec.constant('threshold_type')!r}; supported are {', '.join(_METRICS)}")
        prune = spec.constant("bbox_prune_threshold")
        if prune is not None and not 0 <= prune <= 1:
            raise ValueError(f"`bbox_prune_threshold` must be from 0 to 1, got {prune}")

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        real = DALIDataType.FLOAT
        return [real, real, real, *dtypes[1:2], DALIDataType.INT32][: self.spec.output_count]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self._layout(self._axes(source.shapes[:, 1]))
        firsts = first_rows(source.shapes[:, 0])
        boxes = self._corners(all_rows(source), layout, firsts)
        anchors, extents, kept, indices, moved = self._draw(boxes, firsts, layout.axes, arguments, iteration.position)
        left = rows_batch(layout.of_corners(moved), firsts, kept, DALIDataType.FLOAT)
        outputs = [Batch.from_values(anchors), Batch.from_values(extents), left]
        if len(inputs) == 2:
            outputs.append(rows_batch(self._labels(inputs[1], source, firsts, kept, indices), firsts, kept, inputs[1].dtype))
        if self.spec.constant("output_bbox_indices"):
            outputs.append(rows_batch(indices, firsts, kept, DALIDataType.INT32))
        return Planned(outputs)

    # --- boxes

    @staticmethod
    def _axes(widths: np.ndarray) -> int:
        if not len(widths):
            return 2
        width = int(widths[0])
        wrong = widths != width
        if width not in (4, 6) or wrong.any():
            i = 0 if width not in (4, 6) else int(np.argmax(wrong))
            raise SampleError(i, f"boxes must have 4 or 6 numbers, the same in all samples; got {int(widths[i])}")
        return width // 2

    def _layout(self, axes: int) -> _BoxLayout:
        """The layout of boxes in so many dimensions."""
        found = self._layouts.get(axes)
        if found is None:
            self._layouts[axes] = found = _BoxLayout(self.spec, axes)
        return found

    def _corners(self, rows: np.ndarray, layout: _BoxLayout, firsts: np.ndarray) -> np.ndarray:
        """float32[all, 2 axes]: low corners, high corners."""
        rows, axes = np.ascontiguousarray(rows, np.float32), layout.axes
        corners = np.empty((int(firsts[-1]), 2 * axes), np.float32)
        wrong = self._find_corners(
            address_of(rows), len(corners), axes, address_of(layout.columns), layout.sized, address_of(corners)
        )  # fmt: skip
        if wrong:
            k = wrong - 1
            i = int(np.searchsorted(firsts, k, side="right")) - 1
            box = rows.reshape(-1, 2 * axes)[k].tolist()
            raise SampleError(i, f"box {box} ({layout.text}) is out of bounds: boxes are relative to the image, from 0 to 1")
        return corners

    def _labels(self, labels: Batch, source: Batch, firsts: np.ndarray, kept: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """The labels of the remaining boxes, and the start of each sample's labels."""
        found, expected = labels.shapes[:, 0], source.shapes[:, 0]
        refuse_where(
            found != expected, lambda i: f"the sample has {found[i]} labels and {expected[i]} boxes; expected one label per box"
        )
        return taken_rows(all_rows(labels), firsts, kept, indices, self._gather_rows)

    # --- draws

    def _shape(self, name: str, axes: int, arguments: Arguments) -> np.ndarray | None:
        """A shape argument in x-first order: int64[samples, axes]."""
        if not arguments.given(name):
            return None
        values = arguments.vectors(name, axes, np.int64)
        order = self.spec.constant("shape_layout")
        if order:
            if sorted(order) != sorted(_SIZES[:axes]):
                raise ValueError(f'`shape_layout` "{order}" is not a permutation of "{_SIZES[:axes]}"')
            values = values[:, [order.index(letter) for letter in _SIZES[:axes]]]
        refuse_where(values <= 0, lambda i: f"`{name}` must be positive, got {values[i].tolist()}")
        return np.ascontiguousarray(values)

    def _draw(
        self, boxes: np.ndarray, firsts: np.ndarray, axes: int, arguments: Arguments, position: StreamPosition
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(anchors and extents of windows float32[samples, axes], number of kept boxes int64[samples], their indices, the boxes relative to
        their windows)."""
        count = len(firsts) - 1
        crop, shape = self._shape("crop_shape", axes, arguments), self._shape("input_shape", axes, arguments)
        if self._constants["aspect_count"] == 3 and axes == 2:
            raise ValueError("`aspect_ratio` has three ranges; 2-D boxes have one")
        anchors, extents, kept = np.empty((count, axes), np.float32), np.empty((count, axes), np.float32), np.empty(count, np.int64)
        indices, moved, settled = np.empty(len(boxes), np.int32), np.empty_like(boxes), np.zeros(1, np.int64)
        table, keep = BBOX_CROP.make(
            **position_words(position), **self._constants, samples=count, axes=axes, boxes=boxes, firsts=firsts,
            crop_shapes=_or_zero(crop), input_shapes=_or_zero(shape), anchors=anchors, extents=extents, kept=kept, indices=indices,
            moved=moved, settled=settled,
        )  # fmt: skip
        failed = self._kernel(address_of(table))
        del keep
        if failed:
            message = "no window overlaps the boxes as required; give `total_num_attempts`, `allow_no_crop` or a threshold of 0"
            raise SampleError(failed - 1, message)
        if settled[0] and not self._quiet:
            self._quiet = True  # The warning is given once.
            log.warning("%s: %d of %d samples got the best of %d windows, none of which was good enough; `quiet` silences this",
                        self.spec.name, settled[0], count, self._constants["all_attempts"])  # fmt: skip
        return anchors, extents, kept, indices, moved


class _BoxLayout:
    """The order of a box's numbers.

    text     the layout, for messages
    columns  int64[2 axes]: the places of the low corners and of the high corners (`sized`: of the extents)
    """

    def __init__(self, spec: Spec, axes: int):
        given: str | None = spec.constant("bbox_layout")
        corners, sizes = _STARTS[:axes] + _ENDS[:axes], _STARTS[:axes] + _SIZES[:axes]
        self.text = given or (corners if spec.constant("ltrb") else sizes)
        if sorted(self.text) not in (sorted(corners), sorted(sizes)):
            raise ValueError(f'`bbox_layout` "{self.text}" does not fit boxes of {2 * axes} numbers')
        self.axes, self.sized = axes, _ENDS[0] not in self.text
        self.columns = np.array([self.text.index(letter) for letter in (sizes if self.sized else corners)], np.int64)
        self._as_corners = self.text == corners

    def of_corners(self, corners: np.ndarray) -> np.ndarray:
        """Boxes of this layout, from low corners and high corners."""
        if self._as_corners:
            return corners
        axes = self.axes
        low, high = corners[:, :axes], corners[:, axes:]
        boxes = np.empty_like(corners)
        boxes[:, self.columns[:axes]] = low
        boxes[:, self.columns[axes:]] = high - low if self.sized else high
        return boxes


def _or_zero(array: np.ndarray | None) -> np.ndarray | int:
    return 0 if array is None else array
