"""bb_flip: mirror boxes as flip mirrors pictures."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import Field, Table
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output
from ..base import Arg, Arguments, Example, Iteration, Planned, Schema, refuse_where, register
from ..moves.pieces import like
from ..samples import SampleOperator

BB_FLIP = Table(
    "BB_FLIP",
    Field("boxes", "int64", "boxes of the sample"),
    Field("flip", "int64", "whether x and y are mirrored", "xy"),
    Field("corners", "int64", "1: boxes are two corners; 0: a corner and extents"),
)
word = BB_FLIP.word


@register
class BbFlip(SampleOperator):
    repeatable = True
    schema = Schema(
        name="bb_flip",
        doc="""Mirrors boxes whose coordinates are relative to the picture (0 to 1).

        The input is FLOAT, four numbers per box: left, top, width and height, or with `ltrb` left, top, right, bottom.""",
        accepts=(Input((DALIDataType.FLOAT,), name="boxes", ranks=ANY_RANK),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("horizontal", "int", 1, "Whether left and right change places.", tensor=True),
            Arg("ltrb", "bool", False, "Whether boxes are given by their corners."),
            Arg("vertical", "int", 0, "Whether top and bottom change places.", tensor=True),
        ),
        examples=(
            Example(([[0.0, 0.25, 0.5, 0.75]],), ([[0.5, 0.25, 1.0, 0.75]],), {"ltrb": True}),
            Example(([[0.0, 0.25, 0.5, 0.5]],), ([[0.5, 0.25, 0.5, 0.5]],)),
        ),
    )
    record = BB_FLIP

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        count = source.shapes.prod(axis=1)
        refuse_where(count % 4 != 0, lambda i: f"boxes have four numbers each, got shape {tuple(source.shapes[i].tolist())}")
        flips = {name: arguments.scalars(name, np.int64) != 0 for name in ("horizontal", "vertical")}
        return self.planned(
            inputs, [like(source)], arguments, count // 4, boxes=count // 4, flip_x=flips["horizontal"], flip_y=flips["vertical"],
            corners=int(arguments.constant("ltrb")),
        )  # fmt: skip

    @staticmethod
    def sample(boxes: np.ndarray, out: np.ndarray, record: np.ndarray, numbers: np.ndarray) -> None:
        corners, one = record[word.corners], np.float32(1)
        for i in range(0, 4 * record[word.boxes], 4):
            for axis in range(2):
                low, high = boxes[i + axis], boxes[i + axis + 2]
                if corners == 0:
                    high = np.float32(low + high)
                if record[word.flip_x + axis]:
                    low, high = np.float32(one - high), np.float32(one - low)
                out[i + axis] = low
                out[i + axis + 2] = high if corners != 0 else np.float32(high - low)
