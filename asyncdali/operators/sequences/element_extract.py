"""element_extract: frames of sequences as outputs."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import ELEMENTS, LIKE, ONE_LESS, SEQUENCES, Input, Output, at_least
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names
from ..moves.pieces import like


@register
class ElementExtract(KernelOperator):
    kernel_module = "element_extract_kernels"
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="element_extract",
        doc="""Selects frames of sequences: one output per index in `element_map`.

        The input must have a layout that begins with F, or none, and at least two dimensions.""",
        accepts=(Input(ELEMENTS, SEQUENCES, "sequences", at_least(2)),),
        gives=(Output(LIKE, ONE_LESS, ONE_LESS),),
        devices=("cpu", "gpu"),
        args=(Arg("element_map", "int_list", REQUIRED, "Indices of the frames, one output each."),),
        outputs=lambda constants: max(1, len(constants["element_map"])),  # an empty list is refused when the operator is made
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._frames: list[int] = spec.constant("element_map")
        wrong = [frame for frame in self._frames if frame < 0]
        if wrong:
            raise ValueError(f"`element_map` must not be negative, got {wrong[0]}")
        if not self._frames:
            raise ValueError("`element_map` is empty; at least one index is needed")
        self._numbers = [np.array([frame], np.int64) for frame in self._frames]

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.frame_copy_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        short = source.shapes[:, 0] <= max(self._frames)
        refuse_where(short, lambda i: f"`element_map` contains frame {max(self._frames)} of a sequence of {int(source.shapes[i, 0])}")
        outputs, steps = [], []
        frame_bytes = np.multiply.reduce(source.shapes[:, 1:], 1) * source.itemsize
        for number in self._numbers:
            output = like(source, source.shapes[:, 1:], source.layout[1:])
            outputs.append(output)
            steps.append(self.kernels.make_frame_copy_step(source, output, frame_bytes, number, None, None))
        return Planned(outputs, steps)
