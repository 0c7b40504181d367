"""decoders.audio: decode sound; optionally resample it and mix its channels."""

from __future__ import annotations

import io
from collections.abc import Generator, Sequence

import numpy as np

from ...batch import Batch, storage_dtype
from ...codecs.audio.audio_decoder_tables import SOUND, SOUNDS
from ...codecs.audio.audio_formats import check_dtype, check_rate, decode_audio, merged
from ...codecs.audio.compiled_sounds import Scan, compile_decoders, kind_of, scanned
from ...codecs.audio.resampling import check_quality, compile_kernels
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
        doc="""Decodes sound: WAV, FLAC and Ogg Vorbis; Opus, MP3, AIFF, AU and others if `soundfile` is installed (asyncdali[audio]).

        Input: encoded bytes (1-D UINT8). Outputs: the samples, (time, channels), or 1-D with `downmix`; their sampling rate (FLOAT scalar).
        FLOAT samples are in [-1, 1]; integers take their type's range. Broken data is an error that names the sample and its source.""",
        accepts=(Input((DALIDataType.UINT8,), name="encoded sound", ranks=(1,)),),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN), Output(DALIDataType.FLOAT, 0, "")),
        outputs=2,
        sampling_rate=1,
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
        compile_decoders()
        self._dtype: DALIDataType = spec.constant("dtype")
        self._downmix = int(spec.constant("downmix"))
        self._kind = kind_of(storage_dtype(self._dtype))

    @property
    def may_wait(self) -> bool:
        return False

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source = inputs[0]
        wanted = arguments.scalars("sample_rate", np.float32)
        scan = scanned(source, wanted, self._kind, self._downmix)
        batch, steps = self._decoded(source, scan)
        if scan.known:
            yield CompiledJob(len(source), steps)
        rates, left = scan.records[:, SOUND.word.rate].astype(np.float32), scan.left()
        if len(left):
            sounds, rates[left] = yield from self._interpreted(source, wanted, left)
            batch = merged(batch, left, sounds)
        return batch, rates

    def _decoded(self, source: Batch, scan: Scan) -> tuple[Batch, list[Step]]:
        """The output batch, and the steps that decode into it."""
        batch = Batch(scan.records[:, SOUND.span("frames", "frames" if self._downmix else "channels")].copy(), self._dtype)
        batch.reserve(self.environment.allocate)
        table, keep = scan.table(source, batch.addresses, self._kind)
        return batch, [Step(step.address, table, no_explanation, scan.scratch, SOUNDS.word.scratch, keep) for step in scan.steps()]

    def _interpreted(
        self, source: Batch, wanted: np.ndarray, samples: Sequence[int]
    ) -> Generator[PythonJob, None, tuple[list[np.ndarray], np.ndarray]]:
        """Decode files in the interpreter. Returns the sounds and the rates of these `samples`."""
        constant = self.spec.constant
        sounds: dict[int, np.ndarray] = {}
        rates: dict[int, float] = {}
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

        yield PythonJob(samples, decode)
        return [sounds[i] for i in samples], np.array([rates[i] for i in samples], np.float32)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        sounds, rates = iteration.prepared
        outputs = [sounds, Batch.from_values(rates)]
        for output in outputs:
            output.source_info = inputs[0].source_info
        return Planned(outputs)
