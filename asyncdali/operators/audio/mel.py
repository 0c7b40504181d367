"""mel_filter_bank and mfcc: matrices along the axis of frequencies."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, at_least, matching
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register

_BREAK, _PER_MEL, _LOG_STEP = 1000.0, 200.0 / 3, np.log(6.4) / 27


def _hertz_to_mel(hertz: float, formula: str) -> float:
    if formula == "htk":
        return 1127.0 * np.log(1.0 + hertz / 700.0)
    return hertz / _PER_MEL if hertz < _BREAK else _BREAK / _PER_MEL + np.log(hertz / _BREAK) / _LOG_STEP


def _mel_to_hertz(mel: np.ndarray, formula: str) -> np.ndarray:
    if formula == "htk":
        return 700.0 * (np.exp(mel / 1127.0) - 1.0)
    low = _BREAK / _PER_MEL
    return np.where(mel < low, mel * _PER_MEL, _BREAK * np.exp(np.maximum(mel - low, 0) * _LOG_STEP))


@lru_cache(64)
def mel_matrix(bins: int, filters: int, sample_rate: float, low: float, high: float, formula: str, normalize: bool) -> np.ndarray:
    """Triangular filters float64[filters, bins] over the frequencies 0 to half the sample rate; shared, so read-only."""
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


@lru_cache(64)
def cosine_matrix(kind: int, count: int, length: int, normalize: bool, lifter: float) -> np.ndarray:
    """The first `count` rows of the discrete cosine transform `kind` (1 to 4), liftered; float64[count, length]; shared, so read-only."""
    limits.check_size(4 * 8 * count * length, f"a cosine transform of {length:,} numbers to {count:,}")
    k, n = np.arange(count)[:, None], np.arange(length)[None]
    if kind == 1:
        matrix = np.cos(np.pi * k * n / max(length - 1, 1))
        matrix[:, 0] = 0.5
        matrix[:, -1] = 0.5 * np.where(np.arange(count) % 2, -1.0, 1.0)
    elif kind == 2:
        matrix = np.cos(np.pi / length * (n + 0.5) * k)
    elif kind == 3:
        matrix = np.cos(np.pi / length * n * (k + 0.5))
        matrix[:, 0] = 0.5
    else:
        matrix = np.cos(np.pi / length * (n + 0.5) * (k + 0.5))
    if normalize:
        matrix = matrix * np.sqrt(2.0 / length)
        if kind == 2:
            matrix[0] /= np.sqrt(2.0)
        elif kind == 3:
            matrix[:, 0] *= np.sqrt(2.0)
    if lifter:
        matrix = matrix * (1.0 + lifter / 2 * np.sin(np.pi / lifter * (np.arange(count) + 1)))[:, None]
    matrix = np.ascontiguousarray(matrix)
    matrix.flags.writeable = False
    return matrix


class _AxisMatrix(Operator):
    """Base: a matrix along one axis, FLOAT in and out."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import axis_matrix_kernels

        self._kernels = axis_matrix_kernels
        self._kernels.axis_matrix_step.compile()

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.FLOAT]

    def axis(self, source: Batch) -> int:
        """The axis that the matrix is applied to."""
        raise NotImplementedError

    def matrix(self, length: int) -> np.ndarray:
        """The matrix float64[rows, length]."""
        raise NotImplementedError

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        axis = self.axis(source)
        lengths = source.shapes[:, axis]
        length = int(lengths[0]) if len(lengths) else 1
        wrong = (lengths != length) | (lengths < 1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"axis {axis} has {int(lengths[i])} elements; all samples must have as many, at least 1 ({length})")
        matrix = self.matrix(length)
        shapes = source.shapes.copy()
        shapes[:, axis] = len(matrix)
        output = Batch(shapes, DALIDataType.FLOAT, source.layout, device=source.device, source_info=source.source_info)
        return Planned([output], [self._kernels.make_axis_matrix_step(source, output, axis, matrix)])


@register
class MelFilterBank(_AxisMatrix):
    on_cuda = True
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
            Arg("mel_formula", "str", "slaney", 'The mel scale: "slaney" (linear below 1 kHz) or "htk".'),
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
        if spec.constant("mel_formula") not in ("slaney", "htk"):
            raise ValueError(f'Unsupported `mel_formula` {spec.constant("mel_formula")!r}; supported are "slaney" and "htk"')
        self._high = high

    def axis(self, source: Batch) -> int:
        if not source.layout:
            return max(source.ndim - 2, 0)
        return source.layout.index("f")

    def matrix(self, length: int) -> np.ndarray:
        spec = self.spec
        rate, low, formula = spec.constant("sample_rate"), spec.constant("freq_low"), spec.constant("mel_formula")
        return mel_matrix(length, spec.constant("nfilter"), rate, low, self._high, formula, bool(spec.constant("normalize")))


@register
class Mfcc(_AxisMatrix):
    on_cuda = True
    schema = Schema(
        name="mfcc",
        doc="""Mel frequency cepstral coefficients: a cosine transform of a mel spectrogram (in decibels).

        Input and output: FLOAT.""",
        accepts=(Input((DALIDataType.FLOAT,), name="spectrograms", ranks=at_least(1)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("axis", "int", 0, "The axis that is transformed."),
            Arg("dct_type", "int", 2, "Type of the cosine transform, 1 to 4."),
            Arg("lifter", "float", 0.0, "Coefficient k is multiplied by 1 + lifter / 2 * sin(pi * (k + 1) / lifter); 0: by 1."),
            Arg("n_mfcc", "int", 20, "Number of coefficients; no more than the axis has elements."),
            Arg("normalize", "bool", False, "An orthonormal transform; not for type 1."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("dct_type") not in (1, 2, 3, 4):
            raise ValueError(f"Unsupported DCT type: {spec.constant('dct_type')}. Supported types are: 1, 2, 3, 4.")
        if spec.constant("dct_type") == 1 and spec.constant("normalize"):
            raise ValueError("Ortho-normalization is not supported for DCT type I.")
        if spec.constant("n_mfcc") <= 0:
            raise ValueError(f"`n_mfcc` must be positive, got {spec.constant('n_mfcc')}")

    def axis(self, source: Batch) -> int:
        axis = self.spec.constant("axis")
        if not 0 <= axis < source.ndim:
            raise ValueError(f"Axis {axis} is out of bounds [0,{source.ndim})")
        return axis

    def matrix(self, length: int) -> np.ndarray:
        spec = self.spec
        kind, normalize = spec.constant("dct_type"), bool(spec.constant("normalize"))
        if kind == 1 and length < 2:
            raise ValueError("DCT type I requires an axis of at least 2 elements")
        return cosine_matrix(kind, min(spec.constant("n_mfcc"), length), length, normalize, spec.constant("lifter"))
