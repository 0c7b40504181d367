"""coord_flip: mirror points as flip mirrors pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.tables import Field, Table
from ...types import DALIDataType
from ..accepts import Input, Output
from ..base import Arg, Arguments, Example, Iteration, Planned, Schema, register
from ..moves.pieces import like
from ..samples import SampleOperator

COORD_FLIP = Table(
    "COORD_FLIP",
    Field("points", "int64", "points of the sample"),
    Field("length", "int64", "coordinates of a point"),
    Field("mirrored", "int64", "whether each coordinate is mirrored", "012"),
    Field("place", "int64", "index in `numbers` of the centre of each coordinate", "012"),
)
word = COORD_FLIP.word


@register
class CoordFlip(SampleOperator):
    repeatable = True
    schema = Schema(
        name="coord_flip",
        doc="""Mirrors points: ``2 * center - coordinate`` for the coordinates whose flag is not zero.

        The input is FLOAT, one point of one to three coordinates per row.""",
        accepts=(Input((DALIDataType.FLOAT,), name="points", ranks=(2,)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            *(Arg(f"center_{name}", "float", 0.5, f"Where {name} is mirrored.", tensor=True) for name in "xyz"),
            *(Arg(f"flip_{name}", "int", int(name == "x"), f"Whether {name} is mirrored.", tensor=True) for name in "xyz"),
            Arg("layout", "layout", "", 'Order of the coordinates; by default "x", "xy" or "xyz".'),
        ),
        examples=(Example(([[0.25, 0.5], [1.0, 0.0]],), ([[0.75, 0.5], [0.0, 0.0]],), {"flip_x": 1}),),
    )
    record = COORD_FLIP
    numbers = ("center_x", "center_y", "center_z")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        length = int(source.shapes[0, 1]) if len(source) else 1
        if not 1 <= length <= 3 or (source.shapes[:, 1] != length).any():
            raise ValueError(
                f"points must have 1 to 3 coordinates, the same number in all samples; got {sorted(set(source.shapes[:, 1].tolist()))}"
            )
        names = self.spec.constant("layout") or "xyz"[:length]
        missing = [name for name in "xyz"[:length] if name not in names[:length]]
        if missing:
            raise ValueError(f"`layout` {names!r} does not say where {missing[0]!r} is among {length} coordinates")
        flags = {name: arguments.scalars(f"flip_{name}", np.int64) != 0 for name in names[:length]}
        words: dict[str, Any] = {f"mirrored_{k}": 0 for k in range(3)} | {f"place_{k}": k for k in range(3)}
        for k, name in enumerate(names[:length]):
            words |= {f"mirrored_{k}": flags[name], f"place_{k}": "xyz".index(name)}
        return self.planned(inputs, [like(source)], arguments, points=source.shapes[:, 0], length=length, **words)

    @staticmethod
    def sample(points: np.ndarray, out: np.ndarray, record: np.ndarray, numbers: np.ndarray) -> None:
        length = record[word.length]
        for k in range(length):
            twice, mirrored = np.float32(2) * numbers[record[word.place_0 + k]], record[word.mirrored_0 + k]
            for i in range(k, record[word.points] * length, length):
                out[i] = np.float32(twice - points[i]) if mirrored else points[i]
