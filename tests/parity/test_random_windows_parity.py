"""random_crop_generator, roi_random_crop and peek_image_shape beside DALI's: equal numbers."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers.parity import dali_outputs, same
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.types import FLOAT, INT32, DALIImageType

pytest.importorskip("nvidia.dali")


def feeder(samples):
    return lambda: samples


def ours(name, inputs, per_sample=None, **constants):
    count = len(inputs[0]) if inputs else len(next(iter(per_sample.values())))

    def graph():
        nodes = [fn.external_source(feeder(samples)) for samples in inputs]
        named = {key: fn.external_source(feeder(list(values))) for key, values in (per_sample or {}).items()}
        made = getattr(fn, name)(*nodes, **named, **constants)
        return tuple(made) if isinstance(made, list) else made

    with pipeline_of(graph, batch_size=count) as pipeline:
        return [[np.array(output.at(i)) for i in range(count)] for output in pipeline.run()]


def check(name, inputs, per_sample=None, **constants):
    theirs = dali_outputs(name, inputs, [""] * len(inputs), per_sample, **constants)
    for a, b in zip(theirs, ours(name, inputs, per_sample, **constants), strict=True):
        same(a, b)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint16"])
def test_random_crop_generator(dtype):
    rng = np.random.default_rng(1)
    for length in (2, 3):
        shapes = [rng.integers(1, 900, length).astype(dtype) for _ in range(40)]
        check("random_crop_generator", [shapes], seed=8)
        check("random_crop_generator", [shapes], seed=8, random_area=[0.2, 0.5], random_aspect_ratio=[0.9, 2.0], num_attempts=2)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_roi_random_crop(axes):
    rng = np.random.default_rng(axes)
    shape = rng.integers(50, 100, (30, axes)).astype(np.int32)
    start = rng.integers(0, 30, (30, axes)).astype(np.int32)
    extents = rng.integers(0, 20, (30, axes)).astype(np.int32)
    window = rng.integers(1, 40, (30, axes)).astype(np.int32)
    check("roi_random_crop", [], {"crop_shape": window, "roi_start": start, "roi_shape": extents}, seed=2)
    check("roi_random_crop", [], {"crop_shape": window, "roi_start": start, "roi_end": start + extents, "in_shape": shape}, seed=2)
    if axes < 3:
        data = [np.zeros(row, np.uint8) for row in shape]
        check("roi_random_crop", [data], {"crop_shape": window, "roi_start": start, "roi_end": start + extents}, seed=-2)


def test_peek_image_shape():
    rng = np.random.default_rng(3)
    files = []
    for suffix in (".jpg", ".png", ".bmp", ".tiff", ".webp"):
        for channels in (1, 3):
            image = rng.integers(0, 256, (*rng.integers(5, 40, 2), channels)).astype(np.uint8)
            files.append(cv2.imencode(suffix, image)[1].reshape(-1))
    jpeg = files[0].tobytes()
    for orientation in range(1, 9):
        exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([orientation, 0, 0, 0]) + b"\0\0\0\0"
        files.append(np.frombuffer(jpeg[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + jpeg[2:], np.uint8))
    check("peek_image_shape", [files])
    check("peek_image_shape", [files], adjust_orientation=False)
    for kind in (DALIImageType.GRAY, DALIImageType.BGR):
        for dtype in (INT32, FLOAT):
            check("peek_image_shape", [files], image_type=kind, dtype=dtype)


@pytest.mark.parametrize(
    "constants", [
        {"crop_shape": [5, 5], "roi_start": [1, 1]}, {"crop_shape": [5, 5], "roi_start": [1, 1], "roi_shape": [2, 2], "roi_end": [4, 4]},
        {"crop_shape": [50, 5], "roi_start": [1, 1], "roi_shape": [2, 2], "in_shape": [9, 9]},
        {"crop_shape": [5, 5], "roi_start": [1, 1], "roi_shape": [2, 9], "in_shape": [9, 9]},
    ],
)  # fmt: skip
def test_both_refuse(constants):
    per_sample = {"crop_shape": np.array([constants.pop("crop_shape")], np.int32)}
    with pytest.raises(RuntimeError):
        dali_outputs("roi_random_crop", [], [], per_sample, **constants)
    with pytest.raises((RuntimeError, ValueError)):
        ours("roi_random_crop", [], per_sample, **constants)
