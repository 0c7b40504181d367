"""Every operator of dynamic mode takes batches without samples. The result has its usual type and number of dimensions."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali import types


def nothing(*shape: int, dtype: type = np.uint8) -> ndd.Batch:
    return ndd.as_batch(np.zeros((0, *shape), dtype))


PICTURES, MATRICES, VIDEOS = nothing(8, 9, 3), nothing(4, 5, dtype=np.float32), nothing(3, 8, 9, 3)
SOUNDS, BYTES, BOXES = nothing(2000, dtype=np.float32), nothing(5), nothing(2, 4, dtype=np.float32)
LABELS, MASKS, NUMBERS = nothing(2, dtype=np.int32), nothing(8, 9, 1, dtype=np.int32), nothing(dtype=np.float32)
POINTS, MAPS = nothing(2, 2, dtype=np.float32), nothing(8, 9, dtype=np.float32)
U8, I32, I64, F32 = ndd.uint8, ndd.int32, ndd.int64, ndd.float32
CORNERS: dict[str, Any] = {"start": [0.0], "end": [1.0], "axes": [0]}

SAME: dict[str, dict[str, Any]] = {
    "brightness": {}, "brightness_contrast": {}, "clahe": {"tiles_x": 2, "tiles_y": 2, "clip_limit": 2.0},
    "color_space_conversion": {"image_type": types.RGB, "output_type": types.BGR}, "color_twist": {}, "contrast": {}, "copy": {},
    "crop": {"crop": (2, 2)}, "equalize": {}, "erase": {"anchor": [1.0], "shape": [1.0]}, "flip": {}, "gaussian_blur": {"window_size": 3},
    "grid_mask": {}, "hsv": {}, "hue": {}, "jitter": {}, "jpeg_compression_distortion": {"quality": 50}, "laplacian": {},
    "multi_paste": {}, "ones_like": {}, "pad": {}, "paste": {"ratio": 1.5, "fill_value": [1, 2, 3]}, "permute_batch": {"indices": []},
    "random_resized_crop": {"size": [3, 3]}, "resize": {"size": [3, 3]}, "resize_crop_mirror": {"size": [6, 6], "crop": (2, 2)},
    "rotate": {"angle": 5.0}, "saturation": {}, "slice": CORNERS, "sphere": {}, "warp_affine": {"matrix": [1.0, 0, 0, 0, 1, 0]},
    "water": {}, "zeros_like": {}, "experimental.dilate": {}, "experimental.erode": {}, "experimental.median_blur": {},
    "experimental.resize": {"size": [3, 3]}, "experimental.warp_perspective": {"matrix": np.eye(3)}, "noise.gaussian": {},
    "noise.salt_and_pepper": {}, "noise.shot": {}, "cat": {}, "dump_image": {}, "reductions.max": {"axes": []},
    "reductions.min": {"axes": []},
}  # fmt: skip
"""Pictures give pictures."""

OTHER: dict[str, tuple[list[ndd.Batch], dict[str, Any], list[tuple[ndd.DType, int]]]] = {
    "audio_resample": ([SOUNDS], {"scale": 2.0}, [(F32, 1)]), "batch_permutation": ([], {}, [(I32, 0)]),
    "bb_flip": ([BOXES], {}, [(F32, 2)]), "bbox_paste": ([BOXES], {"ratio": 1.5, "paste_x": 0.1, "paste_y": 0.1}, [(F32, 2)]),
    "bbox_rotate": ([BOXES], {"angle": 3.0, "input_shape": [4, 4]}, [(F32, 2)]),
    "box_encoder": ([BOXES, LABELS], {"anchors": [0.1, 0.1, 0.5, 0.5]}, [(F32, 2), (I32, 1)]),
    "cast": ([PICTURES], {"dtype": ndd.int16}, [(ndd.int16, 3)]), "cast_like": ([PICTURES, MATRICES], {}, [(F32, 3)]),
    "coord_flip": ([POINTS], {}, [(F32, 2)]), "coord_transform": ([POINTS], {}, [(F32, 2)]),
    "crop_mirror_normalize": ([PICTURES], {"crop": (2, 2)}, [(F32, 3)]),
    "debayer": ([nothing(8, 8)], {"blue_position": [0, 0]}, [(U8, 3)]), "element_extract": ([VIDEOS], {"element_map": [0]}, [(U8, 3)]),
    "expand_dims": ([PICTURES], {"axes": [0]}, [(U8, 4)]), "filter": ([MATRICES, MATRICES], {}, [(F32, 2)]),
    "full": ([NUMBERS], {"shape": [2, 3]}, [(F32, 2)]), "full_like": ([PICTURES, NUMBERS], {}, [(U8, 3)]),
    "get_property": ([PICTURES], {"key": "source_info"}, [(U8, 1)]),
    "lookup_table": ([PICTURES], {"keys": [0], "values": [1.0]}, [(F32, 3)]), "mel_filter_bank": ([MATRICES], {}, [(F32, 2)]),
    "mfcc": ([MATRICES], {}, [(F32, 2)]), "nonsilent_region": ([SOUNDS], {}, [(I32, 0), (I32, 0)]),
    "normalize": ([PICTURES], {}, [(F32, 3)]), "one_hot": ([LABELS], {"num_classes": 3}, [(F32, 2)]),
    "ones": ([], {"shape": [2]}, [(I32, 1)]), "optical_flow": ([VIDEOS], {}, [(F32, 4)]), "peek_image_shape": ([BYTES], {}, [(I64, 1)]),
    "per_frame": ([VIDEOS], {}, [(U8, 4)]), "power_spectrum": ([SOUNDS], {}, [(F32, 1)]), "preemphasis_filter": ([SOUNDS], {}, [(F32, 1)]),
    "random_bbox_crop": ([BOXES, LABELS], {}, [(F32, 1), (F32, 1), (F32, 2), (I32, 1)]),
    "random_crop_generator": ([BYTES], {}, [(I32, 1), (I32, 1)]), "reinterpret": ([MATRICES], {"layout": "AB"}, [(F32, 2)]),
    "reshape": ([PICTURES], {"shape": [-1]}, [(U8, 1)]),
    "roi_random_crop": ([], {"crop_shape": [2, 2], "roi_start": [0, 0], "roi_shape": [4, 4]}, [(I64, 1)]),
    "sequence_rearrange": ([VIDEOS], {"new_order": [1, 0]}, [(U8, 4)]), "spectrogram": ([SOUNDS], {}, [(F32, 2)]),
    "squeeze": ([MASKS], {"axes": [2]}, [(I32, 2)]), "stack": ([PICTURES, PICTURES], {}, [(U8, 4)]),
    "tensor_resize": ([MATRICES], {"sizes": [3, 4]}, [(F32, 2)]), "to_decibels": ([MATRICES], {}, [(F32, 2)]),
    "transpose": ([MATRICES], {"perm": [1, 0]}, [(F32, 2)]), "zeros": ([], {"shape": [2]}, [(I32, 1)]),
    "decoders.audio": ([BYTES], {}, [(F32, 2), (F32, 0)]), "decoders.image": ([BYTES], {}, [(U8, 3)]),
    "decoders.image_crop": ([BYTES], {"crop": (2, 2)}, [(U8, 3)]), "decoders.image_random_crop": ([BYTES], {}, [(U8, 3)]),
    "decoders.image_slice": ([BYTES], CORNERS, [(U8, 3)]), "decoders.inflate": ([BYTES], {"shape": [3]}, [(U8, 1)]),
    "decoders.numpy": ([BYTES], {}, [(U8, 0)]), "decoders.video": ([BYTES], {}, [(U8, 4)]),
    "experimental.peek_image_shape": ([BYTES], {}, [(I64, 1)]), "experimental.remap": ([PICTURES, MAPS, MAPS], {}, [(U8, 3)]),
    "experimental.decoders.image": ([BYTES], {}, [(U8, 3)]), "experimental.decoders.image_crop": ([BYTES], {"crop": (2, 2)}, [(U8, 3)]),
    "experimental.decoders.image_random_crop": ([BYTES], {}, [(U8, 3)]),
    "experimental.decoders.image_slice": ([BYTES], CORNERS, [(U8, 3)]), "io.file.read": ([BYTES], {}, [(U8, 1)]),
    "random.beta": ([], {}, [(F32, 0)]), "random.choice": ([LABELS], {"shape": [4]}, [(I32, 1)]), "random.coin_flip": ([], {}, [(I32, 0)]),
    "random.normal": ([], {"shape": [2, 3]}, [(F32, 2)]), "random.uniform": ([PICTURES], {}, [(F32, 3)]),
    "reductions.mean": ([PICTURES], {}, [(F32, 0)]), "reductions.mean_square": ([PICTURES], {"axes": [0]}, [(F32, 2)]),
    "reductions.rms": ([PICTURES], {"axes": [0], "keep_dims": True}, [(F32, 3)]),
    "reductions.std_dev": ([MATRICES, NUMBERS], {}, [(F32, 0)]), "reductions.sum": ([PICTURES], {"axes": [0, 1]}, [(ndd.uint64, 1)]),
    "reductions.variance": ([MATRICES, NUMBERS], {}, [(F32, 0)]), "segmentation.random_mask_pixel": ([MASKS], {}, [(I64, 1)]),
    "segmentation.random_object_bbox": ([MASKS], {}, [(I32, 1), (I32, 1)]),
    "segmentation.select_masks": ([LABELS, nothing(3, 3, dtype=np.int32), POINTS], {}, [(I32, 2), (F32, 2)]),
    "transforms.combine": ([MATRICES, MATRICES], {}, [(F32, 2)]), "transforms.crop": ([], {"from_end": [1.0, 1.0]}, [(F32, 2)]),
    "transforms.rotation": ([], {"angle": 3.0}, [(F32, 2)]), "transforms.scale": ([], {"scale": [1.0, 2.0]}, [(F32, 2)]),
    "transforms.shear": ([], {"shear": [1.0, 2.0]}, [(F32, 2)]), "transforms.translation": ([], {"offset": [1.0, 2.0]}, [(F32, 2)]),
}  # fmt: skip
"""Inputs, arguments, and the types and numbers of dimensions of the results."""

CASES = {**{name: ([PICTURES], arguments, [(U8, 3)]) for name, arguments in SAME.items()}, **OTHER}


def function(name: str) -> Any:
    found: Any = ndd
    for part in name.split("."):
        found = getattr(found, part)
    return found


def operators(module: Any, prefix: str) -> set[str]:
    values = {prefix + name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {name for name, value in values.items() if inspect.isfunction(value) and {"batch_size", "device"} <= {*parameters(value)}}


def parameters(value: Any) -> list[str]:
    return list(inspect.signature(value).parameters)


def test_every_operator_has_a_case() -> None:
    modules = (
        "decoders", "experimental", "experimental.decoders", "io.file", "noise", "random", "reductions", "segmentation", "transforms",
    )  # fmt: skip
    found = operators(ndd, "").union(*[operators(function(name), f"{name}.") for name in modules])
    assert found == {*CASES} and len(found) == 123


@pytest.mark.parametrize("name", CASES)
def test_a_batch_without_samples_gives_one(name: str) -> None:
    inputs, arguments, expected = CASES[name]
    for mode in (ndd.EvalMode.eager, ndd.EvalMode.deferred):
        with mode:
            made = function(name)(*inputs, **arguments, **({} if inputs else {"batch_size": 0}))
            made = made if isinstance(made, tuple) else (made,)
            assert [(item.batch_size, item.shape, item.dtype, item.ndim) for item in made] == [(0, [], *facts) for facts in expected]
