"""Speech features, speech recognition's data loading, sequences and videos."""

from __future__ import annotations

import numpy as np
from user_programs import FLOATS, RESAMPLED, batches, program


@program(rtol=1e-3, atol=1e-3, why=f"{FLOATS}: filters and logarithms in FLOAT64 here, FLOAT in DALI")
def speech_features(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def pipeline():
        encoded, labels = fn.readers.file(files=[str(data / "audio" / f"{k}.wav") for k in range(6)])
        audio, rate = fn.decoders.audio(encoded, dtype=dali.types.FLOAT, downmix=True)
        spectrum = fn.spectrogram(audio, nfft=512, window_length=320, window_step=160)
        mel = fn.mel_filter_bank(spectrum, sample_rate=16000, nfilter=40, freq_high=8000.0)
        decibels = fn.to_decibels(mel, multiplier=10.0, cutoff_db=-80.0)
        return audio, rate, decibels, fn.mfcc(decibels, n_mfcc=13, axis=0, dct_type=2, lifter=22.0), labels

    return batches(pipeline(), 2)


@program(rtol=1e-3, atol=2e-3, why=f"{FLOATS}: filters and logarithms in FLOAT64 here, FLOAT in DALI")
def speech_recognition(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=6)
    def pipeline():
        manifest = [str(data / "manifest.json")]
        audio, _, text = fn.readers.nemo_asr(
            manifest_filepaths=manifest, read_text=True, read_sample_rate=True, sample_rate=16000, dtype=dali.types.FLOAT
        )
        begin, length = fn.nonsilent_region(audio, cutoff_db=-30.0)
        audio = fn.slice(audio, begin, length, axes=[0])
        audio = fn.preemphasis_filter(audio, preemph_coeff=0.97)
        spectrum = fn.spectrogram(audio, nfft=512, window_length=320, window_step=160)
        features = fn.mel_filter_bank(spectrum, nfilter=32, normalize=True)
        features = fn.to_decibels(features, multiplier=4.343, reference=1.0, cutoff_db=-100.0)
        features = fn.normalize(features, axes=[1], epsilon=1e-5)
        length = fn.slice(fn.shapes(features), 1, 1, axes=[0])
        return fn.pad(features, axes=[1], fill_value=0, align=16), length, text

    return batches(pipeline(), 2)


@program(rtol=1e-4, atol=1e-4, why=FLOATS)
def resampled_speech(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=6)
    def pipeline():
        encoded, _ = fn.readers.file(files=[str(data / "audio" / f"{k}.wav") for k in range(4)])
        audio, rate = fn.decoders.audio(encoded, dtype=dali.types.FLOAT, sample_rate=8000)
        faster = fn.audio_resample(audio, scale=fn.random.uniform(range=[0.8, 1.2]))
        return audio, rate, faster

    return batches(pipeline(), 2)


@program(atol=1, why=RESAMPLED)
def sequences_with_arguments_per_frame(dali, data):
    fn = dali.fn
    clips = [np.random.default_rng(k).integers(0, 255, (4, 24, 30, 3), np.uint8) for k in range(2)]

    @dali.pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=9)
    def pipeline():
        video = fn.external_source(lambda: clips, layout="FHWC")
        angles = fn.per_frame(fn.external_source(lambda: [np.float32([0, 10, 20, 30])] * 2))
        turned = fn.rotate(video, angle=angles, keep_size=True, fill_value=0)
        brighter = fn.brightness(video, brightness=fn.per_frame(np.float32([1, 1.1, 1.2, 1.3])))
        blurred = fn.gaussian_blur(video, sigma=fn.per_frame(np.float32([0.5, 1, 1.5, 2])))
        first, last = fn.element_extract(video, element_map=[0, 3])
        return turned, brighter, blurred, first, last, fn.sequence_rearrange(video, new_order=[3, 1, 1]), fn.resize(video, size=[12, 16])

    return batches(pipeline(), 2)


@program(needs=("av",), atol=3, why="FFmpeg here and DALI's own build convert YUV to RGB with other roundings")
def frames_of_a_video(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline():
        return fn.experimental.readers.video(filenames=[str(data / "clip.avi")], sequence_length=5, stride=2, step=3)

    return batches(pipeline(), 2)


@program(needs=("av",), atol=3, why="FFmpeg here and DALI's own build convert YUV to RGB with other roundings")
def a_decoded_video(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        encoded, _ = fn.readers.file(files=[str(data / "clip.avi")])
        return fn.crop(fn.experimental.decoders.video(encoded), crop=(24, 32))

    return batches(pipeline(), 1)


@program(only_here="optical_flow is for GPUs in DALI")
def optical_flow(dali, data):
    fn = dali.fn
    still = np.random.default_rng(1).integers(0, 255, (1, 64, 64, 3), np.uint8).repeat(3, 0)

    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=0)
    def pipeline():
        video = fn.external_source(lambda: [still], layout="FHWC").gpu()
        return fn.optical_flow(video, output_grid=4)

    (flow,) = batches(pipeline(), 1)
    assert flow.shape == (2, 16, 16, 2) and np.abs(flow).max() < 0.1
    return [flow]
