"""mfcc at the end of the usual chain: spectrogram, mel_filter_bank, to_decibels."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import pipeline_of

from asyncdali import fn


def test_the_usual_chain():
    def graph():
        audio = fn.external_source(lambda: [np.random.default_rng(k).standard_normal(3000 + 100 * k).astype(np.float32) for k in range(3)])
        audio = fn.preemphasis_filter(audio)
        mel = fn.mel_filter_bank(fn.spectrogram(audio, nfft=400, window_length=400, window_step=160), nfilter=40, sample_rate=16000.0)
        return fn.mfcc(fn.to_decibels(mel, multiplier=10.0, cutoff_db=-80.0), n_mfcc=13, normalize=True)

    with pipeline_of(graph) as pipeline:
        (result,) = pipeline.run()
        assert [tuple(shape) for shape in result.shape()] == [(13, 19), (13, 20), (13, 21)]
        assert all(np.isfinite(np.asarray(sample)).all() for sample in result)


