"""BMP: masks of colours."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from helpers.images import picture
from helpers.operators import run_operator

from asyncdali.operators.base import SampleError

RGB = picture(13, 20)


def bmp(masks: tuple[int, int, int], bits: int, header: int) -> bytes:
    """A BMP with bit fields. Each channel has as many bits as its mask."""
    values = np.zeros((13, 20), np.uint32)
    for channel, mask in enumerate(masks):
        shift, width = (mask & -mask).bit_length() - 1, mask.bit_count()
        values |= (RGB[:, :, channel].astype(np.uint32) >> (8 - min(width, 8))) << np.uint32(shift)
    rows = values[::-1].astype("<u4" if bits == 32 else "<u2").tobytes()
    head = struct.pack("<IiiHHIIiiII", header, 20, 13, 1, bits, 3, len(rows), 0, 0, 0, 0) + struct.pack("<III", *masks)
    head += bytes(max(0, header - len(head)))
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(rows), 0, 0, 14 + len(head)) + head + rows


BYTES = (0xFF, 0xFF00, 0xFF0000)


@pytest.mark.parametrize(
    ("masks", "bits", "header"),
    [
        ((0xFF0000, 0xFF00, 0xFF), 32, 40), ((0xFF0000, 0xFF00, 0xFF), 32, 52), (BYTES, 32, 56), (BYTES, 32, 108), (BYTES, 32, 124),
        ((0xFF00, 0xFF0000, 0xFF000000), 32, 124), ((0xFF0000, 0xFF, 0xFF00), 32, 56),
        ((0x7C00, 0x3E0, 0x1F), 16, 40), ((0xF800, 0x7E0, 0x1F), 16, 40),
    ],
)  # fmt: skip
def test_masks_that_are_followed(masks, bits, header):
    found = run_operator("decoders.image", [bmp(masks, bits, header)])[0]
    assert np.abs(found.astype(int) - RGB).max() <= (0 if bits == 32 else 8)


@pytest.mark.parametrize(
    ("masks", "bits", "header"),
    [
        (BYTES, 32, 40),
        (BYTES, 32, 52),
        ((0x3FF00000, 0xFFC00, 0x3FF), 32, 124),
        ((0xF00, 0xF0, 0xF), 16, 40),
        ((0xFF, 0xFF, 0xFF00), 32, 124),
    ],
)
def test_masks_that_opencv_does_not_follow_are_refused(masks, bits, header):
    """OpenCV gave other colours for them."""
    with pytest.raises(SampleError, match="colour masks .* is not supported"):
        run_operator("decoders.image", [bmp(masks, bits, header)])
