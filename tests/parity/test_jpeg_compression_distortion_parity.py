"""jpeg_compression_distortion beside DALI's: all outputs are equal."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import picture
from helpers.parity import dali_output, same
from helpers.pipelines import pipeline_of

from asyncdali import fn

pytest.importorskip("nvidia.dali")


def our_output(samples, layout, per_sample=None, **constants):
    def graph():
        named = {key: fn.external_source(_feeder(value)) for key, value in (per_sample or {}).items()}
        return fn.jpeg_compression_distortion(fn.external_source(_feeder(samples), layout=layout), **named, **constants)

    with pipeline_of(graph, batch_size=len(samples)) as pipeline:
        (output,) = pipeline.run()
        return [np.array(sample) for sample in output]


def _feeder(values):
    return lambda: list(values)


def test_images_of_all_sizes_and_qualities():
    rng = np.random.default_rng(1)
    samples = [picture(int(height), int(width), 3, k) for k, (height, width) in enumerate(rng.integers(1, 70, (40, 2)))]
    quality = {"quality": rng.integers(-3, 105, 40).astype(np.int32)}
    same(dali_output("jpeg_compression_distortion", samples, "HWC", quality), our_output(samples, "HWC", quality))
    same(dali_output("jpeg_compression_distortion", samples, "HWC"), our_output(samples, "HWC"))


def test_frames():
    clips = [np.stack([picture(20, 30, 3, k), picture(20, 30, 3, k + 1)]) for k in range(3)]
    same(dali_output("jpeg_compression_distortion", clips, "FHWC", quality=30), our_output(clips, "FHWC", quality=30))
