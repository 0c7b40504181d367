"""mel_filter_bank: filters along the frequency axis; and the base of operators that multiply by a matrix along an axis."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import Input, Output, at_least, matching
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..kernel_operator import KernelOperator, Kernels, Names

AXIS_SIZES = Table(
    "AXIS_SIZES",
    Field("outer", "int64", "elements of the axes before the matrix's axis"),
    Field("inner", "int64", "elements of the axes behind it"),
)
COLUMN_RANGE = Table(
    "COLUMN_RANGE",
    Field("begin", "int64", "first column of a row that is not zero"),
    Field("end", "int64", "the column behind the last one that is not zero"),
)
AXIS_MATRIX = Table(
    "AXIS_MATRIX",
    INPUTS,
    OUTPUTS,
    Field("sizes", "AXIS_SIZES[samples]", "of the samples"),
    Field("matrix", "float64[rows, columns]", "the matrix"),
    Field("rows", "int64", "rows of the matrix: elements along the output's axis"),
    Field("columns", "int64", "columns of the matrix: elements along the input's axis"),
    Field("ranges", "COLUMN_RANGE[rows]", "which columns are not zero"),
    Field("scratch", "int64", "offset of the step's own scratch in the thread's"),
    SAMPLES,
)

_BREAK, _PER_MEL, _LOG_STEP = 1000.0, 200.0 / 3, float(np.log(6.4)) / 27


def _hertz_to_mel(hertz: float, formula: str) -> float:
    if formula == "htk":
        return 1127.0 * float(np.log(1.0 + hertz / 700.0))
    return hertz / _PER_MEL if hertz < _BREAK else _BREAK / _PER_MEL + float(np.log(hertz / _BREAK)) / _LOG_STEP


def _mel_to_hertz(mel: np.ndarray, formula: str) -> np.ndarray:
    if formula == "htk":
        return 700.0 * (np.exp(mel / 1127.0) - 1.0)
    low = _BREAK / _PER_MEL
    return np.where(mel < low, mel * _PER_MEL, _BREAK * np.exp(np.maximum(mel - low, 0) * _LOG_STEP))


@lru_cache(64)
def mel_matrix(bins: int, filters: int, sample_rate: float, low: float, high: float, formula: str, normalize: bool) -> np.ndarray:
    """Triangular filters float64[filters, bins] over the frequencies 0 to half the sample rate. The array is shared and read-only."""
    limits.check_size(6 * 8 * bins * filters, f"{filters:,} filters for {bins:,} frequencies")
    frequencies = np.arange(bins) * (sample_rate / (2 * (bins - 1)) if bins > 1 else 0.0)
    edges = _mel_to_hertz(np.linspace(_hertz_to_mel(low, formula), _hertz_to_mel(high, formula), filters + 2), formula)
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    matrix = np.where((frequencies >= left) & (frequencies <= right), np.clip(np.fmin(rising, falling), 0, None), 0.0)
    if normalize:
        matrix = matrix * (2.0 / (right - left))
    matrix = np.ascontiguousarray(matrix)
    matrix.flags.writeable = False
    return matrix


class _AxisMatrix(KernelOperator):
    """Base: a matrix along one axis, FLOAT in and out."""

    repeatable = True
    kernel_module = "mel_filter_bank_kernels"

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.axis_matrix_step]

    def axis(self, source: Batch) -> int:
        """The axis along which the matrix is applied."""
        raise NotImplementedError

    def matrix(self, length: int) -> np.ndarray:
        """The matrix float64[rows, length]."""
        raise NotImplementedError

    def rows_of_nothing(self) -> int:
        """Rows of the matrix for an axis without elements."""
        raise NotImplementedError

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        axis = self.axis(source)
        shapes, lengths = source.shapes.copy(), source.shapes[:, axis]
        matrices = {
            length: self.matrix(length) if length else np.zeros((self.rows_of_nothing(), 0)) for length in sorted(set(lengths.tolist()))
        }
        shapes[:, axis] = [len(matrices[length]) for length in lengths.tolist()]
        output = self.output(source, shapes)
        return Planned([output], [self.kernels.make_axis_matrix_step(source, output, axis, matrix) for matrix in matrices.values()])


_FORMULAS = ("slaney", "htk")


@register
class MelFilterBank(_AxisMatrix):
    schema = Schema(
        name="mel_filter_bank",
        doc="""Mel spectrogram: triangular filters, evenly spaced on the mel scale, over the frequencies of a spectrogram.

        The frequencies are the axis "f" of the layout; without a layout the last but one (the only one of 1-D inputs).
        Input and output: FLOAT.""",
        accepts=(Input((DALIDataType.FLOAT,), matching("with an axis f", lambda layout: "f" in layout), "spectrograms", at_least(1)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("freq_high", "float", 0.0, "Highest frequency in Hz; by default half of `sample_rate`."),
            Arg("freq_low", "float", 0.0, "Lowest frequency in Hz."),
            Arg("mel_formula", "str", "slaney", 'The mel scale: "slaney" (linear below 1 kHz) or "htk".', choices=_FORMULAS),
            Arg("nfilter", "int", 128, "Number of filters."),
            Arg("normalize", "bool", True, "Filters have an integral of 1; otherwise a peak of 1."),
            Arg("sample_rate", "float", 44100.0, "Sampling rate of the signal in Hz."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        rate, low = spec.constant("sample_rate"), spec.constant("freq_low")
        high = spec.constant("freq_high") or rate / 2
        if spec.constant("nfilter") <= 0:
            raise ValueError(f"`nfilter` should be greater than 0, got {spec.constant('nfilter')}")
        if rate <= 0:
            raise ValueError(f"`sample_rate` should be greater than 0, got {rate}")
        if not 0 <= low < high <= rate:
            raise ValueError(f"expected 0 <= `freq_low` < `freq_high` <= `sample_rate`, got {low}, {high} and {rate}")
        if spec.constant("mel_formula") not in _FORMULAS:
            raise ValueError(f'Unsupported `mel_formula` {spec.constant("mel_formula")!r}; supported are "slaney" and "htk"')
        self._high = high

    def axis(self, source: Batch) -> int:
        if not source.layout:
            return max(source.ndim - 2, 0)
        return source.layout.index("f")

    def rows_of_nothing(self) -> int:
        filters: int = self.spec.constant("nfilter")
        return filters

    def matrix(self, length: int) -> np.ndarray:
        spec = self.spec
        rate, low, formula = spec.constant("sample_rate"), spec.constant("freq_low"), spec.constant("mel_formula")
        return mel_matrix(length, spec.constant("nfilter"), rate, low, self._high, formula, bool(spec.constant("normalize")))
