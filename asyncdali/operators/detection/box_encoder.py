"""box_encoder: boxes and labels as targets for anchors (SSD)."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names
from .box_encoder_tables import ENCODING


@register
class BoxEncoder(KernelOperator):
    kernel_module = "box_encoder_kernels"
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="box_encoder",
        doc="""Assigns boxes to anchors, as "SSD: Single Shot MultiBox Detector" does.

        Inputs: boxes, FLOAT [n, 4] (left, top, right, bottom, from 0 to 1), and labels, INT32 [n]. An anchor takes the box that overlaps
        it most, if their IoU is above `criteria`; each box takes its best anchor in any case.
        Outputs: for each anchor its box (centre x, centre y, width, height; the anchor itself if it has none) or, with `offset`, the
        normalised difference (0 if it has none), FLOAT [anchors, 4]; and its label, INT32 [anchors], 0 if it has none.""",
        accepts=(Input((DALIDataType.FLOAT,), name="boxes", ranks=(2,)), Input((DALIDataType.INT32,), name="labels", ranks=ANY_RANK)),
        gives=(Output(DALIDataType.FLOAT, 2, ""), Output(DALIDataType.INT32, 1, "")),
        inputs=(2, 2),
        outputs=2,
        devices=("cpu", "gpu"),
        args=(
            Arg("anchors", "float_list", REQUIRED, "The anchors: left, top, right, bottom of each."),
            Arg("criteria", "float", 0.5, "IoU above which an anchor takes a box, 0 to 1."),
            Arg("means", "float_list", [0.0, 0.0, 0.0, 0.0], "Subtracted from offsets: x, y, width, height."),
            Arg("offset", "bool", False, "Return offsets: centre differences over anchor extents, and logarithms of extent ratios."),
            Arg("scale", "float", 1.0, "Factor of boxes and anchors before offsets are computed."),
            Arg("stds", "float_list", [1.0, 1.0, 1.0, 1.0], "Offsets are divided by these: x, y, width, height."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        anchors, means, stds = spec.constant("anchors"), spec.constant("means"), spec.constant("stds")
        if len(anchors) % 4 or not anchors:
            raise ValueError(f"`anchors` must be a multiple of four numbers, at least four; got {len(anchors)}")
        if not 0 <= spec.constant("criteria") <= 1:
            raise ValueError(f"`criteria` must be from 0 to 1, got {spec.constant('criteria')}")
        if len(means) != 4 or len(stds) != 4 or 0 in stds:
            raise ValueError(f"`means` and `stds` must have four values, and stds not 0; got {means} and {stds}")
        self._anchors = np.array(anchors, np.float32).reshape(-1, 4).copy()
        self._numbers = np.zeros(ENCODING.words, np.float32)
        self._numbers[ENCODING.word.scale], self._numbers[ENCODING.word.criteria] = spec.constant("scale"), spec.constant("criteria")
        self._numbers[ENCODING.columns("mean")], self._numbers[ENCODING.columns("std")] = means, stds
        self._given = self.kernels.Anchors(self._anchors, self.kernels.anchor_columns(self._anchors), self._numbers)
        for array in self._given:
            array.flags.writeable = False  # copied plans share it

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.box_encoder_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        boxes, labels = inputs
        refuse_where(boxes.shapes[:, 1] != 4, lambda i: f"boxes must be of shape [n, 4], got {boxes.shapes[i].tolist()}")
        wrong = labels.shapes.prod(axis=1) != boxes.shapes[:, 0]
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"the sample has {int(boxes.shapes[i, 0])} boxes, but its labels have shape {labels.shapes[i].tolist()}")
        count, device = len(boxes), boxes.device
        encoded = Batch(np.tile(np.array([[len(self._anchors), 4]]), (count, 1)), DALIDataType.FLOAT, device=device)
        classes = Batch(np.full((count, 1), len(self._anchors)), DALIDataType.INT32, device=device)
        offsets = bool(self.spec.constant("offset"))
        step = self.kernels.make_box_encoder_step(boxes, labels, encoded, classes, self._given, offsets)
        return Planned([encoded, classes], [step])
