"""Writers of container formats, from their specifications: small ones for tests, fast enough for benchmarks."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

# --- protocol buffers


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes) -> bytes:
    """A number as varint, bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


# --- TFRecord


def feature(value: Any) -> bytes:
    """A Feature message: bytes (or a list of them), floats or integers by type; None is a feature without a list."""
    if value is None:
        return b""
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    if isinstance(value, bytes) or (values and isinstance(values[0], bytes)):
        return field(1, b"".join(field(1, item) for item in values))
    if values and isinstance(values[0], (float, np.floating)):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(int(item)) for item in values)))


def example(**features: Any) -> bytes:
    """A ``tensorflow.Example``."""
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature(value))) for name, value in features.items()))


def masked_crc(data: bytes) -> int:
    from asyncdali.readers.crc_kernels import checksum

    array = np.frombuffer(data + b"\0", np.uint8)
    crc = checksum(array.ctypes.data, len(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + struct.pack("<I", masked_crc(payload))


def write_tfrecord(path: Path | str, payloads: Iterable[bytes], index: bool = True) -> str:
    """A TFRecord file, and its index beside it as ``<path>.idx``; returns the path."""
    lines, at = [], 0
    with open(path, "wb") as file:
        for payload in payloads:
            record = frame(payload)
            file.write(record)
            lines.append(f"{at} {len(record)}\n")
            at += len(record)
    if index:
        Path(f"{path}.idx").write_text("".join(lines))
    return str(path)
