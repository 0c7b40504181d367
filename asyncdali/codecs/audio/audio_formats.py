"""Decode encoded sound to arrays: WAV here, FLAC and Ogg Vorbis in compiled code, other formats through `soundfile`.

Also selects parts of files, mixes channels and converts types.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, BinaryIO, Protocol

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from .compiled_sounds import NotDecoded, WholeSound, pages_are_intact
from .resampling import resample
from .wav_headers import EXTENSIBLE, GUID, LEAST_UNFINISHED, MOST_CHANNELS, MOST_RATE, RESYNC, UNFINISHED

SUPPORTED_DTYPES = (DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT)
_HIGHEST_RATE = 1e7
_FLOAT = np.dtype(np.float32)
_KIND_PCM, _KIND_FLOAT, _KIND_EXTENSIBLE = 1, 3, 0xFFFE
_COMPILED = {
    b"fLaC": "a FLAC file that is damaged, or not of 8, 16 or 24 bits and known length,",
    b"OggS": "an Ogg file that is damaged, or not one stream of Vorbis,",
}
"""The first bytes of the files that compiled code decodes; and what such a file is if compiled code cannot decode it."""
_OGG = b"OggS"
_SHORT = 3
"""Compiled code decodes whole FLAC files, in 0.4 of libsndfile's time. libsndfile seeks: it reads 10 s of 600 s in 2 ms. So `soundfile`, if
it is installed, reads parts below a third of a FLAC file."""
_PIECE = 1 << 24
"""Numbers that libsndfile reads at a time. A header may promise any number of samples. Memory is only taken for samples that are there."""
_SEEKABLE = ("PCM", "FLOAT", "DOUBLE", "ULAW", "ALAW", "ALAC", "OPUS", "MPEG")
"""Codings in which libsndfile seeks, FLAC among them (as PCM). It cannot seek in GSM, G.72x, NMS ADPCM, DPCM and DWVW. In damaged IMA and
MS ADPCM it finds other samples than without a seek. In some Vorbis streams it crashes, even if all checksums are right."""
_MOST_SKIP = 8192
"""Samples that an Opus header may tell to skip, if libsndfile seeks in the file. Encoders write 312 to 6,500. From 12,000 on, samples
behind a seek are not those of the whole."""
_UNKNOWN = (1 << 63) - 1
"""The number of samples that libsndfile reports for a FLAC stream of unknown length."""


def check_dtype(dtype: DALIDataType) -> None:
    """Raise RuntimeError unless sound can be decoded to the type."""
    if dtype not in SUPPORTED_DTYPES:
        raise RuntimeError(f"Unsupported output type: {dtype.name}. Supported types are INT16, INT32 and FLOAT.")


def check_rate(rate: float) -> None:
    """Raise ValueError unless sound can be resampled to `rate`. A rate of 0 or less means no resampling."""
    if not (rate <= 0 or 1 <= rate <= _HIGHEST_RATE):
        raise ValueError(f"`sample_rate` is {rate:g}; it must be 1 to 10 million, or 0 to keep the rate of the file")


def batch_of_sounds(samples: Sequence[np.ndarray], dtype: DALIDataType) -> Batch:
    """Make a batch of separate arrays. The arrays are all 1-D or all 2-D."""
    shapes = np.array([sample.shape for sample in samples], np.int64).reshape(len(samples), samples[0].ndim if samples else 2)
    addresses = np.array([sample.ctypes.data for sample in samples], np.int64)
    return Batch(shapes, dtype, "", addresses, list(samples))


def merged(batch: Batch, samples: Sequence[int], sounds: Sequence[np.ndarray]) -> Batch:
    """A batch with separate arrays in place of some `samples` of `batch`."""
    other = batch_of_sounds(sounds, batch.dtype)
    shapes, addresses = batch.shapes.copy(), batch.addresses.copy()
    shapes[samples], addresses[samples] = other.shapes, other.addresses
    return Batch(shapes, batch.dtype, "", addresses, [batch.owner, other.owner])


def decode_audio(
    file: BinaryIO, dtype: np.dtype, *, rate: float = 0.0, quality: float = 50.0, downmix: bool = False, offset: float = 0.0,
    duration: float = -1.0,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Decode a part of a file: (samples [time, channels], or [time] with `downmix`; the file's sampling rate).

    FLOAT samples are in [-1, 1]; integers use the range of their type. A positive `rate` is the rate to resample to. `offset` and
    `duration` in seconds choose a part; a negative duration means to the end. ValueError names the error in the data.
    """
    part = SoundPart(dtype, rate, quality, downmix, offset, duration)
    try:
        return part.of(_open(file, part))
    except NotDecoded as error:
        what = str(error)
    return part.of(_other(file, what))  # outside of the handler: an error here is the only one that the user sees


@dataclass(frozen=True)
class SoundPart:
    """The arguments of :func:`decode_audio`: the part of a file, and the form of its samples."""

    dtype: np.dtype
    rate: float
    quality: float
    downmix: bool
    offset: float
    duration: float

    def of(self, sound: _Sound) -> tuple[np.ndarray, float]:
        """The samples, and the sampling rate of the file."""
        first, count = self.window(sound)
        resamples, mixes = self.rate > 0 and self.rate != sound.rate, self.downmix and sound.channels > 1
        samples = sound.read(first, count, _FLOAT if resamples or mixes else self.dtype)  # Integers as stored.
        if len(samples) < count:
            raise ValueError(f"the file ends after {len(samples)} of {count} samples")
        if mixes:
            samples = _mixed(samples)
        if resamples:
            samples = resample(samples, sound.rate, self.rate, self.quality)
        if resamples or mixes:
            samples = _as_type(samples, self.dtype)
        return np.ascontiguousarray(samples[:, 0] if self.downmix else samples), sound.rate

    @property
    def whole(self) -> bool:
        """Whether the whole file is wanted."""
        return self.offset <= 0 and self.duration < 0

    def window(self, sound: _Sound) -> tuple[int, int]:
        """(first sample, number of samples). ValueError if the part begins behind the end."""
        begin, length = max(self.offset, 0.0) * sound.rate, self.duration * sound.rate  # Either may be infinite.
        if not begin < sound.frames + 1:
            raise ValueError(f"offset {self.offset} s lies beyond the end of {sound.frames} samples at {sound.rate:g} Hz")
        first = int(begin)
        count = sound.frames - first
        return first, int(length) if 0 <= length < count else count


def _mixed(samples: np.ndarray) -> np.ndarray:
    """The mean of the channels, float32[time, 1]. Adding whole columns is much faster than adding along rows of two."""
    total = samples[:, :1].copy()
    for channel in range(1, samples.shape[1]):
        total += samples[:, channel : channel + 1]
    total *= _FLOAT.type(1 / samples.shape[1])
    return total


class _Sound(Protocol):
    """An open file."""

    rate: float
    channels: int
    frames: int

    def read(self, first: int, count: int, dtype: np.dtype) -> np.ndarray:
        """[count, channels] from sample `first` on, as int16, int32 or float32. Integers are widened or narrowed by shifting bits."""
        ...


def _open(file: BinaryIO, part: SoundPart) -> _Sound:
    """Open a file. NotDecoded, with a description of the file, if our own decoders do not know its format."""
    if not file.seekable():
        raise ValueError("not a regular file")
    mark = file.read(4)
    if mark == b"RIFF":
        wave = _Wav(file)
        if not wave.supported:
            raise NotDecoded(f"a WAV file of kind {wave.kind} with {wave.bits} bits")
        return wave
    if mark not in _COMPILED:
        raise NotDecoded(f"a file that begins with {mark!r}")
    if mark != _OGG and not part.whole and _soundfile() is not None:
        sound = _other(file, _COMPILED[mark])
        if _SHORT * part.window(sound)[1] < sound.frames:
            return sound
    file.seek(0)
    return WholeSound(file.read(), _COMPILED[mark])


def _soundfile() -> ModuleType | None:
    """The package; None if it is not installed."""
    try:
        import soundfile
    except ImportError:
        return None
    found: ModuleType = soundfile
    return found


def _other(file: BinaryIO, what: str) -> _Sound:
    """Open a file for `soundfile`. ValueError if the package is missing, or if it cannot read the file. `what` describes the file."""
    soundfile = _soundfile()
    if soundfile is None:
        raise ValueError(
            f"{what} cannot be decoded without the package `soundfile`. WAV (8, 16, 24, 32 bits, floats), FLAC (8, 16, 24 bits) and Ogg "
            "Vorbis can, if the files are undamaged; install `soundfile` to decode Opus, MP3, AIFF, AU and others: "
            "pip install asyncdali[audio]"
        )
    file.seek(0)
    seeks = _may_seek(file)
    try:
        return _Other(file, seeks)
    except soundfile.SoundFileError as error:
        raise ValueError(f"Failed to open encoded data: {getattr(error, 'error_string', error)}") from None


def _may_seek(file: BinaryIO) -> bool:
    """Whether libsndfile may seek in a file. Seeking in damaged Ogg streams crashes libsndfile 1.2.2, and finds wrong samples."""
    if file.read(4) != _OGG:
        return True
    file.seek(0)
    data = file.read()
    if not pages_are_intact(data):
        return False
    head = data[27 + data[26] :][:12] if len(data) > 26 else b""
    return not head.startswith(b"OpusHead") or int.from_bytes(head[10:], "little") <= _MOST_SKIP


class _Wav:
    """A RIFF file. ValueError if the file is broken. What is a format, and how long the samples are, follows libsndfile."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self.kind = self.channels = self.bits = 0
        self.rate, self.frames, self._data_at = 0.0, 0, -1
        size = file.seek(0, os.SEEK_END)
        begun = False
        for name, at, length in _chunks(file, size):
            if name == b"fmt ":
                if begun:
                    raise ValueError("broken WAV file: there is another format chunk")
                self._read_format(at, length)
                begun = True
            elif name == b"data":
                if not begun:
                    raise ValueError("broken WAV file: the data chunk comes before the format chunk")
                self._find_samples(at, length, size)
                return
        raise ValueError("broken WAV file: there is no data chunk")

    def _read_format(self, at: int, length: int) -> None:
        self._file.seek(at)
        fields = self._file.read(min(length, EXTENSIBLE))
        if len(fields) < 16:
            raise ValueError("broken WAV file: the format chunk is truncated")
        self.kind, self.channels, rate, _, _, self.bits = struct.unpack_from("<HHIIHH", fields)
        self.rate = float(rate)
        if not 1 <= self.channels <= MOST_CHANNELS:
            raise ValueError(f"broken WAV file: {self.channels} channels; there can be 1 to {MOST_CHANNELS}")
        if not 1 <= rate <= MOST_RATE:
            raise ValueError(f"broken WAV file: the sampling rate is {rate}; it can be 1 to {MOST_RATE}")
        if self.kind == _KIND_EXTENSIBLE and fields[26:EXTENSIBLE] == GUID:
            self.kind = struct.unpack_from("<H", fields, 24)[0]

    def _find_samples(self, at: int, length: int, size: int) -> None:
        if length == 0 and self._riff_bytes() == UNFINISHED and size > LEAST_UNFINISHED:
            length = size - at
        self._data_at, self._width = at, self.bits // 8 * self.channels
        self.frames = length // self._width if self.supported else 0

    def _riff_bytes(self) -> int:
        """The size in the file's header."""
        self._file.seek(4)
        return int.from_bytes(self._file.read(4), "little")

    @property
    def supported(self) -> bool:
        """Whether :meth:`read` can be called."""
        return self.bits in {_KIND_PCM: (8, 16, 24, 32), _KIND_FLOAT: (32, 64)}.get(self.kind, ())

    def read(self, first: int, count: int, dtype: np.dtype) -> np.ndarray:
        """See :class:`_Sound`."""
        self._file.seek(self._data_at + first * self._width)
        data = self._file.read(count * self._width)
        return self._converted(data[: len(data) // self._width * self._width], dtype).reshape(-1, self.channels)

    def _converted(self, data: bytes, dtype: np.dtype) -> np.ndarray:
        if self.kind == _KIND_FLOAT:
            with np.errstate(over="ignore"):  # Values too large for FLOAT become infinite.
                return _as_type(np.frombuffer(data, f"<f{self.bits // 8}").astype(_FLOAT), dtype)
        if self.bits == 8:
            stored = (np.frombuffer(data, np.uint8) ^ 0x80).view(np.int8)
        elif self.bits == 24:
            wide = np.zeros((len(data) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            stored = wide.view("<i4")[:, 0]
        else:
            stored = np.frombuffer(data, f"<i{self.bits // 8}")
        bits = 8 * stored.itemsize
        if dtype.kind == "f":
            result: np.ndarray = stored.astype(dtype) * dtype.type(2.0 ** (1 - bits))
            return result
        more = 8 * dtype.itemsize - bits
        return (stored.astype(dtype) << more) if more >= 0 else (stored >> -more).astype(dtype)


def _chunks(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, int]]:
    """(name, offset of the data, size) of the chunks of a RIFF file of `size` bytes."""
    file.seek(0)
    head = file.read(12)
    if len(head) < 12 or head[8:] != b"WAVE":
        raise ValueError("not a WAV file")
    at = 12
    while at + 8 <= size:
        file.seek(at)
        name, length = struct.unpack("<4sI", file.read(8))
        if all(32 <= letter < 127 for letter in name):
            yield name, at + 8, min(length, size - at - 8)
            at += 8 + length + (length & 1)
        elif at & 3:
            at += RESYNC
        else:
            return


class _Forgiving:
    """A file that ignores a seek to an invalid place.

    Damaged files make libsndfile seek there, and its callbacks must not raise.
    """

    def __init__(self, file: BinaryIO):
        self._file = file
        self.tell, self.readinto = file.tell, file.readinto  # type: ignore[attr-defined]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Seek; returns the new place."""
        try:
            return self._file.seek(offset, whence)
        except (OSError, ValueError):
            return self._file.tell()


class _Other:
    """A file read by `soundfile`. SoundFileError if libsndfile cannot open the file. `seeks`: libsndfile may seek in the file."""

    def __init__(self, file: BinaryIO, seeks: bool):
        import soundfile

        class Unseeking(soundfile.SoundFile):  # type: ignore[misc]
            """`soundfile` seeks after each read otherwise. Some codings cannot seek, others only to the begin."""

            def seekable(self) -> bool:
                return False

        def opened() -> Any:
            file.seek(0)
            return Unseeking(_Forgiving(file))

        self._open = opened
        self._file = opened()
        self.rate, self.channels = float(self._file.samplerate), int(self._file.channels)
        self._ogg, subtype = self._file.format == "OGG", self._file.subtype
        # If the stored samples are not integers, reading them as integers would truncate and not scale.
        self._integers = subtype.startswith(("PCM", "ALAC", "ULAW", "ALAW", "DPCM", "DWVW"))
        self._seeks = seeks and subtype.startswith(_SEEKABLE)
        self.frames = int(self._file.frames)
        if self.frames == _UNKNOWN:
            self.frames = sum(map(len, self._pieces(_UNKNOWN, "int16")))
            self._file = opened()

    def read(self, first: int, count: int, dtype: np.dtype) -> np.ndarray:
        """See :class:`_Sound`."""
        import soundfile

        name = dtype.name if self._integers else "float32"
        try:
            if self._ogg and not self._seeks:
                return _as_type(self._whole(name)[first : first + count], dtype)
            if self._seeks:  # To the first sample, too: damaged headers make libsndfile begin elsewhere without a seek.
                samples = self._sought(first, count, name)
                if len(samples) == count:
                    return _as_type(samples, dtype)
                self._file = self._open()
                self._file.seek(0)
            self._skip(first, name)
            return _as_type(self._joined(count, name), dtype)
        except soundfile.SoundFileError as error:
            raise ValueError(f"Error decoding audio: {getattr(error, 'error_string', error)}") from None

    def _sought(self, first: int, count: int, name: str) -> np.ndarray:
        """Samples behind a seek. They are too few where the seek misleads, in damaged FLAC and Opus files."""
        import soundfile

        try:
            self._file.seek(first)
            return self._joined(count, name)
        except soundfile.SoundFileError:
            return np.empty((0, self.channels), name)

    def _skip(self, count: int, name: str) -> None:
        for _ in self._pieces(count, name):
            pass

    def _whole(self, name: str) -> np.ndarray:
        """All samples. A damaged Ogg stream has fewer, and nothing tells where they are missing."""
        samples = self._joined(self.frames, name)
        if len(samples) < self.frames:
            raise ValueError(f"the file ends after {len(samples)} of {self.frames} samples")
        return samples

    def _joined(self, count: int, name: str) -> np.ndarray:
        pieces = list(self._pieces(count, name))
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty((0, self.channels), name), *pieces])

    def _pieces(self, count: int, name: str) -> Iterator[np.ndarray]:
        """The next `count` samples of each channel, or those up to the end of the file."""
        most = max(_PIECE // self.channels, 1)
        while count > 0:
            wanted = min(count, most)
            piece = self._file.read(wanted, name, always_2d=True)
            yield piece
            count = count - wanted if len(piece) == wanted else 0


def _as_type(samples: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert float32 to an integer type, whose largest number stands for 1.0. Other inputs are returned unchanged."""
    if samples.dtype.kind != "f" or dtype.kind == "f":
        return samples
    limits = np.iinfo(dtype)
    scaled = np.nan_to_num(samples.astype(np.float64) * limits.max)
    result: np.ndarray = np.clip(np.sign(scaled) * np.floor(np.abs(scaled) + 0.5), limits.min, limits.max).astype(dtype)
    return result
