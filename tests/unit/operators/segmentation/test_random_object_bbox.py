"""segmentation.random_object_bbox: boxes of objects in labelled masks."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values
from helpers.tensor_parity import Failed, batch, ours, plan, run_planned

from asyncdali import fn

NAME = "segmentation.random_object_bbox"
MASK = np.zeros((6, 9), np.uint8)
MASK[1:3, 1:4] = 1
MASK[4:6, 5:7] = 2
MASK[0, 8] = 1
MASK[3, 0] = 2
MASK[4, 1] = 2  # touches the object at a corner only, so it is another object
OBJECTS = {1: [(1, 1, 3, 4), (0, 8, 1, 9)], 2: [(4, 5, 6, 7), (3, 0, 4, 1), (4, 1, 5, 2)]}


def boxes(mask, count=60, named=None, **constants):
    """Boxes drawn for `count` copies of a mask: (begin, end) as tuples, with the class."""
    planned = plan(NAME, [batch([mask] * count)], named or {}, {"format": "box", "output_class": True, "seed": 7, **constants})
    run_planned(planned)
    box, label = planned.outputs
    return [(tuple(box.sample(i).tolist()), int(label.sample(i))) for i in range(count)]


def test_every_object_is_found_with_its_class():
    drawn = Counter(boxes(MASK, 200))
    assert set(drawn) == {(box, label) for label, found in OBJECTS.items() for box in found}
    by_class = Counter(label for _, label in boxes(MASK, 200))
    assert 70 < by_class[1] < 130  # all classes are equally likely, also if they differ in their number of objects


def test_objects_are_those_of_a_flood_fill():
    rng = np.random.default_rng(3)
    for axes in (1, 2, 3):
        mask = rng.integers(0, 3, (7,) * axes).astype(np.uint8)
        wanted = set()
        left = {tuple(place) for place in np.argwhere(mask)}
        while left:
            todo, region = [left.pop()], []
            while todo:
                place = todo.pop()
                region.append(place)
                for axis in range(axes):
                    for step in (-1, 1):
                        near = (*place[:axis], place[axis] + step, *place[axis + 1 :])
                        if near in left and mask[near] == mask[place]:
                            left.remove(near)
                            todo.append(near)
            low, high = np.min(region, axis=0), np.max(region, axis=0) + 1
            wanted.add(((*low.tolist(), *high.tolist()), int(mask[region[0]])))
        assert set(boxes(mask, 3000)) == wanted


def test_weights_thresholds_and_the_largest():
    assert {label for _, label in boxes(MASK, class_weights=[0.0, 3.0])} == {2}
    assert {label for _, label in boxes(MASK, classes=[2, 5])} == {2}
    assert {box for box, _ in boxes(MASK, threshold=2)} == {(1, 1, 3, 4), (4, 5, 6, 7)}
    assert {box for box, _ in boxes(MASK, threshold=[2, 3])} == {(1, 1, 3, 4)}
    assert {box for box, _ in boxes(MASK, k_largest=1)} == {(1, 1, 3, 4), (4, 5, 6, 7)}
    whole = (0, 0, 6, 9)
    assert set(boxes(MASK, threshold=[9, 9])) == {(whole, 0)}
    assert set(boxes(MASK, foreground_prob=0.0, background=3)) == {(whole, 3)}
    assert set(boxes(MASK + 5, classes=[0])) == {(whole, -1)}  # the background cannot be 0, which is a class here
    both = Counter(boxes(MASK, 200, foreground_prob=0.5, classes=[1]))
    assert 70 < both[whole, 0] < 130


def test_without_classes_every_object_is_equally_likely():
    planned = plan(NAME, [batch([MASK] * 500)], {}, {"format": "box", "ignore_class": True, "seed": 7})
    drawn = Counter(tuple(sample.tolist()) for sample in run_planned(planned).samples)
    assert set(drawn) == {box for found in OBJECTS.values() for box in found}
    assert min(drawn.values()) > 60


def test_masks_of_one_pixel_and_of_none():
    assert boxes(np.ones((1, 1), np.uint8), 1) == [((0, 0, 1, 1), 1)]
    assert boxes(np.ones((0, 4), np.uint8), 1) == [((0, 0, 0, 4), 0)]


def test_a_checkpoint_restores_the_position():
    def graph():
        return tuple(fn.segmentation.random_object_bbox(fn.external_source(lambda position: [MASK] * 3), output_class=True))

    with pipeline_of(graph, enable_checkpointing=True) as pipeline:
        pipeline.run()
        saved = pipeline.checkpoint()
        wanted = [values(pipeline.run()) for _ in range(4)]
    with pipeline_of(graph, enable_checkpointing=True, checkpoint=saved) as again:
        assert [values(again.run()) for _ in range(4)] == wanted
    assert len({str(item) for item in wanted}) > 1


@pytest.mark.parametrize(
    "constants, message", [
        ({"format": "corners"}, "anchor_shape, start_end, box"), ({"k_largest": 0}, "at least 1"), ({"threshold": [1, 2, 3]}, "threshold"),
        ({"classes": [1, 2], "class_weights": [1.0]}, "of one length"), ({"classes": [0, 1], "background": 0}, "it is the background"),
        ({"class_weights": [1.0, -1.0]}, "not negative"), ({"ignore_class": True, "classes": [1]}, "exclude each other"),
    ],
)  # fmt: skip
def test_refusals(constants, message):
    result = ours(NAME, [[MASK]], **constants)
    assert isinstance(result, Failed) and re.search(message, result.message), result
    assert "Unsupported input type FLOAT (input 0, masks)" in ours(NAME, [[MASK.astype(np.float32)]]).message
