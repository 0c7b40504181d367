"""Operators whose results are OpenCV's, on the CPU and on a GPU: programs over images HWC, and how far results may be apart."""

from __future__ import annotations

import numpy as np

from asyncdali import fn, types

_TURNED = [0.9, 0.2, 3.0, -0.1, 1.1, -4.0, 0.001, -0.002, 1.0]


def _by_input(images):
    """The transforms of the second input, which are in device memory on a GPU, for every frame."""
    rng = np.random.default_rng(1)
    given = (np.eye(3) + rng.normal(0, 1, (2, 3, 3)) * [[0.1, 0.1, 3], [0.1, 0.1, 3], [1e-3, 1e-3, 0]]).astype(np.float32)
    transforms = types.Constant(given, device="cpu")
    transforms = fn.per_frame(transforms.gpu() if images.device == "gpu" else transforms)
    return fn.experimental.warp_perspective(images, transforms, size=[50.0, 60.0], inverse_map=False, border_mode="reflect")


PROGRAMS = {
    "clahe": (lambda x: fn.clahe(x, tiles_x=4, tiles_y=3, clip_limit=2.0), 0),
    "clahe of channels": (lambda x: fn.clahe(x, tiles_x=8, tiles_y=8, clip_limit=0.0, luma_only=False), 0),
    "jpeg": (lambda x: fn.jpeg_compression_distortion(x, quality=fn.random.uniform(range=(1, 100), dtype=types.INT32)), 0),
    "jpeg of frames": (lambda x: fn.jpeg_compression_distortion(fn.stack(x, fn.flip(x), axis_name="F"), quality=80), 0),
    "perspective": (lambda x: fn.experimental.warp_perspective(x, matrix=_TURNED), 1),
    "perspective, nearest": (
        lambda x: fn.experimental.warp_perspective(x, matrix=_TURNED, interp_type=types.INTERP_NN, border_mode="wrap"), None,
    ),
    "perspective, cubic floats": (
        lambda x: fn.experimental.warp_perspective(
            fn.cast(x, dtype=types.FLOAT), matrix=_TURNED, interp_type=types.INTERP_CUBIC, fill_value=[1.0, 2.0, 3.0], size=[90.0, 33.0]
        ), 0.05,
    ),
    "perspective of INT16": (
        lambda x: fn.experimental.warp_perspective(fn.cast(x, dtype=types.INT16), matrix=_TURNED, border_mode="reflect_101"), 1,
    ),
    "perspectives of frames": (_by_input, 1),
    "one behind another": (
        lambda x: fn.clahe(
            fn.cast(fn.jpeg_compression_distortion(x, quality=20) * 0.5, dtype=types.UINT8), tiles_x=2, tiles_y=2, clip_limit=3.0
        ), 0,
    ),
}  # fmt: skip
"""Name: the program and the largest difference. None: a pixel whose position is a tie may be another one."""


def check(name, expected, found):
    most = PROGRAMS[name][1]
    for x, y in zip(expected, found, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        difference = np.abs(x.astype(np.float64) - y.astype(np.float64))
        assert difference.max(initial=0) <= (255 if most is None else most)
        assert most == 0.05 or (difference > 0).mean() < 0.002
