"""coord_flip and bb_flip: mirror points and boxes as flip mirrors pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.tables import laid_out
from ...device.launch import Entry, Kernel, Launch, grid_of
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output
from ..base import (
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    SampleError,
    Schema,
    Spec,
    Step,
    no_explanation,
    register,
)
from ..moves.strided import like
from .mirror_tables import BB_FLIP, COORD_FLIP

_SOURCE = Path(__file__).with_name("mirror_kernels.cu")


class _Mirror(Operator):
    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import mirror_kernels

        self._kernels: Any = mirror_kernels


@register
class CoordFlip(_Mirror):
    on_cuda = True
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
    )

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
        table = np.empty((len(source), length, 2), np.float32)
        for k, name in enumerate(names[:length]):
            table[:, k, 0] = np.where(arguments.scalars(f"flip_{name}", np.int64) != 0, -1, 1)
            table[:, k, 1] = 2 * arguments.scalars(f"center_{name}")
        output = like(source)
        points = np.ascontiguousarray(source.shapes[:, 0])
        values = COORD_FLIP.entries(
            inputs=source.addresses, outputs=output.addresses, points=points, length=length, mirrors=table, samples=len(source)
        )
        return Planned([output], [_step(self._kernels.coord_step, "coordinates", values, source.shapes.prod(axis=1))])

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.coord_step.compile()
        return [DALIDataType.FLOAT]


@register
class BbFlip(_Mirror):
    on_cuda = True
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
    )

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.box_step.compile()
        return [DALIDataType.FLOAT]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        numbers = source.shapes.prod(axis=1)
        if (numbers % 4).any():
            i = int(np.flatnonzero(numbers % 4)[0])
            raise SampleError(i, f"boxes have four numbers each, got shape {tuple(source.shapes[i].tolist())}")
        flags = (arguments.scalars("horizontal", np.int64) != 0) + 2 * (arguments.scalars("vertical", np.int64) != 0)
        output = like(source)
        values = BB_FLIP.entries(
            inputs=source.addresses, outputs=output.addresses, boxes=numbers // 4, flags=flags.astype(np.int64),
            corners=int(arguments.constant("ltrb")), samples=len(source),
        )  # fmt: skip
        return Planned([output], [_step(self._kernels.box_step, "boxes", values, numbers // 4)])


def _step(function: Any, entry: str, values: tuple[Entry, ...], items: np.ndarray) -> Step:
    """The step over a table of `values`. The kernel `entry` takes `items` work items per sample."""
    table, keep = laid_out(values)
    grid = grid_of(int(items.max(initial=0)), len(items))
    kernel = Kernel(_SOURCE, entry)
    return Step(
        function.address, table, no_explanation, keep=keep, launches=lambda: [Launch(kernel, values, grid)]
    )
