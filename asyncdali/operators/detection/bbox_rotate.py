"""bbox_rotate: boxes follow an image that is rotated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, of_input
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..geometry import rotate_rules
from .rows import all_rows, first_rows, rows_batch

_LAYOUTS = ("xyWH", "xyXY")
_MODES = ("expand", "fixed", "halfway")
_TIE = 1e-5
"""Differences of extents, in pixels, that count as none."""


@register
class BBoxRotate(Operator):
    """See the schema."""

    reads = (0, 1)
    eager = True
    schema = Schema(
        name="bbox_rotate",
        doc="""Moves boxes as ``rotate`` with the same `angle`, `keep_size` and `size` moves their image.

        Inputs: boxes, FLOAT [n, 4]; optionally labels, INT32 [n] or [n, 1]. Outputs: the boxes, within the new canvas, without those of
        which less than `remove_threshold` is left (nor those without area), and their labels.""",
        accepts=(Input((DALIDataType.FLOAT,), name="boxes", ranks=(2,)), Input((DALIDataType.INT32,), name="labels", ranks=(1, 2))),
        gives=(Output(), Output(of_input(1), of_input(1), of_input(1))),
        inputs=(1, 2),
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
            Arg("shape_layout", "layout", "HW", "Meaning of the numbers of `input_shape`; those after the named ones are not looked at."),
            Arg("size", "float_list", [], "Extents (H, W) of the canvas, without their fractions; by default all of the image fits.",
                tensor=True),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        for name, allowed in (("bbox_layout", _LAYOUTS), ("mode", _MODES)):
            if spec.constant(name) not in allowed:
                raise ValueError(f"`{name}` is {spec.constant(name)!r}; supported are {', '.join(allowed)}")
        if not 0 <= spec.constant("remove_threshold") < 1:
            raise ValueError(f"`remove_threshold` must be from 0 to below 1, got {spec.constant('remove_threshold')}")
        layout = spec.constant("shape_layout")
        if layout.count("H") != 1 or layout.count("W") != 1:
            raise ValueError(f'`shape_layout` "{layout}" must have one H and one W')
        if spec.constant("keep_size") and self._sized(spec):
            raise ValueError("`keep_size` and `size` exclude each other; give one of them")

    @staticmethod
    def _sized(spec: Spec) -> bool:
        return "size" in spec.argument_inputs or bool(spec.constant("size"))

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        dtypes = [DALIDataType.FLOAT, DALIDataType.INT32]
        return dtypes[: self.spec.output_count]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        _refuse(source.shapes[:, 1] != 4, "boxes must be of shape [n, 4], got", source.shapes)
        counts = source.shapes[:, 0]
        sample = np.repeat(np.arange(len(source)), counts)
        rows = all_rows(source).reshape(-1, 4)
        boxes, left = self._moved(rows.astype(np.float64), sample, arguments)
        keep = left >= self.spec.constant("remove_threshold")  # not those whose part is NaN: they have no area
        kept = np.bincount(sample[keep], minlength=len(source))
        firsts = first_rows(kept)
        outputs = [rows_batch(boxes[keep].astype(np.float32), firsts, kept, DALIDataType.FLOAT, source.layout)]
        if len(inputs) == 2:
            labels = self._labels(inputs[1], counts)
            outputs.append(rows_batch(labels[keep], firsts, kept, DALIDataType.INT32, inputs[1].layout))
        return Planned(outputs)

    @staticmethod
    def _labels(labels: Batch, counts: np.ndarray) -> np.ndarray:
        if labels.ndim == 2:
            _refuse(labels.shapes[:, 1] != 1, "labels must be of shape [n] or [n, 1], got", labels.shapes)
        wrong = labels.shapes[:, 0] != counts
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"{int(labels.shapes[i, 0])} labels for {int(counts[i])} boxes")
        return all_rows(labels)

    def _moved(self, boxes: np.ndarray, sample: np.ndarray, arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        """The boxes on the canvas, float64[all, 4] in the layout, and how much of each is left, float64[all]."""
        matrices, image, canvas = self._canvas(arguments)
        corners, relative = self.spec.constant("bbox_layout") == "xyXY", self.spec.constant("bbox_normalized")
        scale, out_scale = image[sample], canvas[sample]
        low, high = boxes[:, :2], boxes[:, 2:] if corners else boxes[:, :2] + boxes[:, 2:]
        if relative:
            low, high = low * scale, high * scale
        # The matrix takes steps on the canvas to steps in the image; its transpose is the way back.
        turned = matrices.swapaxes(1, 2)[sample]
        centre = (turned @ ((low + high - scale) / 2)[:, :, None])[:, :, 0] + out_scale / 2
        half = self._extents(np.abs(high - low) / 2, np.abs(turned))
        begin, end = np.clip(centre - half, 0, out_scale), np.clip(centre + half, 0, out_scale)
        with np.errstate(invalid="ignore", divide="ignore"):
            left = (end - begin).prod(axis=1) / (4 * half.prod(axis=1))
        if relative:
            begin, end = begin / out_scale, end / out_scale
        return np.concatenate([begin, end if corners else end - begin], axis=1), left

    def _extents(self, half: np.ndarray, turned: np.ndarray) -> np.ndarray:
        """Half extents of the new boxes."""
        around = (turned @ half[:, :, None])[:, :, 0]
        mode = self.spec.constant("mode")
        if mode == "expand":
            return around
        # The longer side lies where it does in the box around: the wider one, where that is a square.
        lies = around[:, 0] - around[:, 1] > -_TIE
        kept = np.where(((half[:, 0] > half[:, 1]) != lies)[:, None], half[:, ::-1], half)
        return kept if mode == "fixed" else (kept + around) / 2

    def _canvas(self, arguments: Arguments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
        return matrices, spatial[:, ::-1], canvas[:, ::-1]


def _refuse(wrong: Any, message: str, values: np.ndarray) -> None:
    if wrong.any():
        i = int(np.argmax(wrong))
        raise SampleError(i, f"{message} {values[i].tolist()}")
