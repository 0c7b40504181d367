"""paste, bbox_paste, grid_mask, sequence_rearrange, box_encoder, filter, peek_image_shape and drawn windows against naive models."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers import operators as harness
from helpers.pipelines import pipeline_of
from PIL import Image

from asyncdali import fn


def results(graph, **options):
    with pipeline_of(graph, **options) as pipeline:
        return [[np.array(sample) for sample in output] for output in pipeline.run()]


def test_paste_and_its_boxes():
    image = np.arange(1, 31, dtype=np.uint8).reshape(2, 5, 3)
    (canvas,) = harness.run("paste", [image], "HWC", ratio=3.0, paste_x=0.25, paste_y=1.0, fill_value=[7, 8, 9])
    expected = np.broadcast_to(np.array([7, 8, 9], np.uint8), (6, 15, 3)).copy()
    expected[4:, 2:7] = image
    np.testing.assert_array_equal(canvas, expected)
    (boxes,) = harness.run("bbox_paste", [np.array([[0, 0, 1, 1]], np.float32)], ratio=2.0, paste_x=1.0, paste_y=0.0, ltrb=True)
    np.testing.assert_allclose(boxes, [[0.5, 0, 1, 0.5]])


def test_grid_mask_of_whole_tiles():
    image = np.ones((12, 12, 2), np.int16)
    (masked,) = harness.run("grid_mask", [image], "HWC", tile=6, ratio=0.5)
    rows = np.arange(12) % 6 < 3
    np.testing.assert_array_equal(masked[..., 0] == 0, rows[:, None] & rows[None])
    (moved,) = harness.run("grid_mask", [image], "HWC", tile=6, ratio=0.5, shift_x=3.0)
    np.testing.assert_array_equal(moved[..., 1] == 0, rows[:, None] & ~rows[None])


def test_sequence_rearrange():
    frames = np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(harness.run("sequence_rearrange", [frames], "FX", new_order=[3, 0, 0])[0], frames[[3, 0, 0]])


def test_box_encoder_takes_the_best_box():
    anchors = [0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 0.0, 0.5, 0.5, 1.0]
    boxes = np.array([[0.0, 0.0, 0.5, 0.4], [0.6, 0.6, 0.7, 0.7]], np.float32)

    def graph():
        sources = fn.external_source(lambda: [boxes] * 3), fn.external_source(lambda: [np.array([4, 5], np.int32)] * 3)
        return (*fn.box_encoder(*sources, anchors=anchors), *fn.box_encoder(*sources, anchors=anchors, offset=True))

    encoded, labels, offsets, _ = results(graph)
    assert labels[0].tolist() == [4, 5, 0]
    np.testing.assert_allclose(encoded[0], [[0.25, 0.2, 0.5, 0.4], [0.65, 0.65, 0.1, 0.1], [0.25, 0.75, 0.5, 0.5]], atol=1e-6)
    expected = [[0, -0.1, 0, np.log(0.8)], [-0.2, -0.2, np.log(0.2), np.log(0.2)], [0, 0, 0, 0]]
    np.testing.assert_allclose(offsets[0], expected, atol=1e-5)


def test_filter_is_a_correlation():
    image = np.random.default_rng(1).integers(0, 100, (6, 7, 2)).astype(np.float32)
    kernel = np.array([[1, 2, 3]], np.float32)

    def graph():
        source, weights = fn.external_source(lambda: [image] * 3, layout="HWC"), fn.external_source(lambda: [kernel] * 3)
        return fn.filter(source, weights, border="constant"), fn.filter(source, weights, mode="valid")

    same, valid = results(graph)
    padded = np.pad(image, [(0, 0), (1, 1), (0, 0)])
    expected = padded[:, :-2] + 2 * padded[:, 1:-1] + 3 * padded[:, 2:]
    np.testing.assert_allclose(same[0], expected)
    np.testing.assert_allclose(valid[2], expected[:, 1:-1])


def test_peek_image_shape_agrees_with_the_decoder():
    files = []
    for kind, size in (("JPEG", (31, 17)), ("PNG", (5, 9)), ("BMP", (8, 4))):
        data = io.BytesIO()
        Image.new("RGB", size).save(data, kind)
        files.append(np.frombuffer(data.getvalue(), np.uint8))

    def graph():
        encoded = fn.external_source(lambda: files)
        return fn.peek_image_shape(encoded), fn.shapes(fn.decoders.image(encoded))

    peeked, decoded = results(graph)
    np.testing.assert_array_equal(peeked, decoded)
    cut = [files[0][:20]] * 3
    with (
        pipeline_of(lambda: fn.peek_image_shape(fn.external_source(lambda: cut))) as pipeline,
        pytest.raises(RuntimeError, match="sample 0"),
    ):
        pipeline.run()


def test_random_windows_stay_where_they_may():
    def graph():
        anchor, shape = fn.random_crop_generator(np.array([40, 60]))
        start = fn.roi_random_crop(crop_shape=[10, 20], roi_start=[3, 30], roi_shape=[4, 5], in_shape=[40, 60])
        return anchor, shape, start

    with pipeline_of(graph) as pipeline:
        for _ in range(30):
            anchors, shapes, starts = ([np.asarray(sample) for sample in output] for output in pipeline.run())
            for anchor, shape, start in zip(anchors, shapes, starts, strict=True):
                assert (anchor >= 0).all() and (anchor + shape <= [40, 60]).all()
                assert 0 <= start[0] <= 3 and start[0] + 10 >= 7 and 15 <= start[1] <= 30


def test_what_is_allowed_and_refused_beyond_dali():
    rows = [np.arange(4, dtype=np.int32)] * 2
    found = results(lambda: fn.sequence_rearrange(fn.external_source(lambda: rows, layout="F"), new_order=[3, 0, 0]), batch_size=2)
    assert [sample.tolist() for sample in found[0]] == [[3, 0, 0]] * 2
    with pytest.raises(RuntimeError, match=r"negative extents: \[-1, 3\]"):
        results(lambda: fn.roi_random_crop(crop_shape=[-1, 3], roi_start=[0, 0], roi_end=[5, 5], in_shape=[10, 10]))
