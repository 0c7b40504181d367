"""A pipeline with any of the operators survives ``serialize`` and ``deserialize``: the same outputs, the same stream."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import values

from asyncdali import Pipeline, fn, pipeline_def, types

pytestmark = pytest.mark.slow  # compiles nearly everything

SIZE = 3


def image():
    return fn.cast(fn.random.uniform(range=[0, 255], shape=[6, 5, 3], seed=1), dtype=types.UINT8)


def picture():
    return fn.reshape(image(), layout="HWC")


def numbers(*shape):
    return fn.random.uniform(range=[-1, 1], shape=list(shape), seed=2)


def scalar():
    return fn.random.uniform(range=[1, 3], seed=3)


def spectrogram():
    return fn.spectrogram(numbers(600), nfft=64, window_length=64, window_step=32)


def boxes():
    return fn.constant(fdata=[0.1, 0.1, 0.5, 0.6, 0.2, 0.3, 0.8, 0.9], shape=[2, 4])


CALLS = {
    "arithmetic": lambda: (image() * 0.7 + 3) // 2 > scalar(),
    "infinite constant": lambda: numbers(3) < float("inf"),
    "subscript": lambda: image()[1:, ::-1, fn.cast(scalar(), dtype=types.INT32) - 1],
    "permute_batch": lambda: fn.permute_batch(image(), indices=fn.batch_permutation()),
    "bb_flip": lambda: fn.bb_flip(boxes(), horizontal=1),
    "bbox_paste": lambda: fn.bbox_paste(boxes(), paste_x=0.1, paste_y=0.2, ratio=2.0),
    "brightness_contrast": lambda: fn.brightness_contrast(picture(), brightness=0.8, contrast=scalar()),
    "cast_like": lambda: fn.cast_like(image(), scalar()),
    "cat": lambda: fn.cat(image(), image(), axis=1),
    "color_space_conversion": lambda: fn.color_space_conversion(picture(), image_type=types.RGB, output_type=types.GRAY),
    "color_twist": lambda: fn.color_twist(picture(), hue=20.0, saturation=0.5),
    "coord_transform": lambda: fn.coord_transform(numbers(4, 2), MT=fn.transforms.rotation(angle=30.0)),
    "crop_mirror_normalize": lambda: fn.crop_mirror_normalize(picture(), crop=[4, 4], mean=[1.0, 2.0, 3.0], std=[2.0], mirror=1),
    "element_extract": lambda: fn.element_extract(numbers(4, 2), element_map=[1, 3])[1],
    "erase": lambda: fn.erase(picture(), anchor=[1, 1], shape=[2, 2], axis_names="HW", fill_value=7.0),
    "filter": lambda: fn.filter(picture(), np.ones((3, 3), np.float32)),
    "flip": lambda: fn.flip(picture(), horizontal=fn.random.coin_flip()),
    "full_like": lambda: fn.full_like(image(), 3),
    "gaussian_blur": lambda: fn.gaussian_blur(picture(), window_size=3),
    "get_property": lambda: fn.get_property(picture(), key="layout"),
    "grid_mask": lambda: fn.grid_mask(picture(), tile=4, ratio=0.5, angle=0.1),
    "laplacian": lambda: fn.laplacian(picture(), dtype=types.FLOAT),
    "lookup_table": lambda: fn.lookup_table(image(), keys=[1, 2, 3], values=[5.0, 6.0, 7.0], default_value=1.5),
    "mfcc": lambda: fn.mfcc(fn.to_decibels(fn.mel_filter_bank(spectrogram(), nfilter=8)), n_mfcc=4),
    "noise": lambda: fn.noise.gaussian(picture(), stddev=9.0),
    "nonsilent_region": lambda: fn.nonsilent_region(numbers(600), window_length=32)[0],
    "normalize": lambda: fn.normalize(numbers(4, 3), axes=[0], mean=np.zeros((1, 3), np.float32)),
    "one_hot": lambda: fn.one_hot(fn.cast(scalar(), dtype=types.INT32), num_classes=4, dtype=types.INT64),
    "pad": lambda: fn.pad(picture(), axis_names="HW", shape=[8, 8], fill_value=3),
    "paste": lambda: fn.paste(picture(), fill_value=[1, 2, 3], ratio=scalar()),
    "power_spectrum": lambda: fn.power_spectrum(numbers(64), nfft=64),
    "preemphasis_filter": lambda: fn.preemphasis_filter(numbers(64), border="reflect"),
    "random.beta": lambda: fn.random.beta(alpha=2.0),
    "random.choice": lambda: fn.random.choice([4, 5, 6], p=[0.2, 0.3, 0.5]),
    "random.normal": lambda: fn.random.normal(picture(), stddev=3.0),
    "random_bbox_crop": lambda: fn.random_bbox_crop(boxes(), thresholds=[0.0, 0.3], bbox_layout="xyXY")[0],
    "random_resized_crop": lambda: fn.random_resized_crop(picture(), size=[4, 4], interp_type=types.INTERP_CUBIC),
    "reductions": lambda: fn.reductions.std_dev(picture(), fn.reductions.mean(picture(), axis_names="HW"), axis_names="HW"),
    "reinterpret": lambda: fn.reinterpret(image(), dtype=types.INT8, rel_shape=[1, -1]),
    "resize": lambda: fn.resize(picture(), size=[9, 7], mode="not_smaller", max_size=[20, 20], roi_start=[0.1, 0.1], roi_end=[0.9, 0.9],
                                roi_relative=True),
    "rotate": lambda: fn.rotate(picture(), angle=numbers(), keep_size=True, fill_value=0.0),
    "slice": lambda: fn.slice(picture(), rel_start=[0.1, 0.2], rel_end=scalar() * [0.2, 0.3], axes=[0, 1]),
    "squeeze": lambda: fn.squeeze(fn.expand_dims(picture(), axes=[0], new_axis_names="F"), axis_names="F"),
    "stack": lambda: fn.stack(picture(), picture(), axis=0, axis_name="F"),
    "transforms": lambda: fn.transforms.combine(fn.transforms.scale(scale=[2.0, 3.0]), fn.transforms.shear(angles=[10.0, 5.0])),
    "transpose": lambda: fn.transpose(picture(), perm=[2, 0, 1]),
    "warp_affine": lambda: fn.warp_affine(picture(), matrix=[1.0, 0.1, 2.0, 0.0, 1.0, 1.0], size=[5, 5]),
    "zeros_like": lambda: fn.zeros_like(image(), dtype=types.FLOAT16),
}  # fmt: skip


@pytest.fixture(scope="module")
def outputs():
    """By name: two iterations of a pipeline of all calls, and of what came back from its text."""
    names = list(CALLS)
    made = pipeline_def(batch_size=SIZE, num_threads=2, device_id=None, seed=5)(lambda: tuple(call() for call in CALLS.values()))()
    text = made.serialize()
    again = Pipeline.deserialize(text)
    assert again.serialize() == text
    return {
        name: pairs for name, *pairs in zip(names, *[[*map(list, zip(*(values(pipe.run()) for _ in range(2))))] for pipe in (made, again)])
    }  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_round_trip(name, outputs):
    ours, again = outputs[name]
    np.testing.assert_equal(again, ours)
