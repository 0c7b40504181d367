"""to_decibels, preemphasis_filter and nonsilent_region."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register

_NUMBERS = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.UINT32, DALIDataType.INT32,
    DALIDataType.UINT64, DALIDataType.INT64, DALIDataType.FLOAT, DALIDataType.FLOAT64,
)  # fmt: skip
_BORDERS = ("zero", "clamp", "reflect")


@register
class ToDecibels(Operator):
    on_cuda = True
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
        from . import signal_kernels

        self._kernels = signal_kernels
        self._kernels.decibels_step.compile()

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.FLOAT]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        multiplier = self.spec.constant("multiplier")
        least = 10.0 ** (self.spec.constant("cutoff_db") / multiplier)
        output = Batch(source.shapes, source.dtype, source.layout, device=source.device, source_info=source.source_info)
        return Planned([output], [self._kernels.make_decibels_step(source, output, multiplier, self.spec.constant("reference"), least)])


@register
class PreemphasisFilter(Operator):
    on_cuda = True
    schema = Schema(
        name="preemphasis_filter",
        doc="""Emphasises high frequencies: ``output[t] = input[t] - preemph_coeff * input[t - 1]``.

        Computed in FLOAT, rounded and saturated to `dtype`. Samples of several dimensions are treated as one row.""",
        accepts=(Input(_NUMBERS, name="sound", ranks=ANY_RANK),),
        gives=(Output(type=argument("dtype")),),
        devices=("cpu", "gpu"),
        args=(
            Arg("border", "str", "clamp", 'Value before the first sample: "zero", "clamp" (the first sample), "reflect" (the second).'),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output."),
            Arg("preemph_coeff", "float", 0.97, "The coefficient.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("border") not in _BORDERS:
            raise ValueError(f"Border mode {spec.constant('border')!r} is not supported; supported are {', '.join(_BORDERS)}")
        wanted = spec.constant("dtype")
        if wanted not in _NUMBERS:
            raise ValueError(f"Unsupported output type: {wanted.name}; supported are {', '.join(kind.name for kind in _NUMBERS)}")
        from . import signal_kernels

        self._kernels = signal_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source, wanted = DALIDataType.FLOAT if dtypes[0] is None else dtypes[0], self.spec.constant("dtype")
        if source in _NUMBERS:
            self._kernels.preemphasis_step(storage_dtype(source).name, storage_dtype(wanted).name).compile()
        return [wanted]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = Batch(source.shapes, self.spec.constant("dtype"), source.layout, device=source.device, source_info=source.source_info)
        border = _BORDERS.index(self.spec.constant("border"))
        return Planned([output], [self._kernels.make_preemphasis_step(source, output, arguments.scalars("preemph_coeff"), border)])


@register
class NonsilentRegion(Operator):
    on_cuda = True
    schema = Schema(
        name="nonsilent_region",
        doc="""The part of a signal that is not silent: first sample and length, INT32 scalars (0 and 0 if nothing is above the cut-off).

        The power of the signal, averaged over `window_length` samples, is compared with the cut-off below the reference power.""",
        accepts=(Input(_NUMBERS, name="sound", ranks=(1,)),),
        gives=(Output(DALIDataType.INT32, 0, ""),),
        devices=("cpu", "gpu"),
        outputs=2,
        args=(
            Arg("cutoff_db", "float", -60.0, "Signals below this are silent."),
            Arg("reference_power", "float", 0.0, "The power at 0 dB; by default the largest averaged power of each sample."),
            Arg("reset_interval", "int", 8192, "Samples after which float sums are recomputed, a multiple of the window; -1: never."),
            Arg("window_length", "int", 2048, "Samples that are averaged; no more than the signal has."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        window, interval = spec.constant("window_length"), spec.constant("reset_interval")
        if window <= 0:
            raise ValueError(f"`window_length` must be positive, got {window}")
        if interval != -1 and (interval <= 0 or interval % window):
            raise ValueError(f"`reset_interval` must be -1 or a positive multiple of `window_length`, got {interval} and {window}")
        if spec.given("reference_power") and spec.constant("reference_power") <= 0:
            raise ValueError(f"`reference_power` must be positive, got {spec.constant('reference_power')}")
        from . import signal_kernels

        self._kernels = signal_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.FLOAT if dtypes[0] is None else dtypes[0]
        if source in _NUMBERS:
            self._kernels.nonsilent_step(storage_dtype(source).name).compile()
        return [DALIDataType.INT32, DALIDataType.INT32]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        empty = source.shapes[:, 0] == 0
        if empty.any():
            raise SampleError(int(np.argmax(empty)), "the signal is empty")
        scalars = np.empty((len(source), 0), np.int64)
        outputs = [Batch(scalars, DALIDataType.INT32, device=source.device) for _ in range(2)]
        spec = self.spec
        factor = 10.0 ** (spec.constant("cutoff_db") / 10.0)
        interval = spec.constant("reset_interval")
        step = self._kernels.make_nonsilent_step(
            source, outputs, spec.constant("window_length"), interval, spec.constant("reference_power"), factor
        )
        return Planned(outputs, [step])
