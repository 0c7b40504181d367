"""decoders.audio: encoded sound as samples, resampled and mixed if wanted."""

from __future__ import annotations

import io

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import CHOSEN, Input, Output, argument
from ..audio.resampling import check_quality, compile_kernels
from ..base import (  # fmt: skip
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    register,
)
from .audio_formats import batch_of_sounds, check_dtype, check_rate, decode_audio


@register
class DecodeAudio(Operator):
    """See the schema."""

    reads = (0,)
    eager = True
    schema = Schema(
        name="decoders.audio",
        aliases=("audio_decoder",),
        doc="""Decodes sound: WAV; FLAC, OGG (Vorbis, Opus), MP3, AIFF, AU and others if `soundfile` is installed (asyncdali[audio]).

        Input: encoded bytes (1-D UINT8). Outputs: the samples, (time, channels), or 1-D with `downmix`; their sampling rate (FLOAT scalar).
        FLOAT samples are in [-1, 1]; integers take their type's range. Broken data are an error that names the sample and its source.""",
        accepts=(Input((DALIDataType.UINT8,), name="encoded sound", ranks=(1,)),),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN), Output(DALIDataType.FLOAT, 0, "")),
        outputs=2,
        args=(
            Arg("downmix", "bool", False, "Average the channels; the output is 1-D."),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type: INT16, INT32 or FLOAT."),
            Arg("quality", "float", 50.0, "Quality of resampling, 0 to 100: 3, 16 (50) or 64 (100) lobes of a sinc on each side."),
            Arg("sample_rate", "float", 0.0, "Sampling rate of the output; 0: that of the file.", tensor=True),
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

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self.spec.constant("dtype"), DALIDataType.FLOAT]

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source, constant = inputs[0], self.spec.constant
        wanted = arguments.scalars("sample_rate", np.float32)
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
                raise SampleError(i, "not enough memory to decode it") from None
            rates[i] = rate if rate > 0 else found

        yield PythonJob(range(len(source)), decode)
        return sounds, rates

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        sounds, rates = iteration.prepared
        outputs = [batch_of_sounds(sounds, self.spec.constant("dtype")), Batch.from_values(rates)]
        for output in outputs:
            output.source_info = inputs[0].source_info
        return Planned(outputs)
