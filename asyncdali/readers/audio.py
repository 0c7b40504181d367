"""Audio files as arrays: WAV by its format, others through `soundfile`; mixing, resampling, element types."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

import numpy as np

from .remote import Opener, open_file

_LARGEST_CHUNK = 1 << 40
_LARGEST_RATIO, _LARGEST_STRETCHED = 64, 1 << 24
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


def read_audio(path: str, offset: float, duration: float, open_file: Opener = open_file) -> tuple[np.ndarray, float]:
    """(float64[samples, channels] in [-1, 1), sampling rate) of the part from `offset` seconds, `duration` long (negative: to the end).

    RuntimeError that names the file.
    """
    try:
        with open_file(path) as file:
            if not file.seekable():
                raise OSError("it is not a regular file")
            if file.read(4) in (b"RIFF", b"RIFX"):
                file.seek(0)
                return _read_wav(file, path, offset, duration)
    except OSError as error:
        raise RuntimeError(f"Failed to open encoded data: {error.strerror or error}, filepath: {path}") from error
    return _read_other(path, offset, duration, open_file)


def _window(total: int, rate: float, offset: float, duration: float, path: str) -> tuple[int, int]:
    """(first sample, number of samples)."""
    first = int(max(offset, 0.0) * rate)
    if first > total:
        raise RuntimeError(f"{path}: offset {offset} s lies beyond the end of {total} samples at {rate:g} Hz")
    count = total - first
    return first, count if duration < 0 else min(count, int(duration * rate))


def _chunks(file: BinaryIO, path: str):  # type: ignore[no-untyped-def]
    """(name, offset of the data, size) of a RIFF file's chunks."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(12)
    if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise RuntimeError(f"{path}: not a WAV file")
    at = 12
    while at + 8 <= size:
        file.seek(at)
        name, length = struct.unpack("<4sI", file.read(8))
        yield name, at + 8, min(length, size - at - 8)
        at += 8 + length + (length & 1)


def _read_wav(file: BinaryIO, path: str, offset: float, duration: float) -> tuple[np.ndarray, float]:
    kind = channels = rate = bits = 0
    for name, at, length in _chunks(file, path):
        if name == b"fmt ":
            file.seek(at)
            fields = file.read(min(length, 40))
            if len(fields) < 16:
                raise RuntimeError(f"{path}: broken WAV file: its format is cut short")
            kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", fields)
            if kind == _EXTENSIBLE and len(fields) >= 26:
                kind = struct.unpack_from("<H", fields, 24)[0]
        elif name == b"data":
            if not channels or not rate or not bits:
                raise RuntimeError(f"{path}: broken WAV file: data before its format")
            width = bits // 8 * channels
            if not width:
                raise RuntimeError(f"{path}: WAV files of {bits} bits are not supported")
            first, count = _window(length // width, rate, offset, duration, path)
            file.seek(at + first * width)
            return _samples(file.read(count * width), kind, bits, path).reshape(-1, channels), float(rate)
    raise RuntimeError(f"{path}: broken WAV file: it has no data")


def _samples(data: bytes, kind: int, bits: int, path: str) -> np.ndarray:
    """Stored numbers as float64 in [-1, 1)."""
    if kind == _FLOAT and bits in (32, 64):
        return np.nan_to_num(np.frombuffer(data, f"<f{bits // 8}").astype(np.float64))
    if kind != _PCM or bits not in (8, 16, 24, 32):
        raise RuntimeError(f"{path}: WAV files of kind {kind} with {bits} bits are not supported")
    if bits == 8:
        return (np.frombuffer(data, np.uint8).astype(np.float64) - 128) / 128
    if bits == 24:
        triples = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(triples), 4), np.uint8)
        wide[:, 1:] = triples
        return wide.view("<i4")[:, 0] / 2.0**31
    return np.frombuffer(data, f"<i{bits // 8}") / 2.0 ** (bits - 1)


def _read_other(path: str, offset: float, duration: float, open_file: Opener) -> tuple[np.ndarray, float]:
    try:
        import soundfile
    except ImportError:
        raise RuntimeError(f"{path} is not a WAV file; for FLAC and OGG install `soundfile` (asyncdali[audio])") from None
    try:
        with open_file(path) as source, soundfile.SoundFile(source) as file:
            first, count = _window(file.frames, file.samplerate, offset, duration, path)
            file.seek(first)
            return file.read(count, "float64", always_2d=True), float(file.samplerate)
    except soundfile.LibsndfileError as error:
        raise RuntimeError(f"Failed to open encoded data: {error}, filepath: {path}") from None


def resample(samples: np.ndarray, source: float, target: float, quality: float) -> np.ndarray:
    """[samples, channels] at another rate: a sinc in a Hann window of 3 (quality 0), 16 (50) or 64 (100) lobes on each side.

    ValueError where the rate of a broken header would make something enormous of them.
    """
    if source == target or not len(samples):
        return samples
    lobes = round(0.007 * quality * quality - 0.09 * quality + 3)
    count = int(np.ceil(len(samples) * target / source))
    if target > _LARGEST_RATIO * source and count > _LARGEST_STRETCHED:
        raise ValueError(f"{len(samples)} samples at {source:g} Hz would be {count} at {target:g} Hz: its sampling rate is hardly right")
    padded = np.pad(samples, ((lobes, lobes + 1), (0, 0)))
    result = np.empty((count, samples.shape[1]))
    steps = np.arange(-lobes, lobes + 1)
    for start in range(0, count, 1 << 14):
        places = np.arange(start, min(count, start + (1 << 14))) * (source / target)
        near = np.floor(places).astype(np.int64)
        distance = (places - near)[:, None] - steps
        inside = np.abs(distance) <= lobes
        weights = np.where(inside, np.sinc(distance) * (0.5 + 0.5 * np.cos(np.pi * distance / lobes)), 0)
        taps = padded[np.minimum(near[:, None] + steps + lobes, len(padded) - 1)]
        result[start : start + len(places)] = np.einsum("nk,nkc->nc", weights, taps)
    return result


def as_type(samples: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float64 in [-1, 1) as float32, or as the full range of an integer type."""
    if dtype.kind == "f":
        return samples.astype(dtype)
    limits = np.iinfo(dtype)
    scaled = samples * (limits.max + 1.0)
    return np.clip(np.sign(scaled) * np.floor(np.abs(scaled) + 0.5), limits.min, limits.max).astype(dtype)
