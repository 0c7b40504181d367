"""Checksums of FLAC frames and Ogg pages, beside the definition."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from asyncdali.codecs.audio.checksum_kernels import make_checksum
from asyncdali.compiled.step import compiled

_crc_16, _crc_32 = make_checksum(16, 0x8005), make_checksum(32, 0x04C11DB7)


@compiled(3)
def crc_16(value, source, count):
    return _crc_16(value, source, count)


@compiled(3)
def crc_32(value, source, count):
    return _crc_32(value, source, count)


def divided(data, bits, polynomial):
    """The remainder of the data, followed by zeros, in the division by the polynomial."""
    value = 0
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value >> (bits - 1) else 0)
            value &= (1 << bits) - 1
    return value


@pytest.mark.parametrize("checksum, bits, polynomial", [(crc_16, 16, 0x8005), (crc_32, 32, 0x04C11DB7)])
def test_all_lengths(checksum, bits, polynomial):
    data = np.random.default_rng(bits).integers(0, 256, 400, np.uint8)
    for count in (*range(70), 255, 256, 257, 400):
        whole = divided(data[:count].tolist(), bits, polynomial)
        assert checksum(0, data.ctypes.data, count) == whole, count
        for first in {0, min(1, count), count // 3, count // 2, count}:
            begun = checksum(0, data.ctypes.data, first)
            assert checksum(begun, data.ctypes.data + first, count - first) == whole, (count, first)


@pytest.mark.parametrize("features", ["+sse2", "+sse2,+ssse3,+sse4.1,+pclmul"])
def test_other_processors(features):
    """With tables only, and with the multiplication."""
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features}
    command = [sys.executable, "-m", "pytest", "-q", "-k", "test_all_lengths", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
