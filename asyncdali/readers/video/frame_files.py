"""Image files as the frames of a sequence."""

from __future__ import annotations

import numpy as np

from ...codecs.image_formats import convert, decode_opencv, decode_other, orient
from ...types import DALIDataType, DALIImageType
from ..containers.indices import read_bytes
from ..remote.remote import Opener


def read_frame(path: str, image_type: DALIImageType, open_file: Opener) -> np.ndarray:
    """The frame in a file, uint8[height, width, channels]; errors name the file."""
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
