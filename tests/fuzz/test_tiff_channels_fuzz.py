"""Damaged headers of TIFFs with many channels: pixels or a ValueError, nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import tiff

from asyncdali.codecs.image_decoding import decode_other
from asyncdali.types import DALIImageType


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_headers(order, planar, compressed, capfd):
    rng = np.random.default_rng(7)
    decoded = 0
    for _ in range(400):
        channels = int(rng.integers(2, 9))
        image = rng.integers(0, 255, (6, 16, channels)).astype(rng.choice([np.uint8, np.uint16]))
        data = bytearray(tiff(image, 1, planar, 2, compressed, order))
        for _ in range(int(rng.integers(0, 4))):
            data[int(rng.integers(4, 170))] = int(rng.choice([0, 1, 2, 3, 16, 127, 128, 255, rng.integers(256)]))
        if rng.random() < 0.1:
            del data[int(rng.integers(10, len(data))) :]
        try:
            found, orientation = decode_other(np.frombuffer(bytes(data), np.uint8), DALIImageType.ANY_DATA)
        except ValueError:
            continue
        decoded += 1
        assert found.ndim == 3 and 1 <= orientation <= 8 and found.dtype in (np.uint8, np.uint16, np.float32)
    assert decoded > 40
