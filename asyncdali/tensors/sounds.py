"""Sounds as HTML: waveform, spectrogram, and a player."""

from __future__ import annotations

import base64
import struct

import numpy as np

from .pictures import data_uri, picture_of

ASSUMED_RATE = 16000
"""The rate at which a sound of unknown rate is played."""
_SHORTEST = 2000
"""A 1-D array of so many floats is taken for a sound, also without a known rate."""
_MOST_CHANNELS = 8
_COLUMNS = 200
_PLAYED = 48000
"""Samples of a player: 3 seconds at 16 kHz, 128 KB in the page."""
_WINDOW = 256


def is_sound(array: np.ndarray, layout: str, rate: float) -> bool:
    """Whether samples by time (and channel) are a sound. `rate` is 0 if it is unknown."""
    if layout or array.ndim not in (1, 2) or array.dtype.kind not in "fi" or array.dtype.itemsize < 2 or len(array) < 2:
        return False
    if array.ndim == 2 and (array.shape[1] > _MOST_CHANNELS or len(array) < _SHORTEST):
        return False
    return rate > 0 or (array.dtype.kind == "f" and len(array) >= _SHORTEST and array.ndim == 1)


def sound(array: np.ndarray, name: str, rate: float, player: bool) -> str:
    """The elements of one sound. Channels are mixed. Integers are fractions of their type's range."""
    values = np.nan_to_num(array.astype(np.float32))
    if array.dtype.kind == "i":
        values /= float(np.iinfo(array.dtype).max)
    if values.ndim == 2:
        values = values.mean(axis=1)
    known = rate or ASSUMED_RATE
    about = f"{len(values) / known:.2f} s at {known:g} Hz{'' if rate else ' (the rate is unknown)'}"
    if array.ndim == 2 and array.shape[1] > 1:
        about += f", {array.shape[1]} channels"
    parts = [_waveform(values, f"{name} waveform, {about}".strip()), _spectrogram(values, f"{name} spectrogram, {about}".strip())]
    if player:
        parts.append(_player(values, known, f"{name} {about}".strip()))
    return f'<span class="sound">{"".join(parts)}</span>'


def _waveform(values: np.ndarray, label: str) -> str:
    columns = np.array_split(values, min(_COLUMNS, len(values)))
    peak = max(float(np.abs(values).max()), 1e-12)
    bars = "".join(f"M{x} {20 - 19 * part.max() / peak:.0f}V{20.5 - 19 * part.min() / peak:.1f}" for x, part in enumerate(columns))
    return (
        f'<svg class="wave" viewBox="0 0 {len(columns)} 40" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<path d="{bars}" stroke="currentColor"/></svg>'
    )


def _spectrogram(values: np.ndarray, label: str) -> str:
    if len(values) < 2 * _WINDOW:
        return ""
    starts = np.linspace(0, len(values) - _WINDOW, min(_COLUMNS, len(values) // 64)).astype(np.intp)
    pieces = values[starts[:, None] + np.arange(_WINDOW)] * np.hanning(_WINDOW).astype(np.float32)
    power = np.abs(np.fft.rfft(pieces)).T[1:]
    pixels = picture_of(np.log(np.maximum(power, max(float(power.max()) * 1e-4, 1e-12))).astype(np.float32), "ft")
    assert pixels is not None
    address, _, _ = data_uri(pixels, max(_COLUMNS, _WINDOW // 2))
    return f'<img class="spectrogram" alt="{label}" title="{label}" src="{address}">'


def _player(values: np.ndarray, rate: float, label: str) -> str:
    """The beginning of a sound as a WAV file of 16 bits. High rates are divided."""
    factor = max(1, round(rate / ASSUMED_RATE))
    played = values[: _PLAYED * factor]
    cut = len(played) < len(values)
    if factor > 1:
        played = played[: len(played) // factor * factor].reshape(-1, factor).mean(axis=1)
    samples = (played / max(float(np.abs(values).max()), 1.0) * 32767).astype("<i2").tobytes()
    hertz = max(1, min(round(rate / factor), 96000))
    header = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt "
    header += struct.pack("<IHHIIHH", 16, 1, 1, hertz, 2 * hertz, 2, 16) + b"data" + struct.pack("<I", len(samples))
    text = f"{label}, the first {len(played) / hertz:.1f} s" if cut else label
    address = base64.b64encode(header + samples).decode()
    return f'<audio controls preload="none" title="{text}" aria-label="{text}" src="data:audio/wav;base64,{address}"></audio>'
