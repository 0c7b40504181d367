"""readers.nemo_asr: speech and transcripts from NeMo manifests.

The first 4 KB of a WAV file, often the whole file, are read when the file is opened; then the wanted part is converted into the output.
Jobs in Python decode other files. For FLAC and Ogg Vorbis these jobs call the compiled decoders of ``decoders.audio``, one file at a time
(``codecs/audio/compiled_sounds.py``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...codecs.audio.audio_decoder_tables import SOUND
from ...codecs.audio.audio_formats import batch_of_sounds, check_dtype, check_rate, decode_audio, merged
from ...codecs.audio.compiled_sounds import compile_decoders, kind_of
from ...codecs.audio.resampling import check_quality, compile_kernels
from ...compiled.addresses import address_of, zero_words
from ...messages.notices import warn
from ...operators.base import (
    REQUIRED,
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Planned,
    Preparation,
    PythonJob,
    Schema,
    Spec,
    Step,
    no_explanation,
    register,
)
from ...types import DALIDataType
from ..base import READER_ARGS, SHUFFLE_AFTER_EPOCH_ARGS, Draw, Origin, ReaderOperator
from ..containers.containers import RecordNames
from ..containers.indices import read_bytes
from ..digest import names_of
from .batch_files import BatchFiles
from .contents import MAX_OPEN
from .entries import ENTRY_ARGS, EntryRules
from .file_table import FileTable
from .nemo_asr_tables import OPEN_SPEECH, READ_SPEECH

_COMPILED = (".flac", ".oga", ".ogg")
"""Names of files for which the decoders are compiled ahead; for others this happens when a file turns out to need them."""


@dataclass(frozen=True)
class ManifestEntry:
    """One line of a manifest."""

    path: str
    duration: float
    offset: float
    text: bytes
    index: int


def read_manifest(path: str, shortest: float, longest: float) -> list[ManifestEntry]:
    """The entries of a manifest whose duration is within the limits (0: no limit). Lines that are no entries are skipped."""
    import json

    entries: list[ManifestEntry] = []
    try:
        data = read_bytes(path, "NEMO ASR manifest file")
    except RuntimeError as error:
        raise RuntimeError(f'Could not open NEMO ASR manifest file: "{path}": {error}') from error
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entry = _entry(json.loads(line.strip().removesuffix(b",")), len(entries))  # commas as in a JSON array of entries
        except (ValueError, RecursionError) as error:
            warn(f"{path} line {number} is not a manifest entry and is skipped: {error}", UserWarning)
            continue
        if (shortest > 0 and entry.duration < shortest) or (longest > 0 and entry.duration > longest):
            continue
        entries.append(entry)
    return entries


def _entry(data: object, index: int) -> ManifestEntry:
    """An entry of a manifest; ValueError if the line is none. A field that is null counts as missing."""
    if not isinstance(data, dict):
        raise ValueError(f"the line is a JSON {type(data).__name__}, not an object")
    path = data.get("audio_filepath")
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"audio_filepath is {_shown(path)}, not a path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError(f"audio_filepath is {_shown(path)}, which no file can have as its name") from None
    text = data.get("text")
    if not isinstance(text, str | None):
        raise ValueError(f"text is {_shown(text)}, not a string")
    return ManifestEntry(path, _seconds(data, "duration", -1.0), _seconds(data, "offset", 0.0), _encoded(text or ""), index)


def _seconds(data: dict[str, object], field: str, default: float) -> float:
    """A field of an entry; ValueError unless it is a finite number, or a string with one."""
    value = data.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{field} is {_shown(value)}, not a number")
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ValueError(f"{field} is {_shown(value)}, not a finite number of seconds")
    return seconds


def _encoded(text: str) -> bytes:
    """UTF-8. Half of a surrogate pair, which UTF-8 cannot have, becomes the replacement character U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _shown(value: object) -> str:
    """A value for messages. Numbers may have thousands of digits."""
    shown = ascii(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "a number above 2^64"
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def _output_count(constants: dict[str, Any]) -> int:
    result: int = 1 + constants.get("read_sample_rate", True) + constants.get("read_text", True) + constants.get("read_idxs", False)
    return result


@register
class NemoAsrReader(ReaderOperator):
    schema = Schema(
        name="readers.nemo_asr",
        library="soundfile",
        doc="""Reads audio and transcripts listed in NeMo manifests: one JSON object per line with `audio_filepath`, and perhaps
        `duration` and `offset` in seconds and `text`. Fields that are null count as missing. Lines that are no entries are skipped with a
        warning.

        Outputs: the audio (1-D, or (samples, channels) without `downmix`); then, if asked for, the file's sampling rate (FLOAT scalar), the
        transcript (1-D UINT8, UTF-8), the entry's number among those kept of its manifest (INT64, shape (1,)).

        Paths are absolute, or relative to the working directory.

        Formats: WAV, FLAC and Ogg Vorbis; Opus, MP3, AIFF, AU and others if `soundfile` is installed (asyncdali[audio]).""",
        inputs=(0, 0),
        outputs=_output_count,
        sampling_rate=1,
        seeded=True,
        aliases=("nemo_asr_reader",),
        deprecated={"normalize_text": None},
        args=(
            Arg("manifest_filepaths", "str_list", REQUIRED, "The manifests.", path="read"),
            Arg("downmix", "bool", True, "Average the channels."),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the audio: INT16, INT32 or FLOAT."),
            Arg("max_duration", "float", 0.0, "Leave out entries that are longer (seconds; 0: none).", stream=True),
            Arg("min_duration", "float", 0.0, "Leave out entries that are shorter (seconds; 0: none).", stream=True),
            Arg("quality", "float", 50.0, "Quality of resampling, 0 to 100."),
            Arg("read_idxs", "bool", False, "A further output: the entry's number."),
            Arg("read_sample_rate", "bool", True, "A further output: the sampling rate of the file."),
            Arg("read_text", "bool", True, "A further output: the transcript."),
            Arg("sample_rate", "float", -1.0, "Sampling rate of the output, if positive."),
            *ENTRY_ARGS,
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        constant = spec.constant
        if not constant("manifest_filepaths"):
            raise RuntimeError("`manifest_filepaths` can not be empty")
        self._dtype: DALIDataType = constant("dtype")
        check_dtype(self._dtype)
        check_quality(constant("quality"))
        check_rate(constant("sample_rate"))
        rate = constant("sample_rate")
        self._rate = 0 if rate <= 0 else int(rate) if rate == int(rate) else -1  # The rates of files are integers.
        if constant("sample_rate") > 0:
            compile_kernels()
        from ...compiled.step import compile_all
        from ..containers import record_kernels
        from . import nemo_asr_kernels

        self._kernels = nemo_asr_kernels
        compile_all(nemo_asr_kernels)
        self._close_all = record_kernels.close_all
        self._close_all.compile()
        super().__init__(spec, environment)

    def discover(self) -> int:
        constant = self.spec.constant
        entries: list[ManifestEntry] = []
        for path in constant("manifest_filepaths"):
            found = read_manifest(path, constant("min_duration"), constant("max_duration"))
            EntryRules.of(self.spec, self.environment.access, path, None, "").check([entry.path for entry in found])
            entries += found
        if not entries:
            raise RuntimeError(f"No files found. Every entry was left out of {', '.join(constant('manifest_filepaths'))}.")
        if any(entry.path.lower().endswith(_COMPILED) for entry in entries):
            compile_decoders()
        self._entries = entries
        self._table = FileTable.of([entry.path for entry in entries], np.zeros(len(entries), np.int32))
        self._files = BatchFiles(self, self._table, lambda samples: samples)
        self._windows = np.array([(entry.offset, entry.duration) for entry in entries], np.float64)
        self._numbers = np.array([[entry.index] for entry in entries], np.int64)
        return len(entries)

    def origin_of(self, index: int) -> Origin:
        entry = self._entries[index]
        window = [f"{name} {value:g} s" for name, value in (("from", entry.offset), ("for", entry.duration)) if value]
        return Origin(entry.path, part=", ".join(window))

    def identity(self) -> list[bytes | np.ndarray]:
        return [names_of(self._table), np.array([(entry.offset or 0, entry.duration or 0) for entry in self._entries], np.float64)]

    @property
    def any_remote(self) -> bool:
        return self._table.remote

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        constant = self.spec.constant
        rate: list[DALIDataType | None] = [DALIDataType.FLOAT] * constant("read_sample_rate")
        return [self._dtype, *rate, *[DALIDataType.UINT8] * constant("read_text"), *[DALIDataType.INT64] * constant("read_idxs")]

    # --- one iteration

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        draw = self.draw(iteration, arguments.count)
        yield from self._files.hints(draw)
        if self._table.remote:
            sounds, rates = yield from self._interpreted(draw, range(len(draw.indices)))
            return draw.indices, batch_of_sounds(sounds, self._dtype), rates
        batch, rates, left = yield from self._compiled(draw.indices)
        if len(left):
            sounds, rates[left] = yield from self._interpreted(draw, left)
            batch = merged(batch, left, sounds)
        return draw.indices, batch, rates

    def _compiled(self, indices: np.ndarray) -> Generator[CompiledJob, None, tuple[Batch, np.ndarray, Sequence[int]]]:
        """Jobs that read WAV files. Returns the sounds, the files' rates, and the samples that are left to the interpreter's decoder."""
        kernels, word, count, constant = self._kernels, SOUND.word, len(indices), self.spec.constant
        starts = np.ascontiguousarray(self._table.starts[indices])
        descriptors, held, heads = np.full(count, -1, np.int64), zero_words(count), np.empty(count * kernels.HEAD, np.uint8)
        records, mono = SOUND.zeros(count), constant("downmix")
        files = {"paths": self._table.paths, "starts": starts, "descriptors": descriptors, "heads": heads, "held": held, "records": records}
        try:
            context, keep = OPEN_SPEECH.make(
                **files, indices=indices, windows=self._windows, rate=self._rate, mono=mono, exact=self._dtype != DALIDataType.FLOAT,
                may_stay_open=MAX_OPEN,
            )  # fmt: skip
            yield CompiledJob(count, [Step(kernels.open_speech.address, context, no_explanation, keep=keep)])
            rates = records[:, word.rate].astype(np.float32)
            left = records[:, word.format] == 0
            if left.any():
                records[left, word.frames] = 0
            batch = Batch(records[:, [word.frames] if mono else [word.frames, word.channels]], self._dtype)
            batch.reserve(self.environment.allocate)
            context, keep = READ_SPEECH.make(**files, outputs=batch.addresses, kind=kind_of(storage_dtype(self._dtype)), scratch=0)
            step = Step(kernels.read_speech.address, context, no_explanation, kernels.PIECE, READ_SPEECH.word.scratch, [*keep, batch])
            yield CompiledJob(count, [step])
        finally:
            self._close_all(address_of(descriptors), count)
        left |= records[:, word.failed] != 0
        return batch, rates, np.flatnonzero(left).tolist() if left.any() else ()

    def _interpreted(self, draw: Draw, samples: Sequence[int]) -> Generator[PythonJob, None, tuple[list[np.ndarray], np.ndarray]]:
        """Jobs that decode the files of some samples, each in the interpreter. Returns the sounds and the files' rates."""
        constant = self.spec.constant
        sounds: list[Any] = [None] * len(samples)
        rates = np.zeros(len(samples), np.float32)
        open_file = self._files.opener(draw)
        wanted = {"rate": constant("sample_rate"), "quality": constant("quality"), "downmix": constant("downmix")}
        dtype, places = storage_dtype(self._dtype), {sample: k for k, sample in enumerate(samples)}

        def work(sample: int) -> None:
            entry = self._entries[int(draw.indices[sample])]
            try:
                with open_file(entry.path) as file:
                    sounds[places[sample]], rates[places[sample]] = decode_audio(
                        file, dtype, offset=entry.offset, duration=entry.duration, **wanted
                    )
            except OSError as error:
                raise RuntimeError(f"Failed to open encoded data: {error.strerror or error}, filepath: {entry.path}") from error
            except ValueError as error:
                raise RuntimeError(f"{entry.path}: {error}") from error
            except MemoryError:
                raise RuntimeError(f"{entry.path}: not enough memory to decode the file") from None

        yield PythonJob(samples, work)
        return sounds, rates

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        constant = self.spec.constant
        indices, sounds, rates = iteration.prepared
        outputs = [sounds]
        if constant("read_sample_rate"):
            outputs.append(Batch.from_values(rates))
        if constant("read_text"):
            outputs.append(_texts([self._entries[index].text for index in indices.tolist()]))
        if constant("read_idxs"):
            outputs.append(Batch.from_values(self._numbers[indices]))
        names = RecordNames(self._path, indices)
        for output in outputs:
            output.source_info = names
        return Planned(outputs)

    def _path(self, index: int) -> str:
        return self._entries[index].path


def _texts(texts: list[bytes]) -> Batch:
    """An output of texts, one after another in memory."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    batch = Batch(lengths.reshape(-1, 1), DALIDataType.UINT8)
    batch.place(np.frombuffer(bytearray(b"".join(texts) + b"\0"), np.uint8))
    return batch
