"""nonsilent_region: where a recording is louder than a threshold."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..kernel_operator import KernelOperator, Kernels, Names
from .signal_types import SIGNAL_TYPES


@register
class NonsilentRegion(KernelOperator):
    repeatable = True
    kernel_module = "nonsilent_region_kernels"
    schema = Schema(
        name="nonsilent_region",
        doc="""The part of a signal that is not silent: first sample and length, INT32 scalars. Both are 0 if nothing is above the cut-off.

        A window of `window_length` samples is silent if its mean power is below the cut-off: `cutoff_db` relative to the reference power.
        The part begins with the first window that is not silent, and ends with the last one.""",
        accepts=(Input(SIGNAL_TYPES, name="sound", ranks=(1,), likely=DALIDataType.FLOAT),),
        gives=(Output(DALIDataType.INT32, 0, ""),),
        devices=("cpu", "gpu"),
        outputs=2,
        args=(
            Arg("cutoff_db", "float", -60.0, "The cut-off in dB; 0 dB is the reference power."),
            Arg(
                "exact", "bool", False,
                "True: sums have FLOAT64. False: as in DALI, sums of FLOAT and of integers of 32 and 64 bits are FLOAT. They keep the "
                "rounding errors of loud parts; sums of FLOAT signals up to the next reset.",
                only_here=True,
            ),
            Arg("reference_power", "float", 0.0, "The power at 0 dB; by default the largest averaged power of each sample."),
            Arg(
                "reset_interval", "int", 8192,
                "Samples after which sums of float signals are recomputed, a multiple of the window; -1: never. Sums of integers are "
                "never recomputed.",
            ),
            Arg("window_length", "int", 2048, "Samples that are averaged; no more than the signal has."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        window, interval = spec.constant("window_length"), spec.constant("reset_interval")
        if window <= 0:
            raise ValueError(f"`window_length` must be positive, got {window}")
        if interval != -1 and interval <= 0:
            raise ValueError(f"`reset_interval` must be positive or -1, got {interval}")
        if spec.given("reference_power") and spec.constant("reference_power") <= 0:
            raise ValueError(f"`reference_power` must be positive, got {spec.constant('reference_power')}")
        self._exact: bool = spec.constant("exact")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.nonsilent_step(inputs[0], self._exact or inputs[0] == "float64")]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        window, interval = self.spec.constant("window_length"), self.spec.constant("reset_interval")
        if interval != -1 and interval % window and source.dtype in (DALIDataType.FLOAT, DALIDataType.FLOAT64):
            raise ValueError(
                f"`reset_interval` must be -1 or a multiple of `window_length` for float signals, got {interval} and {window}"
            )
        scalars = np.empty((len(source), 0), np.int64)
        outputs = [Batch(scalars, DALIDataType.INT32, device=source.device) for _ in range(2)]
        spec = self.spec
        decibels = spec.constant("cutoff_db")
        # DALI's factor: the exponent and the power are FLOAT.
        exponent = np.float64(decibels / 10.0) if self._exact else np.float64(np.float32(decibels) * np.float32(0.1))
        with np.errstate(over="ignore"):  # A cut-off of 400 dB and more is infinite.
            factor = float(10.0**exponent if self._exact else np.float32(10.0**exponent))
        step = self.kernels.make_nonsilent_step(
            source, outputs, window, interval, spec.constant("reference_power"), factor, self._exact
        )
        return Planned(outputs, [step])
