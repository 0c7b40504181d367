"""multi_paste: regions of several images on one canvas."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn, types
from asyncdali.operators.masks.multi_paste import _margins as margins_of


def image(k, height=3, width=4):
    return (10 * k + np.arange(height * width).reshape(height, width, 1)).astype(np.uint8)


IMAGES = [image(k) for k in range(3)]


def pasted(inputs, named=None, layout="HWC", **constants):
    result = ours("multi_paste", inputs, [layout] * len(inputs), named, **constants)
    assert not isinstance(result, Failed), result
    return [sample[..., 0] for sample in result.samples]


def refusal(inputs, named=None, layout="HWC", **constants):
    result = ours("multi_paste", inputs, [layout] * len(inputs), named, **constants)
    assert isinstance(result, Failed), result
    return result.message


@pytest.mark.parametrize("second", [0, 1, 2])
def test_canvases_that_regions_cover_completely_or_partly(second):
    """Two regions have together as many pixels as the canvas. If they are side by side, they cover it. If they overlap, the rest is 0."""
    named = {"in_anchors": [np.int32([[0, 0], [0, 0]])], "shapes": [np.int32([[3, 2], [3, 2]])],
             "out_anchors": [np.int32([[0, 0], [0, second]])]}  # fmt: skip
    (found,) = pasted([[image(0) + 1], [image(1) + 1]], named, output_size=[3, 4])
    expected = np.zeros((3, 4), np.uint8)
    expected[:, :2] = image(0)[:, :2, 0] + 1
    expected[:, second : second + 2] = image(1)[:, :2, 0] + 1
    np.testing.assert_array_equal(found, expected)


def test_regions_of_the_given_samples_with_the_last_on_top():
    named = {
        "in_ids": [np.int32([0, 1]), np.int32([2]), np.zeros(0, np.int32)],
        "in_anchors": [np.int32([[0, 1], [1, 0]]), np.int32([[2, 3]]), np.zeros((0, 2), np.int32)],
        "shapes": [np.int32([[2, 2], [2, 3]]), np.int32([[1, 1]]), np.zeros((0, 2), np.int32)],
        "out_anchors": [np.int32([[0, 0], [1, 1]]), np.int32([[4, 5]]), np.zeros((0, 2), np.int32)],
    }
    first, second, third = pasted([IMAGES], named, output_size=[5, 6])
    expected = np.zeros((5, 6), np.uint8)
    expected[:2, :2] = IMAGES[0][:2, 1:3, 0]
    expected[1:3, 1:4] = IMAGES[1][1:, :3, 0]
    np.testing.assert_array_equal(first, expected)
    expected = np.zeros((5, 6), np.uint8)
    expected[4, 5] = IMAGES[2][2, 3, 0]
    np.testing.assert_array_equal(second, expected)
    np.testing.assert_array_equal(third, np.zeros((5, 6)))


def test_several_inputs_and_relative_places():
    more = [image(k, 5, 2) for k in (7, 8, 9)]
    named = {
        "in_anchors_rel": [np.float32([[0.4, 0.3], [0, 0]])] * 3,  # rounded down to (1, 1)
        "shapes_rel": [np.float32([[0.4, 0.3], [0.5, 1]])] * 3,  # rounded up to (2, 2) and (3, 2)
        "out_anchors_rel": [np.float32([[0.5, 0.5], [0.1, 0.19]])] * 3,  # rounded down to (4, 3) and (0, 1)
    }
    for a, b, canvas in zip(IMAGES, more, pasted([IMAGES, more], named, output_size=[8, 7]), strict=True):
        expected = np.zeros((8, 7), np.uint8)
        expected[4:6, 3:5] = a[1:3, 1:3, 0]
        expected[0:3, 1:3] = b[:3, :, 0]
        np.testing.assert_array_equal(canvas, expected)


@pytest.mark.slow  # compiles two conversions
def test_types_are_rounded_and_saturated():
    floats = [np.float32([-3.0, 0.5, 254.4, 700.0]).reshape(1, 4, 1)]
    result = ours("multi_paste", [floats], ["HWC"], dtype=types.UINT8)
    assert result.samples[0].dtype == np.uint8 and result.samples[0].ravel().tolist() == [0, 1, 254, 255]
    assert ours("multi_paste", [[IMAGES[0]]], ["HWC"], dtype=types.INT16).samples[0].dtype == np.int16


def test_in_ids_of_sequences_number_the_frames_of_the_whole_batch():
    clips = [np.stack([sample, sample + 1, sample + 2]) for sample in IMAGES]
    named = {"out_anchors": [np.int32([[1, 2]])] * 3}
    for sample in pasted([clips], named, "FHWC", in_ids=[4], output_size=[5, 6]):
        expected = np.zeros((3, 5, 6), np.uint8)
        expected[:, 1:4, 2:6] = clips[1][1, ..., 0]
        np.testing.assert_array_equal(sample, expected)


def test_origins_of_pasted_samples_are_joined(tmp_path):
    paths = [tmp_path / f"{k}.bin" for k in range(3)]
    for path in paths:
        path.write_bytes(bytes(12))

    def graph():
        data, _ = fn.readers.file(files=[str(path) for path in paths])
        image = fn.reshape(data, shape=[2, 2, 3], layout="HWC")
        return fn.multi_paste(image, in_ids=[2, 0]), fn.multi_paste(image, image), fn.multi_paste(image)

    with pipeline_of(graph) as pipeline:
        chosen, twice, alone = pipeline.run()
        assert [sample.source_info() for sample in chosen] == [f"{paths[2]};{paths[0]}"] * 3
        assert [sample.source_info() for sample in twice] == [f"{path};{path}" for path in paths]
        assert [sample.source_info() for sample in alone] == [str(path) for path in paths]


def test_in_a_pipeline_samples_come_from_all_over_the_batch():
    def graph():
        source = fn.external_source(lambda: IMAGES, layout="HWC")
        twice = fn.cat(source, source, axis=1)  # otherwise the threads would compute this operator and the next one sample by sample
        ids = fn.external_source(lambda: [np.int32([2]), np.int32([0]), np.int32([1])])
        return fn.multi_paste(twice, in_ids=ids), fn.multi_paste(source, in_ids=[0, 1], out_anchors=np.int32([[0, 0], [3, 0]]),
                                                                     output_size=[6, 4])  # fmt: skip

    with pipeline_of(graph) as pipeline:
        for _ in range(3):
            turned, stacked = pipeline.run()
            for sample, k in zip(turned, (2, 0, 1), strict=True):
                np.testing.assert_array_equal(np.asarray(sample), np.tile(IMAGES[k], (1, 2, 1)))
            for sample in stacked:
                np.testing.assert_array_equal(np.asarray(sample), np.concatenate(IMAGES[:2]))


@pytest.mark.parametrize(
    "named, constants, message", [
        ({}, {"in_ids": [3]}, "in 0 to 2"), ({}, {"in_ids": [-1]}, "in 0 to 2"),
        ({"out_anchors": [np.int32([[1, 0]])] * 3}, {}, "within the canvas of .3, 4."),
        ({"in_anchors": [np.int32([[-1, 0]])] * 3}, {}, "within its image"),
        ({"shapes": [np.int32([[1, 5]])] * 3}, {"output_size": [9, 9]}, "within its image of .3, 4."),
        ({"shapes": [np.int32([[1, 5], [1, 1]])] * 3}, {}, r"shape \(1, 2\), a row for each paste"),
        ({"shapes_rel": [np.float32([[np.nan, 0]])] * 3}, {}, "finite"),
        ({"shapes": [np.int32([[1, 1]])] * 3, "shapes_rel": [np.float32([[1, 1]])] * 3}, {}, "exclude each other"),
        ({}, {"output_size": [5]}, "two numbers"), ({}, {"in_anchors": 1}, "an array of"),
        ({}, {"dtype": types.FLOAT16}, "supported types"),
    ],
)  # fmt: skip
def test_refusals(named, constants, message):
    assert re.search(message, refusal([IMAGES], named, **constants))


def test_inputs_that_do_not_fit():
    assert "one input" in refusal([IMAGES, IMAGES], in_ids=[0])
    assert "need `output_size`" in refusal([[image(0), image(1, 4), image(2)]])
    assert "equal channels" in refusal([[np.repeat(IMAGES[0], 3, 2), *IMAGES[1:]]], in_ids=[0, 1])
    assert "same type" in refusal([IMAGES, [sample.astype(np.float32) for sample in IMAGES]])
    assert "supported types" in refusal([[sample.astype(np.uint16) for sample in IMAGES]])
    assert "CHW" in refusal([IMAGES], layout="CHW")


@pytest.mark.parametrize("seed", range(4))
def test_every_pixel_is_in_a_region_or_in_a_margin(seed):
    random = np.random.default_rng(seed)
    samples, regions = 64, 1 + seed
    canvas = random.integers(1, 7, (samples, 2))
    targets = np.minimum(random.integers(0, 4, (samples, regions, 2)), canvas[:, None])
    extents = np.minimum(random.integers(0, 7, (samples, regions, 2)), canvas[:, None] - targets)
    whole = (extents == canvas[:, None]).all(axis=2).any(axis=1)
    margins = margins_of(extents, targets, canvas, whole)
    fewer = 0
    for i, size in enumerate(canvas.tolist()):
        painted = np.zeros(size, int)
        cleared = np.zeros(size, int)
        for offsets, sizes in margins:
            (y, x), (height, width) = offsets[i], sizes[i]
            assert height >= 0
            assert width >= 0
            cleared[y : y + height, x : x + width] += 1
        for (y, x), (height, width) in zip(targets[i], extents[i], strict=True):
            painted[y : y + height, x : x + width] += 1
        assert cleared.max() <= 1
        assert (cleared + painted).min() >= 1
        fewer += cleared.sum() < cleared.size
    assert fewer > 0
