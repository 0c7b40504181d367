"""Operators: one module per operator or close family, with schema, shape rule and kernels together."""

from __future__ import annotations

import importlib

from .base import REGISTRY, Operator, Schema

MODULES = (
    "operators.audio.mel",
    "operators.audio.signal",
    "operators.audio.spectrum",
    "operators.cast",
    "operators.cast_like",
    "operators.color",
    "operators.color_space",
    "operators.color_twist",
    "operators.conditional",
    "operators.constant",
    "operators.coord_transform",
    "operators.copy",
    "operators.crop",
    "operators.crop_mirror_normalize",
    "operators.decoders",
    "operators.detection.bbox_paste",
    "operators.detection.box_encoder",
    "operators.detection.random_bbox_crop",
    "operators.detection.random_mask_pixel",
    "operators.dims",
    "operators.erase",
    "operators.filled",
    "operators.expressions",
    "operators.filters.filter",
    "operators.filters.gaussian_blur",
    "operators.filters.laplacian",
    "operators.flip",
    "operators.frames",
    "operators.grid_mask",
    "operators.join",
    "operators.lookup",
    "operators.numba_function",
    "operators.mirror",
    "operators.noise",
    "operators.normalize",
    "operators.pad",
    "operators.paste",
    "operators.peek_image_shape",
    "operators.permutation",
    "operators.properties",
    "operators.python_function",
    "operators.random",
    "operators.random_beta",
    "operators.random_choice",
    "operators.random_resized_crop",
    "operators.random_windows",
    "operators.reductions",
    "operators.reinterpret",
    "operators.reshape",
    "operators.resize",
    "operators.resize_crop_mirror",
    "operators.rotate",
    "operators.sequence_rearrange",
    "operators.shapes",
    "operators.slice",
    "operators.transforms",
    "operators.transpose",
    "operators.warp_affine",
    "operators.subscript",
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
