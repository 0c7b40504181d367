"""jpeg_compression_distortion: images with the artefacts of JPEG compression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...batch import Batch
from ...device.launch import Launch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, SampleError, Schema, register
from ..images.opencv_images import OpenCVColors
from .jpeg_distortion_launches import distortion_launches

_LARGEST = 65500
"""Most rows and columns that libjpeg can write."""


@register
class JpegCompressionDistortion(OpenCVColors):
    schema = Schema(
        name="jpeg_compression_distortion",
        doc="""Adds the artefacts of JPEG: images are encoded (4:2:0) and decoded.

        Layouts HWC and FHWC, UINT8, three channels (RGB).""",
        accepts=(Input((DALIDataType.UINT8,), listed("HWC", "FHWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(Arg("quality", "int", 50, "Quality from 1 (worst) to 100; other values are clamped.", tensor=True),),
    )

    def work(self, source: Batch, arguments: Arguments) -> Callable[[np.ndarray, np.ndarray, int], None]:
        qualities = self._qualities(source, arguments).tolist()
        return lambda sample, target, i: _through_jpeg(sample, target, qualities[i])

    def launches(self, source: Batch, output: Batch, arguments: Arguments) -> Callable[[], list[Launch]]:
        qualities = self._qualities(source, arguments)
        return lambda: distortion_launches(source, output, qualities)

    @staticmethod
    def _qualities(source: Batch, arguments: Arguments) -> np.ndarray:
        """int64[samples], from 1 to 100. SampleError for images that no JPEG holds."""
        extents = source.shapes[:, -3:-1]
        wrong = ((extents == 0) | (extents > _LARGEST)).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"height and width must be from 1 to {_LARGEST}, got {extents[i].tolist()}")
        return np.clip(arguments.scalars("quality", np.int64), 1, 100)


def _through_jpeg(source: np.ndarray, target: np.ndarray, quality: int) -> None:
    """Write `source`, images uint8[..., height, width, 3], as JPEGs and decode them into `target`."""
    import cv2

    for image, out in zip(source.reshape(-1, *source.shape[-3:]), target.reshape(-1, *target.shape[-3:]), strict=True):
        _, encoded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
        decoded = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        assert decoded is not None, "what it wrote"
        cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB, dst=out)
