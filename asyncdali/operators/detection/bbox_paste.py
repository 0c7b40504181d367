"""bbox_paste: adjust boxes to an image that was pasted on a larger canvas."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output
from ..base import REQUIRED, Arg, Arguments, Iteration, Planned, Schema, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names
from .bbox_paste_tables import PLACEMENT


@register
class BBoxPaste(KernelOperator):
    on_cuda = False
    kernel_module = "bbox_paste_kernels"
    repeatable = True
    schema = Schema(
        name="bbox_paste",
        doc="""Moves boxes in the same way as ``paste`` with the same arguments moves their image.

        Boxes are four numbers from 0 to 1, relative to the image: FLOAT, any shape of a multiple of four elements.""",
        accepts=(Input((DALIDataType.FLOAT,), name="boxes", ranks=ANY_RANK),),
        gives=(Output(),),
        args=(
            Arg("ltrb", "bool", False, "Boxes are left, top, right, bottom; otherwise left, top, width, height."),
            Arg("paste_x", "float", 0.5, "Horizontal place on the canvas, 0 (left) to 1 (right).", tensor=True),
            Arg("paste_y", "float", 0.5, "Vertical place on the canvas, 0 (top) to 1 (bottom).", tensor=True),
            Arg("ratio", "float", REQUIRED, "Extents of the canvas divided by those of the image.", tensor=True),
        ),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.box_paste_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        counts = source.shapes.prod(axis=1)
        _refuse(counts % 4 != 0, "Bounding box tensor size must be a multiple of 4, got", counts)
        ratio = arguments.scalars("ratio")
        one = np.float32(1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            most = (ratio - one) / ratio
            shifts = [np.minimum(arguments.scalars(name) * (ratio - one) / ratio, most) for name in ("paste_x", "paste_y")]
            scale = one / ratio
        output = Batch(source.shapes, source.dtype, source.layout, source_info=source.source_info)
        rows = np.empty((len(source), PLACEMENT.words), np.float32)
        rows[:, PLACEMENT.word.scale] = scale
        rows[:, PLACEMENT.word.shift_x], rows[:, PLACEMENT.word.shift_y] = shifts
        return Planned([output], [self.kernels.make_box_paste_step(source, output, counts // 4, rows, bool(self.spec.constant("ltrb")))])


def _refuse(wrong: np.ndarray, message: str, values: np.ndarray) -> None:
    refuse_where(wrong, lambda i: f"{message} {values[i]:g}")
