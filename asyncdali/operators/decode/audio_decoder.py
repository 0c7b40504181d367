"""decoders.audio: decode sound; optionally resample it and mix its channels."""

from __future__ import annotations

import io
from collections.abc import Generator
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...codecs.audio.audio_formats import batch_of_sounds, check_dtype, check_rate, decode_audio
from ...codecs.audio.resampling import check_quality, compile_kernels
from ...codecs.audio.sound_tables import SOUND, SOUNDS
from ...compiled.addresses import address_of
from ...types import DALIDataType
from ..accepts import CHOSEN, Input, Output, argument
from ..base import (  # fmt: skip
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    no_explanation,
    register,
)


@register
class DecodeAudio(Operator):
    reads = (0,)
    eager = True
    schema = Schema(
        name="decoders.audio",
        aliases=("audio_decoder",),
        doc="""Decodes sound: WAV; FLAC, OGG (Vorbis, Opus), MP3, AIFF, AU and others if `soundfile` is installed (asyncdali[audio]).

        Input: encoded bytes (1-D UINT8). Outputs: the samples, (time, channels), or 1-D with `downmix`; their sampling rate (FLOAT scalar).
        FLOAT samples are in [-1, 1]; integers take their type's range. Broken data is an error that names the sample and its source.""",
        accepts=(Input((DALIDataType.UINT8,), name="encoded sound", ranks=(1,)),),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN), Output(DALIDataType.FLOAT, 0, "")),
        outputs=2,
        args=(
            Arg("downmix", "bool", False, "Average the channels; the output is 1-D."),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type: INT16, INT32 or FLOAT."),
            Arg("quality", "float", 50.0, "Quality of resampling, 0 to 100: 3, 16 (50) or 64 (100) lobes of a sinc on each side."),
            Arg("sample_rate", "float", 0.0, "Sampling rate of the output; 0: the rate of the file.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        check_dtype(spec.constant("dtype"))
        check_quality(spec.constant("quality"))
        if spec.given("sample_rate"):
            if "sample_rate" in spec.constants:
                check_rate(spec.constant("sample_rate"))
            compile_kernels()
        from ...codecs.audio import sound_kernels

        self._kernels: Any = sound_kernels
        self._kernels.scan_sounds.compile()
        self._kernels.sound_step.compile()

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self.spec.constant("dtype"), DALIDataType.FLOAT]

    @property
    def may_wait(self) -> bool:
        return False

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source = inputs[0]
        wanted = arguments.scalars("sample_rate", np.float32)
        records = self._scanned(source, wanted)
        if records is not None:
            batch, steps = self._decoded(source, records)
            yield CompiledJob(len(source), steps)
            if not records[:, SOUND.word.failed].any():
                return batch, records[:, SOUND.word.rate].astype(np.float32)
        return (yield from self._interpreted(source, wanted))

    def _scanned(self, source: Batch, wanted: np.ndarray) -> np.ndarray | None:
        """The SOUND of each sample, if compiled code can decode all of them: no resampling, no mixing, no unusual format."""
        count, sizes = len(source), np.ascontiguousarray(source.shapes[:, 0])
        records = np.empty((count, SOUND.words), np.int64)
        kernels, word = self._kernels, SOUND.word
        if kernels.scan_sounds(address_of(source.addresses), address_of(sizes), address_of(records), count) < count:
            return None
        channels = records[:, word.channels]
        if ((wanted > 0) & (wanted != records[:, word.rate])).any() or not np.isfinite(wanted).all():
            return None
        mixes = self.spec.constant("downmix")
        # The conversion of floats to integers rounds differently, so the compiled step cannot be used.
        rounds = self.spec.constant("dtype") != DALIDataType.FLOAT and bool((records[:, word.format] == kernels.REAL).any())
        return None if rounds or (mixes and (channels != 1).any()) else records

    def _decoded(self, source: Batch, records: np.ndarray) -> tuple[Batch, list[Step]]:
        """The output batch of the step."""
        word, dtype = SOUND.word, self.spec.constant("dtype")
        columns = [word.frames] if self.spec.constant("downmix") else [word.frames, word.channels]
        batch = Batch(records[:, columns], dtype)
        batch.reserve(self.environment.allocate)
        kind = {DALIDataType.INT16: self._kernels.INT16, DALIDataType.INT32: self._kernels.INT32}.get(dtype, self._kernels.FLOAT)
        table, keep = SOUNDS.make(inputs=source.addresses, outputs=batch.addresses, records=records, kind=kind, scratch=0)
        flac = records[records[:, word.format] == self._kernels.FLAC]
        scratch = 4 * int((flac[:, word.block] * flac[:, word.channels]).max(initial=0))
        return batch, [Step(self._kernels.sound_step.address, table, no_explanation, scratch, SOUNDS.word.scratch, keep)]

    def _interpreted(self, source: Batch, wanted: np.ndarray) -> Generator[PythonJob, None, tuple[Batch, np.ndarray]]:
        """Decode the same, file by file, in the interpreter."""
        constant = self.spec.constant
        sounds = [np.empty(0)] * len(source)
        rates = np.zeros(len(source), np.float32)
        dtype, downmix, quality = storage_dtype(constant("dtype")), constant("downmix"), constant("quality")

        def decode(i: int) -> None:
            rate = float(wanted[i])
            try:
                check_rate(rate)
                data = io.BytesIO(source.sample(i).data)
                sounds[i], found = decode_audio(data, dtype, rate=rate, quality=quality, downmix=downmix)
            except ValueError as error:
                raise SampleError(i, str(error)) from None
            except MemoryError:
                raise SampleError(i, "not enough memory to decode the sample") from None
            rates[i] = rate if rate > 0 else found

        yield PythonJob(range(len(source)), decode)
        return batch_of_sounds(sounds, constant("dtype")), rates

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        sounds, rates = iteration.prepared
        outputs = [sounds, Batch.from_values(rates)]
        for output in outputs:
            output.source_info = inputs[0].source_info
        return Planned(outputs)
