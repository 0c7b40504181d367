"""jpeg_compression_distortion: images after JPEG compression and decompression."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from helpers.images import picture
from helpers.pipelines import pipeline_of
from PIL import Image

from asyncdali import fn


def through_pillow(image, quality):
    data = io.BytesIO()
    Image.fromarray(image).save(data, "JPEG", quality=quality, subsampling="4:2:0")
    return np.asarray(Image.open(data))


def distorted(samples, layout="HWC", **arguments):
    def graph():
        return fn.jpeg_compression_distortion(fn.external_source(lambda: samples, layout=layout), **arguments)

    with pipeline_of(graph) as pipeline:
        (output,) = pipeline.run()
        return [np.array(sample) for sample in output]


IMAGES = [picture(37, 53, 3, seed) for seed in range(3)]


@pytest.mark.parametrize("quality", [1, 20, 95])
def test_results_equal_pillows(quality):
    for image, made in zip(IMAGES, distorted(IMAGES, quality=quality), strict=True):
        wanted = through_pillow(image, quality)
        assert np.abs(made.astype(int) - wanted).max() <= 1
        assert (made != image).any()


def through_opencv(image, quality):
    _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


@pytest.mark.parametrize("most", [5, 20, 140])
def test_results_equal_libjpeg_turbos(most):
    """All sizes up to a group of blocks, and some larger ones. Images are noise, extreme colours and pictures, with every quality."""
    rng = np.random.default_rng(most)
    samples = []
    for k, (height, width) in enumerate(rng.integers(1, most + 1, (60, 2))):
        noise = rng.integers(0, 256, (height, width, 3), np.uint8)
        samples.append([noise, noise // 128 * 255, picture(int(height), int(width), 3, k)][k % 3])
    qualities = rng.integers(1, 101, len(samples)).astype(np.int32)

    def graph():
        return fn.jpeg_compression_distortion(
            fn.external_source(lambda: samples, layout="HWC"), quality=fn.external_source(lambda: list(qualities))
        )

    with pipeline_of(graph, batch_size=len(samples)) as pipeline:
        (output,) = pipeline.run()
        for image, made, quality in zip(samples, output, qualities, strict=True):
            np.testing.assert_array_equal(np.asarray(made), through_opencv(image, int(quality)))


def test_a_quality_for_each_sample_and_frames():
    clips = [np.stack([image, image[::-1]]) for image in IMAGES]

    def graph():
        quality = fn.external_source(lambda: [np.int32(k) for k in (-5, 40, 400)])
        return fn.jpeg_compression_distortion(fn.external_source(lambda: clips, layout="FHWC"), quality=quality)

    with pipeline_of(graph) as pipeline:
        for _ in range(2):
            (output,) = pipeline.run()
            assert output.layout() == "FHWC"
            for clip, made, quality in zip(clips, output, (1, 40, 100), strict=True):
                for frame, got in zip(clip, np.asarray(made), strict=True):
                    assert np.abs(got.astype(int) - through_pillow(frame, quality)).max() <= 1


@pytest.mark.parametrize(
    "sample, layout, message", [
        (np.zeros((4, 5, 1), np.uint8), "HWC", "3 channels"), (np.zeros((4, 5, 3), np.float32), "HWC", "UINT8"),
        (np.zeros((3, 4, 5), np.uint8), "CHW", "CHW"), (np.zeros((0, 5, 3), np.uint8), "HWC", "from 1 to"),
    ],
)  # fmt: skip
def test_refusals(sample, layout, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        distorted([sample] * 3, layout)
