"""bbox_rotate: adjust boxes to a rotated image."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.tables import INPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import Input, Output, of_input
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, refuse_where, register
from ..warp import rotate_rules
from .rows import first_rows, rows_batch

BBOX_ROTATE = Table(
    "BBOX_ROTATE",
    INPUTS,
    SAMPLES,
    Field("firsts", "int64[samples + 1]", "first box of each sample among those of the batch"),
    Field("labels", "addresses", "of the samples' labels, or 0"),
    Field("rotations", "float64[samples, 2, 2]", "source directions of a step on the canvas along x and y"),
    Field("rotation_step", "int64", "bytes between the rotations of two samples; 0: one for all"),
    Field("images", "int64[samples, 2]", "width and height"),
    Field("canvases", "int64[samples, 2]", "width and height"),
    Field("size_step", "int64", "bytes between images, and between canvases; 0: one for all"),
    Field("corners", "int64", "1: boxes are two corners; 0: a corner and extents"),
    Field("relative", "int64", "1: boxes are relative to the image; 0: in pixels"),
    Field("mode", "int64", "index in MODES"),
    Field("least", "float64[1]", "the part of a box that must be left"),
    Field("boxes", "float32[all, 4]", "those that are left, from the sample's first on; written by the kernel"),
    Field("new_labels", "int32[all]", "their labels; written by the kernel"),
    Field("kept", "int64[samples]", "boxes that are left; written by the kernel"),
)
MODES = ("expand", "fixed", "halfway")

_LAYOUTS = ("xyWH", "xyXY")


@register
class BBoxRotate(Operator):
    reads = (0, 1)
    eager = True
    schema = Schema(
        name="bbox_rotate",
        doc="""Moves boxes in the same way as ``rotate`` with the same `angle`, `keep_size` and `size` moves their image.

        Inputs: boxes, FLOAT [n, 4]; optionally labels, INT32 [n] or [n, 1]. Outputs: the boxes, clipped to the new canvas, and
        their labels. Boxes of which less than `remove_threshold` is left, and boxes without area, are removed.""",
        accepts=(Input((DALIDataType.FLOAT,), name="boxes", ranks=(2,)), Input((DALIDataType.INT32,), name="labels", ranks=(1, 2))),
        gives=(Output(), Output(of_input(1), of_input(1), of_input(1))),
        inputs=(1, 2),
        input_names=("bboxes", "labels"),
        output_per_optional_input=True,
        args=(
            Arg("angle", "float", REQUIRED, "Angle in degrees, counter-clockwise.", tensor=True),
            Arg("bbox_layout", "layout", "xyXY", 'Meaning of a box\'s numbers: "xyXY" (two corners) or "xyWH" (corner and extents).'),
            Arg("bbox_normalized", "bool", True, "Boxes are relative to the image (0 to 1), before and after; otherwise in pixels."),
            Arg("input_shape", "int_list", REQUIRED, "Shape of the image that is rotated.", tensor=True),
            Arg("keep_size", "bool", False, "The canvas has the size of the image."),
            Arg(
                "mode", "str", "expand",
                '"expand": the box around the rotated box; "fixed": a box of the extents before, turned to fit; "halfway": their mean.',
            ),
            Arg("remove_threshold", "float", 0.1, "Least part of a box that must be left on the canvas, 0 to below 1."),
            Arg("shape_layout", "layout", "HW", "Meaning of the numbers of `input_shape`; further numbers are ignored."),
            Arg("size", "float_list", [], "Extents (H, W) of the canvas; fractions are dropped. By default the whole image fits.",
                tensor=True),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        for name, allowed in (("bbox_layout", _LAYOUTS), ("mode", MODES)):
            if spec.constant(name) not in allowed:
                raise ValueError(f"`{name}` is {spec.constant(name)!r}; supported are {', '.join(allowed)}")
        if not 0 <= spec.constant("remove_threshold") < 1:
            raise ValueError(f"`remove_threshold` must be from 0 to below 1, got {spec.constant('remove_threshold')}")
        layout = spec.constant("shape_layout")
        if layout.count("H") != 1 or layout.count("W") != 1:
            raise ValueError(f'`shape_layout` "{layout}" must have one H and one W')
        if spec.constant("keep_size") and self._sized(spec):
            raise ValueError("`keep_size` and `size` exclude each other; give one of them")
        from .bbox_rotate_kernels import move_boxes

        self._move = move_boxes
        self._move.compile()
        self._least = np.array([spec.constant("remove_threshold")], np.float64)
        self._constant: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @staticmethod
    def _sized(spec: Spec) -> bool:
        return "size" in spec.argument_inputs or bool(spec.constant("size"))

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        _refuse(source.shapes[:, 1] != 4, "boxes must be of shape [n, 4], got", source.shapes)
        firsts = first_rows(source.shapes[:, 0])
        boxes, kept = np.empty((int(firsts[-1]), 4), np.float32), np.empty(len(source), np.int64)
        labels = self._labels(inputs[1], source) if len(inputs) == 2 else None
        new_labels = None if labels is None else np.empty((len(boxes), *[1] * (labels.ndim - 1)), np.int32)
        self._call(source, firsts, labels, boxes, new_labels, kept, arguments)
        outputs = [rows_batch(boxes, firsts, kept, DALIDataType.FLOAT, source.layout)]
        if labels is not None and new_labels is not None:
            outputs.append(rows_batch(new_labels, firsts, kept, DALIDataType.INT32, labels.layout))
        return Planned(outputs)

    def _call(
        self, source: Batch, firsts: np.ndarray, labels: Batch | None, boxes: np.ndarray, new_labels: np.ndarray | None, kept: np.ndarray,
        arguments: Arguments,
    ) -> None:  # fmt: skip
        spec = self.spec
        rotations, images, canvases = self._canvas(arguments)
        alone = len(images) != len(source)  # Constants: one row for all samples.
        table, keep = BBOX_ROTATE.make(
            inputs=source.addresses, samples=len(source), firsts=firsts, labels=0 if labels is None else labels.addresses,
            rotations=rotations, rotation_step=0 if alone else 32, images=images, canvases=canvases, size_step=0 if alone else 16,
            corners=spec.constant("bbox_layout") == "xyXY", relative=spec.constant("bbox_normalized"),
            mode=MODES.index(spec.constant("mode")), least=self._least, boxes=boxes, new_labels=0 if new_labels is None else new_labels,
            kept=kept,
        )  # fmt: skip
        self._move(address_of(table))
        del keep

    @staticmethod
    def _labels(labels: Batch, boxes: Batch) -> Batch:
        if labels.ndim == 2:
            _refuse(labels.shapes[:, 1] != 1, "labels must be of shape [n] or [n, 1], got", labels.shapes)
        found, expected = labels.shapes[:, 0], boxes.shapes[:, 0]
        refuse_where(
            found != expected, lambda i: f"the sample has {found[i]} labels and {expected[i]} boxes; expected one label per box"
        )
        return labels

    def _canvas(self, arguments: Arguments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Like :meth:`_canvases`. For constants the result is one row for all samples, computed once."""
        if self.spec.argument_inputs or not arguments.count:
            return self._canvases(arguments)
        if self._constant is None:
            self._constant = self._canvases(Arguments(self.spec, {}, 1))
        return self._constant

    def _canvases(self, arguments: Arguments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rotations float64[samples, 2, 2], and (width, height) of images and canvases, int64[samples, 2]."""
        spec, layout = self.spec, self.spec.constant("shape_layout")
        angle = arguments.scalars("angle")
        _refuse(~np.isfinite(angle), "the angle must be finite, got", angle)
        shapes = arguments.vectors("input_shape", None, np.int64)
        if arguments.count and shapes.shape[1] < len(layout):
            raise ValueError(f'`input_shape` has {shapes.shape[1]} numbers, fewer than `shape_layout` "{layout}"')
        spatial = shapes[:, [layout.index("H"), layout.index("W")]]
        _refuse((spatial <= 0).any(axis=1), "`input_shape` must be positive, got", spatial)
        matrices = rotate_rules.rotation_2d(angle)
        canvas = spatial
        if self._sized(spec):
            size = arguments.vectors("size")
            if size.shape[1] != 2:
                raise ValueError(f"`size` must be two numbers, H and W, got {size.shape[1]}")
            _refuse(~((size >= 1) & (size < 2**31)).all(axis=1), "`size` must be at least 1, got", size)
            canvas = size.astype(np.int64)
        elif not spec.constant("keep_size"):
            canvas = rotate_rules.canvas(spatial, matrices)
        return matrices, np.ascontiguousarray(spatial[:, ::-1]), np.ascontiguousarray(canvas[:, ::-1])


def _refuse(wrong: np.ndarray | np.bool_, message: str, values: np.ndarray) -> None:
    refuse_where(wrong, lambda i: f"{message} {values[i].tolist()}")
