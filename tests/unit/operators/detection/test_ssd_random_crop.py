"""ssd_random_crop: images cropped with their boxes and labels."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values

from asyncdali import fn

HEIGHT, WIDTH, COUNT = 60, 80, 40
BOXES = np.float32([[0.1, 0.2, 0.5, 0.6], [0.6, 0.6, 0.9, 0.95]])
LABELS = np.int32([[3], [4]])
# Every pixel contains its own position.
IMAGE = np.stack(np.broadcast_arrays(np.arange(HEIGHT)[:, None], np.arange(WIDTH)[None]), axis=-1).astype(np.uint8)


def repeated(sample, count=COUNT, layout=None):
    return fn.external_source(lambda position: [sample] * count, layout=layout)


def cropped(**arguments):
    return lambda: tuple(fn.ssd_random_crop(repeated(IMAGE, layout="HWC"), repeated(BOXES), repeated(LABELS), **arguments))


def test_boxes_and_labels_follow_the_image():
    with pipeline_of(cropped(num_attempts=10), batch_size=COUNT) as pipeline:
        outputs = pipeline.run()
        assert [output.layout() for output in outputs] == ["HWC", "", ""]
        images, boxes, labels = ([np.asarray(sample) for sample in output] for output in outputs)
    shapes = {image.shape for image in images}
    assert IMAGE.shape in shapes and len(shapes) > 10
    for image, found, kept in zip(images, boxes, labels, strict=True):
        (top, left), (bottom, right) = image[0, 0].astype(int), image[-1, -1].astype(int) + 1
        np.testing.assert_array_equal(image, IMAGE[top:bottom, left:right])
        assert kept.shape == (len(found), 1) and len(found) > 0
        if image.shape == IMAGE.shape:
            np.testing.assert_array_equal(found, BOXES)
            continue
        assert 0.29 < (right - left) / WIDTH <= 1 and 0.29 < (bottom - top) / HEIGHT <= 1
        for box, label in zip(found, kept[:, 0], strict=True):
            corners = BOXES[label - 3] * [WIDTH, HEIGHT, WIDTH, HEIGHT]
            wanted = (corners - [left, top, left, top]) / [right - left, bottom - top, right - left, bottom - top]
            np.testing.assert_allclose(box, np.clip(wanted, 0, 1), atol=0.06)  # the window is rounded to pixels


def test_without_boxes_or_attempts_images_do_not_change():
    with pipeline_of(cropped(num_attempts=0), batch_size=COUNT) as pipeline:
        for image, boxes in zip(*pipeline.run()[:2], strict=True):
            np.testing.assert_array_equal(np.asarray(image), IMAGE)
            np.testing.assert_array_equal(np.asarray(boxes), BOXES)

    def graph():
        return tuple(fn.ssd_random_crop(*(repeated(part, 2) for part in (IMAGE, BOXES[:0], LABELS[:0]))))

    with pipeline_of(graph, batch_size=2) as pipeline:
        images, boxes, labels = ([np.asarray(sample) for sample in output] for output in pipeline.run())
    np.testing.assert_array_equal(images[1], IMAGE)
    assert boxes[0].shape == (0, 4) and labels[0].shape == (0, 1)


def test_a_checkpoint_restores_the_position():
    options = {"batch_size": COUNT, "enable_checkpointing": True}
    with pipeline_of(cropped(), **options) as pipeline:
        pipeline.run()
        saved = pipeline.checkpoint()
        wanted = [values(pipeline.run()) for _ in range(2)]
    with pipeline_of(cropped(), checkpoint=saved, **options) as again:
        assert [values(again.run()) for _ in range(2)] == wanted
    assert wanted[0] != wanted[1]


@pytest.mark.parametrize(
    "image, boxes, labels, message", [
        (IMAGE, BOXES[:, :3], LABELS, "n, 4"), (IMAGE, BOXES.astype(np.float64), LABELS, "FLOAT"),
        (IMAGE, BOXES, LABELS[:1], "1 labels for 2"),
        (IMAGE[..., 0], BOXES, LABELS, "Input 0 .images. has 2 dimensions"),
    ],
)  # fmt: skip
def test_refusals(image, boxes, labels, message):
    def graph():
        return tuple(fn.ssd_random_crop(*(repeated(part, 2) for part in (image, boxes, labels))))

    with pipeline_of(graph, batch_size=2) as pipeline, pytest.raises((RuntimeError, ValueError), match=message):
        pipeline.run()
