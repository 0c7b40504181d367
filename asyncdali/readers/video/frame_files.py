"""Image files as the frames of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...codecs.image_formats import convert, decode_opencv, decode_other, orient
from ...types import DALIDataType, DALIImageType
from ..containers.indices import read_bytes
from ..remote.remote import Opener


def read_sequence(paths: Sequence[str], image_type: DALIImageType, open_file: Opener) -> np.ndarray:
    """The frames, uint8[frames, height, width, channels]; errors name the file."""
    frames = [_frame(path, image_type, open_file) for path in paths]
    for path, frame in zip(paths, frames, strict=True):
        if frame.shape != frames[0].shape:
            raise RuntimeError(f"frames of one sequence must be of one size: {paths[0]} is {frames[0].shape}, {path} is {frame.shape}")
    return np.stack(frames)


def _frame(path: str, image_type: DALIImageType, open_file: Opener) -> np.ndarray:
    data = np.frombuffer(read_bytes(path, open_file=open_file), np.uint8)
    try:
        if data[:2].tobytes() == b"\xff\xd8":
            image, orientation = _jpeg(data, image_type), 1
        else:
            image, orientation = decode_other(data, image_type)
        return np.ascontiguousarray(convert(orient(image, orientation), image_type, DALIDataType.UINT8))
    except ValueError as error:
        raise RuntimeError(f"{path}: {error}") from error


def _jpeg(data: np.ndarray, image_type: DALIImageType) -> np.ndarray:
    import cv2

    if b"\xff\xd9" not in data[-64:].tobytes():  # OpenCV fills missing data with grey
        raise ValueError("Premature end of JPEG data: the file is truncated")
    return decode_opencv(data, "JPEG", cv2.IMREAD_GRAYSCALE if image_type == DALIImageType.GRAY else cv2.IMREAD_COLOR)
