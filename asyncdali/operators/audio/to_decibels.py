"""to_decibels: powers or magnitudes on a logarithmic scale."""

from __future__ import annotations

import math

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..kernel_operator import KernelOperator, Kernels, Names


@register
class ToDecibels(KernelOperator):
    repeatable = True
    kernel_module = "to_decibels_kernels"
    schema = Schema(
        name="to_decibels",
        doc="""Magnitudes in decibels: ``multiplier * log10(max(10 ** (cutoff_db / multiplier), input / reference))``. FLOAT in and out.""",
        accepts=(Input((DALIDataType.FLOAT,), name="magnitudes", ranks=ANY_RANK),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("cutoff_db", "float", -200.0, "The smallest result."),
            Arg("multiplier", "float", 10.0, "10 for powers, 20 for amplitudes."),
            Arg("reference", "float", 0.0, "The value at 0 dB; by default the largest value of each sample."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("multiplier") == 0:
            raise ValueError("`multiplier` must not be 0")
        if spec.given("reference") and spec.constant("reference") == 0:
            raise ValueError("`reference` must not be 0")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.decibels_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        multiplier = self.spec.constant("multiplier")
        exponent = self.spec.constant("cutoff_db") / multiplier
        least = math.inf if exponent > 308 else 10.0**exponent  # Python refuses powers beyond the largest float.
        output = self.output(source)
        return Planned([output], [self.kernels.make_decibels_step(source, output, multiplier, self.spec.constant("reference"), least)])
