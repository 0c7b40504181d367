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
    from asyncdali.readers.tfrecord.tfrecord_crc_kernels import checksum

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


# --- Caffe and Caffe2


def datum(data: bytes, label: int | None = None, shape: tuple[int, int, int] | None = None, encoded: bool | None = None) -> bytes:
    """A Caffe Datum; `shape` is (channels, height, width)."""
    out = b"".join(field(k + 1, extent) for k, extent in enumerate(shape or ())) + field(4, data)
    if label is not None:
        out += field(5, label)
    return out if encoded is None else out + field(7, int(encoded))


def tensor(values: Any, dims: Iterable[int] = ()) -> bytes:
    """A Caffe2 TensorProto: bytes as STRING, a uint8 array as BYTE, other arrays by their type."""
    if isinstance(values, bytes):
        return field(2, 4) + field(6, values)
    array = np.asarray(values)
    out = b"".join(field(1, int(extent)) for extent in (dims or array.shape))
    if array.dtype == np.uint8:
        return out + field(2, 3) + field(5, array.tobytes())
    if array.dtype == np.float32:
        return out + field(2, 1) + field(3, array.tobytes())
    kind, number = {"int32": (2, 4), "int64": (10, 10)}[str(array.dtype)]
    return out + field(2, kind) + field(number, b"".join(varint(int(value)) for value in array.ravel()))


def tensors(*parts: Any) -> bytes:
    """A Caffe2 TensorProtos."""
    return b"".join(field(1, part if isinstance(part, bytes) and part[:1] in (b"\x08", b"\x10") else tensor(part)) for part in parts)


def write_lmdb(path: Path | str, values: Iterable[bytes], keys: Iterable[bytes] | None = None) -> str:
    """A database written by LMDB itself; keys are numbers in ten digits unless given."""
    import lmdb

    items = list(values)
    room = (sum(map(len, items)) + 4096 * len(items)) * 2 + (1 << 20)
    with lmdb.open(str(path), map_size=room, sync=False) as database, database.begin(write=True) as transaction:
        for key, value in zip([b"%010d" % k for k in range(len(items))] if keys is None else keys, items, strict=True):
            transaction.put(key, value)
    return str(path)


# --- tar


def write_tar(path: Path | str, members: Iterable[tuple[str, bytes]], format: int | None = None) -> str:
    """An archive written by Python's tarfile; `format` as there (the default is ustar)."""
    import io
    import tarfile

    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT if format is None else format) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return str(path)


# --- RecordIO

MAGIC = b"\x0a\x23\xd7\xce"


def record_parts(payload: bytes, cuts: Iterable[int] = ()) -> bytes:
    """One record in several parts. At each of `cuts` the payload contains the magic word, which the format omits."""
    places = sorted(cuts)
    starts, ends = [0, *(cut + 4 for cut in places)], [*places, len(payload)]
    out = b""
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        kind = 0 if not places else 1 if number == 0 else 3 if number == len(places) else 2
        out += MAGIC + struct.pack("<I", kind << 29 | end - start) + payload[start:end] + bytes(-(end - start) % 4)
    return out


def recordio(image: bytes, label: Any, number: int = 0) -> bytes:
    """A record of an image with one label or a list of them."""
    several = isinstance(label, (list, tuple))
    payload = struct.pack("<IfQQ", len(label) if several else 0, 0 if several else label, number, 0)
    return record_parts(payload + (struct.pack(f"<{len(label)}f", *label) if several else b"") + image)


# --- FITS


def fits(*images: np.ndarray | None, **cards: Any) -> bytes:
    """A file of units; None is one without data, `cards` are added to each."""
    out = b""
    for number, image in enumerate(images):
        head = {"SIMPLE": "T"} if number == 0 else {"XTENSION": "'IMAGE   '"}
        bits = 8 if image is None else {"u1": 8, "i2": 16, "i4": 32, "i8": 64, "f4": -32, "f8": -64}[image.dtype.str[1:]]
        shape = () if image is None else image.shape[::-1]
        head |= {"BITPIX": bits, "NAXIS": len(shape), **{f"NAXIS{k + 1}": extent for k, extent in enumerate(shape)}}
        text = "".join(f"{name:<8}= {value!s:>20}".ljust(80) for name, value in {**head, **cards}.items()) + "END".ljust(80)
        data = b"" if image is None else image.astype(image.dtype.newbyteorder(">")).tobytes()
        out += text.ljust(-(-len(text) // 2880) * 2880).encode() + data + bytes(-len(data) % 2880)
    return out
