"""Operators: one module per operator or close family, with schema, shape rule and kernels together."""

from __future__ import annotations

import importlib

from .base import REGISTRY, Operator, Schema

MODULES = (
    "operators.audio.audio_resample",
    "operators.audio.mel",
    "operators.audio.signal",
    "operators.audio.spectrum",
    "operators.arrays.cast",
    "operators.arrays.cast_like",
    "operators.color.clahe",
    "operators.color.color",
    "operators.color.color_space",
    "operators.color.color_twist",
    "operators.color.equalize",
    "operators.color.jpeg_distortion",
    "operators.conditional",
    "operators.arrays.constant",
    "operators.geometry.coord_transform",
    "operators.arrays.copy",
    "operators.geometry.crop",
    "operators.geometry.crop_mirror_normalize",
    "operators.decode.audio_decoder",
    "operators.decode.decoders",
    "operators.decode.numpy_decoder",
    "operators.detection.bbox_paste",
    "operators.detection.bbox_rotate",
    "operators.detection.box_encoder",
    "operators.detection.random_bbox_crop",
    "operators.detection.random_mask_pixel",
    "operators.detection.random_object_bbox",
    "operators.detection.select_masks",
    "operators.detection.ssd_random_crop",
    "operators.dims",
    "operators.masks.erase",
    "operators.geometry.displacement",
    "operators.arrays.filled",
    "operators.expressions.expressions",
    "operators.filters.filter",
    "operators.filters.gaussian_blur",
    "operators.filters.laplacian",
    "operators.geometry.flip",
    "operators.arrays.frames",
    "operators.masks.grid_mask",
    "operators.masks.multi_paste",
    "operators.arrays.join",
    "operators.arrays.lookup",
    "operators.python.numba_function",
    "operators.geometry.mirror",
    "operators.random.noise",
    "operators.statistics.normalize",
    "operators.arrays.pad",
    "operators.masks.paste",
    "operators.decode.peek_image_shape",
    "operators.decode.video_decoder",
    "operators.arrays.permutation",
    "operators.arrays.properties",
    "operators.python.python_function",
    "operators.random.random",
    "operators.random.random_beta",
    "operators.random.random_choice",
    "operators.geometry.random_resized_crop",
    "operators.random.random_windows",
    "operators.statistics.reductions",
    "operators.arrays.reinterpret",
    "operators.arrays.reshape",
    "operators.geometry.resize",
    "operators.geometry.resize_crop_mirror",
    "operators.geometry.rotate",
    "operators.arrays.sequence_rearrange",
    "operators.arrays.shapes",
    "operators.geometry.slice",
    "operators.geometry.tensor_resize",
    "operators.geometry.transforms",
    "operators.arrays.transpose",
    "operators.geometry.warp_affine",
    "operators.geometry.warp_perspective",
    "operators.expressions.subscript",
    "readers.caffe",
    "readers.caffe2",
    "readers.coco",
    "readers.file",
    "readers.file_read",
    "readers.fits",
    "readers.mxnet",
    "readers.nemo_asr",
    "readers.npy",
    "readers.sequence",
    "readers.tfrecord",
    "readers.video",
    "readers.webdataset",
    "sources.operator",
)
"""Every module that declares operators, relative to the package."""


def load_registry() -> dict[str, type[Operator]]:
    """Import all declarations (cheap: no kernels, no Numba) and return the registry."""
    for name in MODULES:
        importlib.import_module(f"asyncdali.{name}")
    return REGISTRY


__all__ = ["MODULES", "REGISTRY", "Operator", "Schema", "load_registry"]
