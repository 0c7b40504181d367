"""Image files as the frames of a sequence."""

from __future__ import annotations

import numpy as np

from ...codecs.image_decoding import convert, decode_jpeg, decode_other, orient
from ...types import DALIDataType, DALIImageType

_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.GRAY: 1}


def are_final(channels: np.ndarray, image_type: DALIImageType) -> bool:
    """Whether the pixels that files store are the frames. `channels`: of the files, integers."""
    return image_type == DALIImageType.ANY_DATA or not np.count_nonzero(channels != _CHANNELS.get(image_type, 0))


def decode_frame(data: np.ndarray, image_type: DALIImageType, stored: np.ndarray | None = None) -> np.ndarray:
    """The frame in a file of bytes `data`: uint8[height, width, channels]. ValueError names the error in the data.

    `stored`: the decoded pixels of the file, if they are known.
    """
    if stored is not None:
        image, orientation = stored, 1
    elif data[:2].tobytes() == b"\xff\xd8":
        image, orientation = decode_jpeg(data, grey=image_type == DALIImageType.GRAY)
    else:
        image, orientation = decode_other(data, image_type)
    return np.ascontiguousarray(convert(orient(image, orientation), image_type, DALIDataType.UINT8))
