"""Tables of Fourier transforms, ``spectrogram`` and ``power_spectrum``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

_LENGTH = Field("length", "int64", "numbers of a transform")
_CONVOLVED = (
    Field("made", "int64", "length of the transforms made, a power of two"),
    Field("roots", "complex128[made / 2]", "roots of unity"),
    Field("chirp", "complex128[length]", "factors before and after the convolution"),
    Field("kernel", "complex128[made]", "the transformed kernel"),
)
_REAL = (
    Field("places", "int32[length / 2]", "where each complex number lies when the stages begin"),
    Field("stages", "int64", "number of stages"),
    Field("radices", "int32[stages]", "radix of each stage"),
    Field("twiddles", "complex64", "factors of all stages"),
    Field("turns", "complex64[length / 4 + 1]", "factors that make the result a spectrum of real numbers"),
)
TRANSFORM = Table("TRANSFORM", _LENGTH, *_CONVOLVED)
"""``spectrogram_fourier.Transform``."""
REAL_TRANSFORM = Table("REAL_TRANSFORM", _LENGTH, *_REAL)
"""``spectrogram_fourier.RealTransform``."""

DENSE_TRANSFORM = Table("DENSE_TRANSFORM", _LENGTH, Field("turns", "complex128[length]", "exp(-2 pi i k / length)"))
"""``spectrogram_fourier.DenseTransform``."""

SIGNAL_SIZES = Table(
    "SIGNAL_SIZES",
    Field("length", "int64", "samples of the signal"),
    Field("windows", "int64", "windows that are taken of the signal"),
)
_WINDOWS = (
    Field("weights", "float32[weight_count]", "window function, for a REAL_TRANSFORM times 1/2"),
    Field("weight_count", "int64", "samples of a window"),
    Field("hop", "int64", "samples from one window to the next"),
    Field("before", "int64", "padding before the signal"),
    Field("reflect", "int64", "1: the signal is reflected outside; 0: it is 0 there"),
    Field("power", "int64", "2: powers, 1: magnitudes"),
    Field("time_major", "int64", "1: time is the outer axis of the output"),
)
_SIZES = Field("sizes", "SIGNAL_SIZES[samples]", "signals and windows")
SPECTROGRAM = Table(
    "SPECTROGRAM",
    INPUTS,
    OUTPUTS,
    _SIZES,
    Field("plan", "TRANSFORM or REAL_TRANSFORM", "of a window"),
    *_WINDOWS,
    Field("scratch", "int64", "offset of the step's own scratch in the thread's"),
)
_MEMORY = Field("memory", "address", "of each block's complex numbers; 0: shared memory is enough")
SPECTROGRAM_GPU = Table("SPECTROGRAM_GPU", INPUTS, OUTPUTS, _SIZES, _LENGTH, *_CONVOLVED, *_WINDOWS, SAMPLES, _MEMORY)
_STAGES = "stages", "radices"  # a GPU's kernel is compiled for them
REAL_SPECTROGRAM_GPU = Table(
    "REAL_SPECTROGRAM_GPU", INPUTS, OUTPUTS, _SIZES, *[field for field in _REAL if field.name not in _STAGES], *_WINDOWS, SAMPLES, _MEMORY
)

ROW_SIZES = Table(
    "ROW_SIZES",
    Field("outer", "int64", "elements of the axes before the transformed one"),
    Field("length", "int64", "elements of the transformed axis"),
    Field("inner", "int64", "elements of the axes behind it"),
)
POWER_SPECTRUM = Table(
    "POWER_SPECTRUM",
    INPUTS,
    OUTPUTS,
    Field("sizes", "ROW_SIZES[samples]", "of the samples"),
    Field("plan", "TRANSFORM, REAL_TRANSFORM or DENSE_TRANSFORM", "of a row"),
    Field("power", "int64", "2: powers, 1: magnitudes"),
    Field("scratch", "int64", "offset of the step's own scratch in the thread's"),
)
