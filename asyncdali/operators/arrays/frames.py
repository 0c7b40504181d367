"""element_extract and per_frame: samples as sequences of frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import CHOSEN, ELEMENTS, LIKE, ONE_LESS, SEQUENCES, Input, Output, at_least
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from .strided import Pieces, dense_strides, like


@register
class ElementExtract(Operator):
    """See the schema."""

    on_cuda = True
    schema = Schema(
        name="element_extract",
        doc="""Picks frames out of sequences: one output for each index in `element_map`.

        The input must have a layout that begins with F, or none, and at least two dimensions.""",
        accepts=(Input(ELEMENTS, SEQUENCES, "sequences", at_least(2)),),
        gives=(Output(LIKE, ONE_LESS, ONE_LESS),),
        devices=("cpu", "gpu"),
        args=(Arg("element_map", "int_list", REQUIRED, "Indices of the frames, one output each."),),
        outputs=lambda constants: len(constants["element_map"]),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._frames: list[int] = spec.constant("element_map")
        wrong = [frame for frame in self._frames if frame < 0]
        if wrong:
            raise ValueError(f"`element_map` must not be negative, got {wrong[0]}")
        if not self._frames:
            raise ValueError("`element_map` is empty; at least one index is needed")
        from . import strided_kernels

        self._kernels: Any = strided_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.copy_step.compile()
        return dtypes * len(self._frames)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        short = source.shapes[:, 0] <= max(self._frames)
        if short.any():
            i = int(np.flatnonzero(short)[0])
            raise SampleError(i, f"`element_map` asks for frame {max(self._frames)} of a sequence of {int(source.shapes[i, 0])}")
        outputs, steps = [], []
        strides = dense_strides(source.shapes, source.itemsize)
        for frame in self._frames:
            output = like(source, source.shapes[:, 1:], source.layout[1:])
            pieces = Pieces(output)
            pieces.add(source, output.shapes, strides[:, 1:], frame * strides[:, 0])
            outputs.append(output)
            steps.append(pieces.step(self._kernels.copy_step))
        return Planned(outputs, steps)


@register
class PerFrame(Operator):
    """See the schema."""

    on_cuda = True
    schema = Schema(
        name="per_frame",
        doc="""Marks the input as a sequence: its layout begins with F. The data are not copied.

        An input with another layout is refused, unless `replace` is true: then its first letter becomes F.""",
        accepts=(Input(ELEMENTS, ranks=at_least(1)),),
        gives=(Output(layout=CHOSEN),),
        devices=("cpu", "gpu"),
        args=(Arg("replace", "bool", False, "Whether another first letter is replaced."),),
    )

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        if source.layout and source.layout[0] != "F" and not arguments.constant("replace"):
            raise ValueError(f"the layout must begin with F, got {source.layout!r} (`replace=True` replaces its first letter)")
        layout = "F" + (source.layout[1:] if source.layout else "*" * (source.ndim - 1))
        return Planned([Batch.alias(source, source.shapes, source.dtype, layout)])
