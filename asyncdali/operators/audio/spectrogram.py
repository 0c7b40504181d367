"""spectrogram and power_spectrum."""

from __future__ import annotations

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output, argument, at_least
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, refuse_where, register
from .spectrogram_fourier import row_transform_of, transform_of
from .spectrogram_fourier_tables import SIGNAL_SIZES

MOST_BINS = 1 << 22
_POWER = Arg("power", "int", 2, "Exponent of the magnitude: 1 or 2.")


class _Spectrum(Operator):
    """Base: FLOAT in, FLOAT out."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import spectrogram_kernels

        self._kernels = spectrogram_kernels
        self._power = spec.constant("power")
        if self._power not in (1, 2):
            raise ValueError(f"`power` can be only 1 (amplitude) or 2 (power), got {self._power}")
        self._nfft = spec.constant("nfft")
        if self._nfft is not None and not 1 <= self._nfft <= MOST_BINS:
            raise ValueError(f"`nfft` is {self._nfft}; it must be 1 to {MOST_BINS}")


@register
class Spectrogram(_Spectrum):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="spectrogram",
        doc="""Spectrogram of a signal: the magnitude (or power) of the Fourier transforms of its windows.

        Input: one channel, FLOAT, of shape (samples,), (samples, 1) or (1, samples).
        Output: FLOAT, nfft / 2 + 1 frequencies by windows.""",
        accepts=(Input((DALIDataType.FLOAT,), name="sound", ranks=ANY_RANK),),
        gives=(Output(DALIDataType.FLOAT, 2, argument("layout")),),
        devices=("cpu", "gpu"),
        args=(
            Arg("center_windows", "bool", True, "Centre windows at multiples of `window_step`; otherwise only those inside the signal."),
            Arg("layout", "layout", "ft", 'Layout of the output: "ft" or "tf".'),
            Arg("nfft", "int", None, "Length of the transform; by default `window_length`."),
            _POWER,
            Arg("reflect_padding", "bool", True, "Outside, the signal is reflected about its ends; otherwise it is zero."),
            Arg("window_fn", "float_list", None, "The window, `window_length` numbers; by default a Hann window."),
            Arg("window_length", "int", 512, "Samples in a window."),
            Arg("window_step", "int", 256, "Samples from one window to the next."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        length, self._step = spec.constant("window_length"), spec.constant("window_step")
        if length <= 0 or self._step <= 0:
            raise ValueError(f"`window_length` and `window_step` must be positive, got {length} and {self._step}")
        if spec.constant("layout") not in ("ft", "tf"):
            raise ValueError(f'Unexpected layout: "{spec.constant("layout")}"; expected "ft" or "tf"')
        limits.check_size(32 * length, f"a window of {length:,} samples")
        given = spec.constant("window_fn")
        if given:
            if len(given) != length:
                raise ValueError(f"`window_fn` has {len(given)} values, `window_length` is {length}")
            self._window = np.ascontiguousarray(given, np.float32)
        else:
            self._window = (0.5 * (1 - np.cos(2 * np.pi * (np.arange(length) + 0.5) / length))).astype(np.float32)
        self._nfft = length if self._nfft is None else self._nfft
        if self._nfft < length:
            raise ValueError(f"`nfft` is {self._nfft}; it must be at least `window_length`, which is {length}")
        self._transform = transform_of(self._nfft)
        self._kernels.compile_spectrogram(self._transform)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, centred = inputs[0], self.spec.constant("center_windows")
        lengths = source.shapes.prod(axis=1)
        several = source.shapes.max(axis=1, initial=0) != lengths
        if source.ndim:
            refuse_where(
                several, lambda i: f"at most one axis of a signal may be longer than 1, got shape {source.shapes[i].tolist()}"
            )
        size = len(self._window)
        windows = lengths // self._step + 1 if centred else np.maximum(lengths - size, -self._step) // self._step + 1
        short = (windows <= 0) | (lengths == 0)
        refuse_where(short, lambda i: f"a signal of {int(lengths[i])} samples is too short for windows of {size}")
        time_major = self.spec.constant("layout") == "tf"
        bins = np.full(len(source), self._nfft // 2 + 1)
        shapes = np.stack([windows, bins] if time_major else [bins, windows], axis=1).astype(np.int64)
        output = Batch(shapes, DALIDataType.FLOAT, self.spec.constant("layout"), device=source.device, source_info=source.source_info)
        sizes = SIGNAL_SIZES.zeros(len(lengths))
        sizes[:, SIGNAL_SIZES.word.length], sizes[:, SIGNAL_SIZES.word.windows] = lengths, windows
        reflects = bool(self.spec.constant("reflect_padding")) and centred
        framing = self._kernels.Framing(self._step, size // 2 if centred else 0, reflects, self._power, time_major)
        step = self._kernels.make_spectrogram_step(source, output, sizes, self._transform, self._window, framing)
        return Planned([output], [step])


@register
class PowerSpectrum(_Spectrum):
    repeatable = True
    schema = Schema(
        name="power_spectrum",
        doc="""Power (or magnitude) of the Fourier transform along one axis: nfft / 2 + 1 frequencies.

        Input and output: FLOAT.""",
        accepts=(Input((DALIDataType.FLOAT,), name="sound", ranks=at_least(1)),),
        gives=(Output(),),
        args=(
            Arg("axis", "int", -1, "The axis that is transformed; negative: from the end."),
            Arg("nfft", "int", None, "Length of the transform; by default that of the axis; a longer axis is cut."),
            _POWER,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._kernels.compile_power_spectrum(row_transform_of(self._nfft or 2))

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, axis = inputs[0], self.spec.constant("axis")
        if not -source.ndim <= axis < source.ndim:
            raise ValueError(f"Transform axis {axis} is out of range for {source.ndim} dimensions")
        axis %= source.ndim
        lengths = source.shapes[:, axis]
        shapes = source.shapes.copy()
        nffts = lengths if self._nfft is None else np.full(len(source), self._nfft)
        refuse_where(nffts < 1, lambda _: f"the axis {axis} has no elements")
        shapes[:, axis] = nffts // 2 + 1
        output = Batch(shapes, DALIDataType.FLOAT, source.layout, source_info=source.source_info)
        make = self._kernels.make_power_spectrum_step
        steps = [make(source, output, axis, row_transform_of(n), self._power, nffts == n) for n in sorted(set(nffts.tolist()))]
        return Planned([output], steps)
