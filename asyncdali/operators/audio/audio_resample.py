"""audio_resample: resample sound to another sampling rate or to another length."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_name
from ...codecs.audio import resampling
from ...types import DALIDataType
from ..accepts import Input, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names

_TYPES = (
    DALIDataType.INT8, DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.UINT16, DALIDataType.INT32, DALIDataType.UINT32,
    DALIDataType.FLOAT,
)  # fmt: skip
_LONGEST = 2.0**40


@register
class AudioResample(KernelOperator):
    repeatable = True
    kernel_module = "audio_resample_kernels"
    schema = Schema(
        name="audio_resample",
        aliases=("experimental.audio_resample",),
        doc="""Resamples sound with a sinc filter in a Hann window. The band is not limited when the rate decreases.

        Input: 1-D, or (time, channels); INT8, UINT8, INT16, UINT16, INT32, UINT32 or FLOAT. The factor is given in one of three ways:
        `in_rate` and `out_rate`, `scale`, or `out_length`. The output has ``ceil(length * factor)`` samples in time.

        If `dtype` differs from the input's type, ranges are mapped: FLOAT is [-1, 1], integers use the range of their type; for
        unsigned types 0.0 is the middle. Outside of the sound the signal is 0. Computed in FLOAT.""",
        accepts=(Input(_TYPES, name="sound", ranks=(1, 2), likely=DALIDataType.FLOAT),),
        gives=(Output(type=argument("dtype")),),
        devices=("cpu", "gpu"),
        args=(
            Arg("dtype", "dtype", None, "Element type of the output; by default the input's."),
            Arg("in_rate", "float", None, "Sampling rate of the input, positive.", tensor=True),
            Arg("out_length", "int", None, "Samples of the output.", tensor=True),
            Arg("out_rate", "float", None, "Sampling rate of the output, not negative.", tensor=True),
            Arg("quality", "float", 50.0, "0 to 100: 3, 16 (50) or 64 (100) lobes of the sinc on each side."),
            Arg("scale", "float", None, "Samples of the output per sample of the input, not negative.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("in_rate") != spec.given("out_rate"):
            raise ValueError("`in_rate` and `out_rate` must be specified together")
        ways = [name for name in ("in_rate", "scale", "out_length") if spec.given(name)]
        if len(ways) != 1:
            raise ValueError(
                f"the factor is given by `in_rate` and `out_rate`, `scale`, or `out_length`: one of them; given: {ways or 'none'}"
            )
        self._way = ways[0]
        resampling.check_quality(spec.constant("quality"))
        wanted = spec.constant("dtype")
        if wanted is not None and wanted not in _TYPES:
            raise ValueError(f"Unsupported output type: {wanted.name}. Supported types are: {', '.join(kind.name for kind in _TYPES)}")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.resample_step(inputs[0], outputs[0])]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        lengths = source.shapes[:, 0]
        before, after = self._rates(lengths, arguments)
        shapes = source.shapes.copy()
        shapes[:, 0] = counts = _counts(lengths, before, after)
        output = self.output(source, shapes)
        channels = source.shapes[:, 1] if source.ndim == 2 else np.ones_like(lengths)
        ratios = np.divide(before, after, out=np.zeros_like(before), where=after > 0)
        signals = resampling.Signals(lengths, counts, channels, ratios)
        entries = resampling.entries_of(source.addresses, output.addresses, signals, self.spec.constant("quality"))
        types, items = (storage_name(source.dtype), storage_name(output.dtype)), counts * channels
        return self.made(source, output, entries, lambda: Cuda("resample", items, types=self.kernels.macros_of(types)))

    def _rates(self, lengths: np.ndarray, arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        """Sampling rates before and after, or numbers in the same ratio: float64[samples]."""
        if self._way == "out_length":
            counts = arguments.scalars("out_length", np.int64)
            _refuse(counts < 0, counts, "`out_length` must not be negative")
            _refuse((lengths == 0) & (counts > 0), counts, "Cannot produce a non-empty signal from an empty input; `out_length`")
            return np.maximum(lengths, 1).astype(np.float64), np.where(lengths > 0, counts, 0).astype(np.float64)
        if self._way == "scale":
            scales = arguments.scalars("scale").astype(np.float64)
            _refuse(~((scales >= 0) & (scales < np.inf)), scales, "`scale` must be a number that is not negative")
            return np.ones_like(scales), scales
        before, after = (arguments.scalars(name).astype(np.float64) for name in ("in_rate", "out_rate"))
        _refuse(~((before > 0) & (before < np.inf)), before, "`in_rate` must be positive")
        _refuse(~((after >= 0) & (after < np.inf)), after, "`out_rate` must not be negative")
        return before, after


def _refuse(wrong: np.ndarray, values: np.ndarray, message: str) -> None:
    refuse_where(wrong, lambda sample: f"{message}; got {values[sample]:g}")


def _counts(lengths: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Number of output samples in time, int64[samples]."""
    counts: np.ndarray = np.ceil(lengths * after / before)
    _refuse(counts > _LONGEST, counts, "the output would have more than 2^40 samples")
    return counts.astype(np.int64)
